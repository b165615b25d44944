"""What the sweep and `verify` rely on when they ask who needs a file, on every database."""

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from app.db import Database
from app.db.tables import BlobOwnerRow
from app.storage import BlobStore, ownership
from app.storage.ownership import BlobsGone, reclaim, sweep
from tests.support.builders import ANY_BLOBS, count_rows, interrupted_write

A, B, C = "a" * 64, "b" * 64, "c" * 64


def own(database: Database, owner_id: str, sizes: dict[str, int]) -> None:
    with database.write() as session:
        ownership.own(session, ANY_BLOBS, owner_id, sizes)


def owners(database: Database) -> dict[str, set[str]]:
    with database.read() as session:
        return {sha256: set(ids) for sha256, ids in ownership.owners(session).items()}


def test_a_blob_may_have_several_owners_and_an_owner_several_blobs(database: Database) -> None:
    own(database, "ds_1", {A: 1, B: 2**40})
    own(database, "mdl_1", {B: 2**40, C: 3})
    assert owners(database) == {A: {"ds_1"}, B: {"ds_1", "mdl_1"}, C: {"mdl_1"}}


def test_disowning_leaves_what_others_own(database: Database) -> None:
    own(database, "ds_1", {A: 1, B: 2})
    own(database, "ds_2", {B: 2})
    with database.write() as session:
        assert sorted(ownership.disown(session, "ds_1")) == [A, B]
        assert ownership.disown(session, "ds_3") == []
    assert owners(database) == {B: {"ds_2"}}


def test_owning_nothing_and_asking_an_empty_table_work(database: Database) -> None:
    own(database, "ds_1", {})
    assert owners(database) == {}


def test_ownership_is_part_of_the_owners_transaction(database: Database) -> None:
    with interrupted_write(database) as session:
        ownership.own(session, ANY_BLOBS, "ds_1", {A: 1})
    assert owners(database) == {}


def test_owning_twice_is_a_mistake_that_is_seen(database: Database) -> None:
    own(database, "ds_1", {A: 1})
    with pytest.raises(IntegrityError):
        own(database, "ds_1", {A: 1})
    assert count_rows(database, BlobOwnerRow) == 1


def test_owned_among_names_what_somebody_needs(database: Database) -> None:
    own(database, "ds_1", {A: 1, B: 2})
    with database.read() as session:
        assert ownership.owned_among(session, [A, C]) == {A}
        assert ownership.owned_among(session, []) == set()


def test_reclaiming_deletes_only_what_nobody_owns(database: Database, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    mine, shared = blobs.put(b"mine"), blobs.put(b"shared!")
    own(database, "ds_1", {shared: 7})
    assert reclaim(database, blobs, [mine, shared, C]) == 4
    assert list(blobs) == [shared]


def test_a_blob_that_is_gone_cannot_be_owned(database: Database, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    here = blobs.put(b"here")
    with database.write() as session:
        ownership.own(session, blobs, "ds_1", {here: 4})
    with pytest.raises(BlobsGone), database.write() as session:
        ownership.own(session, blobs, "ds_2", {here: 4, C: 1})
    assert owners(database) == {here: {"ds_1"}}


def test_who_owns_and_who_deletes_wait_for_each_other(database: Database, tmp_path: Path) -> None:
    """A delete by another process that comes while a unit of work is owning the blob sees the owner and leaves it.

    It comes at once after the look for the file, when the unit of work has sent no statement of its own yet.
    """
    blobs = BlobStore(tmp_path)
    blob = blobs.put(b"wanted")
    owning, freed = threading.Event(), []
    other = Database(database.url.render_as_string(hide_password=False))

    def delete() -> None:
        owning.wait(20)
        freed.append(reclaim(other, blobs, [blob]))

    thread = threading.Thread(target=delete)
    thread.start()
    with database.write() as session:
        ownership.own(session, blobs, "ds_1", {blob: 6})
        owning.set()
        time.sleep(0.3)
        assert freed == []
    thread.join(20)
    other.close()
    assert freed == [0]
    assert list(blobs) == [blob]


def test_a_blob_that_was_deleted_is_written_again_by_its_new_owner(database: Database, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blob = blobs.put(b"twin")
    assert reclaim(database, blobs, [blob]) == 4  # the last owner of a twin gave it up
    with database.write() as session:
        ownership.own(session, blobs, "mdl_1", {blob: 4}, {blob: partial(blobs.put, b"twin")})
    assert blobs.is_intact(blob)
    assert owners(database) == {blob: {"mdl_1"}}


def test_the_sweep_takes_only_what_is_old_and_nobodys(database: Database, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    owned, old, new = blobs.put(b"one"), blobs.put(b"three"), blobs.put(b"two")
    own(database, "ds_1", {owned: 3})
    for blob in (owned, old):
        os.utime(blobs.path(blob), (time.time() - 7200.0,) * 2)
    assert sweep(database, blobs, 3600.0) == 5
    assert sorted(blobs) == sorted([owned, new])
    assert sweep(database, blobs, 0.0) == 3
    assert list(blobs) == [owned]


def test_the_sweep_leaves_what_was_owned_since_it_looked(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = BlobStore(tmp_path)
    blob = blobs.put(b"wanted")
    look = blobs.sweep_staging

    def own_then_look(grace_seconds: float) -> int:
        own(database, "ds_1", {blob: 6})
        return look(grace_seconds)

    monkeypatch.setattr(blobs, "sweep_staging", own_then_look)
    assert sweep(database, blobs, 0.0) == 0
    assert list(blobs) == [blob]


def test_a_storage_that_fails_leaves_the_bytes_to_the_sweep(database: Database, tmp_path: Path) -> None:
    """The rows that gave them up are committed: the request must not fail for it."""
    failing = [True]

    def check(_establish: bool) -> None:
        if failing[0]:
            raise OSError(5, "made up")

    blob = BlobStore(tmp_path).put(b"left")
    blobs = BlobStore(tmp_path, check)
    assert reclaim(database, blobs, [blob]) == 0
    failing[0] = False
    assert sweep(database, blobs, 0.0) == 4
