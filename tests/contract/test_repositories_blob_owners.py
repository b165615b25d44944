"""What the sweep and `verify` rely on when they ask who needs a file, on every database."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from app.db import Database
from app.db.tables import BlobOwnerRow
from app.storage import BlobStore, ownership
from app.storage.ownership import BlobsGone, own_existing, reclaim
from tests.support.builders import count_rows, interrupted_write

A, B, C = "a" * 64, "b" * 64, "c" * 64


def own(database: Database, owner_id: str, sizes: dict[str, int]) -> None:
    with database.write() as session:
        ownership.own(session, owner_id, sizes)


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
        ownership.own(session, "ds_1", {A: 1})
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
        own_existing(session, blobs, "ds_1", {here: 4})
    with pytest.raises(BlobsGone), database.write() as session:
        own_existing(session, blobs, "ds_2", {here: 4, C: 1})
    assert owners(database) == {here: {"ds_1"}}


def test_who_owns_and_who_deletes_wait_for_each_other(database: Database, tmp_path: Path) -> None:
    """A delete that comes while a unit of work is owning the blob sees the owner and leaves it."""
    blobs = BlobStore(tmp_path)
    blob = blobs.put(b"wanted")
    owning, freed = threading.Event(), []

    def delete() -> None:
        owning.wait(20)
        freed.append(reclaim(database, blobs, [blob]))

    thread = threading.Thread(target=delete)
    thread.start()
    with database.write() as session:
        own_existing(session, blobs, "ds_1", {blob: 6})
        session.flush()
        owning.set()
        time.sleep(0.3)
        assert freed == []
    thread.join(20)
    assert freed == [0]
    assert list(blobs) == [blob]
