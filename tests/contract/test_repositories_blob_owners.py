"""What the sweep and `verify` rely on when they ask who needs a file, on every database."""

import pytest
from sqlalchemy.exc import IntegrityError

from app.db import Database
from app.db.tables import BlobOwnerRow
from app.storage import repository
from tests.builders import count_rows, interrupted_write

A, B, C = "a" * 64, "b" * 64, "c" * 64


def own(database: Database, owner_id: str, sizes: dict[str, int]) -> None:
    with database.write() as session:
        repository.own(session, owner_id, sizes)


def owners(database: Database) -> dict[str, set[str]]:
    with database.read() as session:
        return {sha256: set(ids) for sha256, ids in repository.owners(session).items()}


def test_a_blob_may_have_several_owners_and_an_owner_several_blobs(database: Database) -> None:
    own(database, "ds_1", {A: 1, B: 2**40})
    own(database, "mdl_1", {B: 2**40, C: 3})
    assert owners(database) == {A: {"ds_1"}, B: {"ds_1", "mdl_1"}, C: {"mdl_1"}}


def test_disowning_leaves_what_others_own(database: Database) -> None:
    own(database, "ds_1", {A: 1, B: 2})
    own(database, "ds_2", {B: 2})
    with database.write() as session:
        repository.disown(session, "ds_1")
        repository.disown(session, "ds_3")
    assert owners(database) == {B: {"ds_2"}}


def test_owning_nothing_and_asking_an_empty_table_work(database: Database) -> None:
    own(database, "ds_1", {})
    assert owners(database) == {}


def test_ownership_is_part_of_the_owners_transaction(database: Database) -> None:
    with interrupted_write(database) as session:
        repository.own(session, "ds_1", {A: 1})
    assert owners(database) == {}


def test_owning_twice_is_a_mistake_that_is_seen(database: Database) -> None:
    own(database, "ds_1", {A: 1})
    with pytest.raises(IntegrityError):
        own(database, "ds_1", {A: 1})
    assert count_rows(database, BlobOwnerRow) == 1
