"""Who owns a blob and who deletes one, each step by itself; what two of them do at once is a test of contracts."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy.orm import Session

from app.db import Database
from app.db.tables import BlobOwnerRow
from app.storage import BlobStore, ownership
from app.storage.ownership import BlobsGone, reclaim, sweep
from tests.support.builders import ANY_BLOBS, migrated_database

A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with migrated_database(f"sqlite:///{tmp_path / 'owners.sqlite3'}") as database:
        yield database


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


def own(database: Database, owner_id: str, sizes: dict[str, int], blobs: BlobStore = ANY_BLOBS, **named: Any) -> None:
    with database.write() as session:
        ownership.own(session, blobs, owner_id, sizes, **named)


def owners(database: Database) -> dict[str, list[str]]:
    with database.read() as session:
        return {sha256: sorted(ids) for sha256, ids in ownership.owners(session).items()}


def test_some_or_all_blobs_of_a_row_are_given_up(database: Database) -> None:
    own(database, "ds_1", {A: 1, B: 2, C: 3})
    own(database, "ds_2", {A: 1, B: 2})
    with database.read() as session:
        assert ownership.sizes(session, "ds_1") == {A: 1, B: 2, C: 3}
        assert ownership.sizes(session, "ds_3") == {}
        assert ownership.owned_among(session, [B, "d" * 64]) == {B}
    with database.write() as session:
        session.get_one(BlobOwnerRow, (A, "ds_1"))
        ownership.give_up(session, "ds_1", [A, C])
    assert owners(database) == {A: ["ds_2"], B: ["ds_1", "ds_2"]}
    with database.write() as session:
        ownership.give_up(session, "ds_1", [])
        assert sorted(ownership.disown(session, "ds_2")) == [A, B]
    assert owners(database) == {B: ["ds_1"]}


def test_a_blob_that_is_gone_is_written_again_or_not_owned(database: Database, store: BlobStore) -> None:
    here = store.put(b"here")
    gone = store.put(b"gone")
    store.remove(gone)
    for rewrites in (None, {}, {here: lambda: None}):
        with pytest.raises(BlobsGone, match=gone):
            own(database, "ds_1", {here: 4, gone: 4}, store, rewrites=rewrites)
        assert owners(database) == {}
    own(database, "ds_1", {here: 4, gone: 4}, store, rewrites={gone: lambda: store.put(b"gone"), here: None})
    assert owners(database) == {here: ["ds_1"], gone: ["ds_1"]}
    assert store.is_intact(gone)


def test_only_what_nobody_owns_is_deleted(database: Database, store: BlobStore) -> None:
    owned, free, young = store.put(b"owned"), store.put(b"free!!"), store.put(b"young")
    own(database, "ds_1", {owned: 5}, store)
    for one in (owned, free):
        os.utime(store.path(one), (0, 0))
    assert reclaim(database, store, []) == 0
    assert reclaim(database, store, [owned, free, young, A], 100.0) == 6
    assert sorted(store) == sorted([owned, young])
    assert reclaim(database, store, [owned, young]) == 5
    assert list(store) == [owned]


def test_a_store_that_is_away_deletes_nothing_and_that_is_no_failure(database: Database, store: BlobStore) -> None:
    free = store.put(b"free")
    for fails_at in (0, 1):
        asked: list[bool] = []

        def check(establish: bool, asked: list[bool] = asked, fails_at: int = fails_at) -> None:
            asked.append(establish)
            if len(asked) > fails_at:
                raise OSError(107, "away")

        store._check = check
        assert reclaim(database, store, [free]) == 0
        assert asked == [True, False][: fails_at + 1], "it is founded before the transaction, and looked at within it"
        with pytest.raises(OSError, match="away"):
            sweep(database, store, 0.0)
    store._check = None
    assert list(store) == [free]


def test_a_sweep_goes_through_everything_in_batches(
    database: Database, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "SWEPT_AT_ONCE", 3)
    hashes = [store.put(b"%d" % number) for number in range(10)]
    own(database, "ds_1", {hashes[0]: 1}, store)
    own(database, "ds_2", {hashes[0]: 1, hashes[1]: 1}, store)
    for one in hashes[:9]:
        os.utime(store.path(one), (0, 0))
    left = store.staging / "left"
    left.write_bytes(b"12345")
    os.utime(left, (0, 0))
    batches: list[int] = []
    real = ownership.reclaim

    def noted(database: Database, blobs: BlobStore, candidates: Any, grace_seconds: float = 0.0) -> int:
        batches.append(len(candidates))
        return real(database, blobs, candidates, grace_seconds)

    monkeypatch.setattr(ownership, "reclaim", noted)
    assert sweep(database, store, 100.0) == 7 + 5
    assert sorted(store) == sorted([hashes[0], hashes[1], hashes[9]])
    assert batches == [3, 3, 1]
    assert not left.exists()


def test_a_blob_that_gets_an_owner_during_a_sweep_is_left(
    database: Database, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = store.put(b"free")
    os.utime(store.path(free), (0, 0))
    untouched = BlobStore.untouched

    def owned_meanwhile(blobs: BlobStore, seconds: float) -> Iterator[str]:
        found = list(untouched(blobs, seconds))
        own(database, "ds_1", {free: 4}, store)
        return iter(found)

    monkeypatch.setattr(BlobStore, "untouched", owned_meanwhile)
    assert sweep(database, store, 100.0) == 0
    assert list(store) == [free]


class Recorded:
    """A session whose database is PostgreSQL, or says so; notes statements."""

    def __init__(self, dialect: str) -> None:
        self.statements: list[str] = []
        self._dialect = SimpleNamespace(name=dialect)

    def connection(self) -> Any:
        return SimpleNamespace(dialect=self._dialect, exec_driver_sql=self.statements.append)

    def add_all(self, rows: Any) -> None:
        self.statements.append(f"{len(list(rows))} rows")


def test_owners_share_a_lock_that_who_deletes_holds_alone() -> None:
    session = Recorded("postgresql")
    ownership.own(cast(Session, session), ANY_BLOBS, "ds_1", {A: 1})
    assert session.statements == ["SELECT pg_advisory_xact_lock_shared(7165318228)", "1 rows"]
    session.statements.clear()
    ownership.lock(cast(Session, session))
    assert session.statements == ["SELECT pg_advisory_xact_lock(7165318228)"]
    alone = Recorded("sqlite")
    ownership.lock(cast(Session, alone))
    assert alone.statements == []
