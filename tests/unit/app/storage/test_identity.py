"""A store has an id that its database knows: another folder, or an empty one, is refused."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db import Database
from app.db.tables import StoreRow
from app.storage import BlobStore, ownership
from app.storage.identity import StoreAway, StoreIdentity, open_store
from tests.support.builders import ANY_BLOBS, count_rows, migrated_database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with migrated_database(database_url) as database:
        yield database


def test_a_new_store_and_its_database_get_one_id(database: Database, tmp_path: Path) -> None:
    blobs = open_store(tmp_path / "store", database)
    sha256 = blobs.put(b"kept")
    with database.read() as session:
        known = session.get_one(StoreRow, 1).id
    assert (tmp_path / "store" / "store.id").read_text().strip() == known
    assert list(open_store(tmp_path / "store", database)) == [sha256]
    assert count_rows(database, StoreRow) == 1


def test_processes_that_start_at_once_agree(database: Database, tmp_path: Path) -> None:
    together, failed = threading.Barrier(8), []

    def start() -> None:
        together.wait(20)
        try:
            StoreIdentity(database, tmp_path / "store").check()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, count_rows(database, StoreRow)) == ([], 1)
    assert [file.name for file in (tmp_path / "store").iterdir() if file.is_file()] == ["store.id"]


@pytest.mark.parametrize("instead", ["empty", "another", "gone"])
def test_a_folder_that_is_not_the_store_is_neither_read_nor_written(
    database: Database, tmp_path: Path, instead: str
) -> None:
    folder = tmp_path / "store"
    blobs = open_store(folder, database)
    sha256 = blobs.put(b"kept")
    folder.rename(tmp_path / "unmounted")
    if instead != "gone":
        folder.mkdir()
    if instead == "another":
        (folder / "store.id").write_text("st_another\n")
        BlobStore(folder).put(b"of another database")
    before = sorted(folder.rglob("*"))
    uses = (blobs.stage, blobs.check_writable, lambda: blobs.path(sha256), lambda: list(blobs), lambda: blobs.put(b"x"))
    for use in (*uses, lambda: ownership.sweep(database, blobs, 0.0), open_store(folder, database).check):
        with pytest.raises(StoreAway, match="accept-store"):
            use()
    with database.write() as session, pytest.raises(StoreAway):
        ownership.own(session, blobs, "ds_1", {sha256: 4})
    assert sorted(folder.rglob("*")) == before


def test_a_store_that_is_back_is_used_again(database: Database, tmp_path: Path) -> None:
    blobs = open_store(tmp_path / "store", database)
    sha256 = blobs.put(b"kept")
    (tmp_path / "store").rename(tmp_path / "unmounted")
    with pytest.raises(StoreAway):
        blobs.check()
    (tmp_path / "unmounted").rename(tmp_path / "store")
    assert blobs.is_intact(sha256)


def test_a_missing_file_is_explained_by_a_store_that_is_away(database: Database, tmp_path: Path) -> None:
    blobs, missing = open_store(tmp_path / "store", database), FileNotFoundError(2, "gone")
    blobs.check()
    assert blobs.explain(missing) is missing
    (tmp_path / "store" / "store.id").unlink()
    assert isinstance(blobs.explain(missing), StoreAway)
    assert not isinstance(blobs.explain(OSError(5, "failed")), StoreAway)


def test_another_folder_is_accepted_only_by_name(database: Database, tmp_path: Path) -> None:
    open_store(tmp_path / "first", database).check()
    second = open_store(tmp_path / "second", database)
    with pytest.raises(StoreAway):
        second.check()
    identity = StoreIdentity(database, tmp_path / "second").accept()
    second.put(b"here from now on")
    with pytest.raises(StoreAway, match=identity):
        open_store(tmp_path / "first", database).put(b"lost")


def test_a_store_of_an_earlier_version_gets_an_id_if_it_has_the_files(database: Database, tmp_path: Path) -> None:
    """An upgrade while the volume is not mounted must not make the empty folder the store."""
    sha256 = BlobStore(tmp_path / "store").put(b"kept")
    with database.write() as session:
        ownership.own(session, ANY_BLOBS, "ds_1", {sha256: 4})
    with pytest.raises(StoreAway, match="none of 1 files"):
        open_store(tmp_path / "empty", database).check()
    assert not (tmp_path / "empty").exists()
    open_store(tmp_path / "store", database).check()
    assert (tmp_path / "store" / "store.id").exists()
