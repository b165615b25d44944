"""How a folder gets the id by which its database knows it, and which folders are refused."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.db import Database
from app.db.tables import StoreRow
from app.storage import ownership
from app.storage.identity import StoreAway, StoreIdentity, open_store
from tests.support.builders import ANY_BLOBS, migrated_database
from tests.support.file_calls import FileCalls


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with migrated_database(f"sqlite:///{tmp_path / 'store.sqlite3'}") as database:
        yield database


def test_an_id_is_durable_before_the_database_knows_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    calls = FileCalls(monkeypatch, root)
    StoreIdentity(database, root).check()
    assert calls.done[-3:] == [("fsync", "store.id.*"), ("link", "store.id.*", "store.id"), ("fsync", ".")]
    assert ("fsync", "..") in calls.done, "the folder itself is durable"
    identity = (root / "store.id").read_text()
    assert (len(identity), identity[:3], identity[-1]) == (36, "st_", "\n")
    assert sorted(path.name for path in root.iterdir()) == ["blobs", "staging", "store.id"]
    with database.read() as session:
        assert session.get_one(StoreRow, 1).id == identity.strip()


def test_what_is_only_read_founds_no_store(database: Database, tmp_path: Path) -> None:
    identity = StoreIdentity(database, tmp_path / "store")
    identity.check(establish=False)
    assert not (tmp_path / "store").exists()
    identity.check()
    identity.check(establish=False)
    (tmp_path / "store" / "store.id").unlink()
    with pytest.raises(StoreAway):
        identity.check(establish=False)


@pytest.mark.parametrize(("content", "words"), [(None, "has no store.id"), ("st_other\n", "is the store st_other")])
def test_another_folder_is_refused_with_its_name(
    database: Database, tmp_path: Path, content: str | None, words: str
) -> None:
    StoreIdentity(database, tmp_path / "store").check()
    other = tmp_path / "other"
    other.mkdir()
    if content is not None:
        (other / "store.id").write_text(content)
    with pytest.raises(StoreAway, match=words) as refused:
        StoreIdentity(database, other).check()
    assert refused.value.errno == errno.ENOTCONN
    assert "hyperplane accept-store" in str(refused.value.strerror)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_folder_is_accepted_with_its_folders_and_its_own_id(database: Database, tmp_path: Path, is_new: bool) -> None:
    if not is_new:
        StoreIdentity(database, tmp_path / "former").check()
    root = tmp_path / "store"
    root.mkdir()
    (root / "store.id").write_text("st_own\n")
    identity = StoreIdentity(database, root)
    assert identity.accept() == "st_own"
    assert sorted(path.name for path in root.iterdir()) == ["blobs", "staging", "store.id"]
    with database.read() as session:
        assert session.get_one(StoreRow, 1).id == "st_own"
    identity.check()
    fresh = StoreIdentity(database, tmp_path / "fresh")
    made = fresh.accept()
    assert (tmp_path / "fresh" / "store.id").read_text() == f"{made}\n"
    fresh.check()
    StoreIdentity(database, tmp_path / "fresh").check()


def test_an_older_database_needs_one_of_its_files(database: Database, tmp_path: Path) -> None:
    hashes = [f"{number:064d}" for number in range(25)]
    with database.write() as session:
        ownership.own(session, ANY_BLOBS, "ds_1", dict.fromkeys(hashes, 1))
    root = tmp_path / "store"
    with pytest.raises(StoreAway, match="none of 20 files") as refused:
        StoreIdentity(database, root).check()
    assert "hyperplane accept-store" in str(refused.value.strerror)
    assert not (root / "store.id").exists()
    kept = root / "blobs" / "00" / hashes[3][2:]
    kept.parent.mkdir(parents=True)
    kept.touch()
    StoreIdentity(database, root).check()
    assert (root / "store.id").exists()


def test_of_two_ids_at_once_the_first_counts(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process gives the folder its id between the look and the write."""
    root, link = tmp_path / "store", os.link

    def second(source: Any, target: Any) -> None:
        if Path(target).name == "store.id":
            Path(target).write_text("st_first\n")
        link(source, target)

    monkeypatch.setattr(os, "link", second)
    StoreIdentity(database, root).check()
    with database.read() as session:
        assert session.get_one(StoreRow, 1).id == "st_first"
    assert sorted(path.name for path in root.iterdir()) == ["blobs", "staging", "store.id"]


def test_a_database_that_got_its_store_meanwhile_keeps_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, here = StoreIdentity(database, tmp_path / "other"), StoreIdentity(database, tmp_path / "here")
    other.check()
    known, looks = other._known(), [None]
    monkeypatch.setattr(here, "_known", lambda: looks.pop() if looks else known)
    with pytest.raises(StoreAway, match=f"belongs to the store {known}"):
        here.check()


def test_an_opened_store_asks_its_database(database: Database, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", database)
    assert not (tmp_path / "store").exists(), "nothing is looked at before the first use"
    sha256 = store.put(b"content")
    assert open_store(tmp_path / "store", database).is_intact(sha256)
    with pytest.raises(StoreAway):
        open_store(tmp_path / "other", database).holds(sha256)
