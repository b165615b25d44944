"""Resumable uploads step by step: what is durable when, what a part may hold, and what is forgotten."""

import errno
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.datasets.formats import ReadOptions
from app.datasets.uploads import service
from app.datasets.uploads.part_files import Part, PartFiles
from app.db import Database
from app.db.tables import UploadRow
from app.errors import Conflict, Invalid, Locked, NotFound, PayloadTooLarge
from app.storage.blobs import UntrustedBytes, hash_file
from tests.support.builders import NOBODY, empty_tables, migrated_database, temporary_settings

CSV = {"Content-Type": "text/csv"}
MOST = 1000


@pytest.fixture
def parts(tmp_path: Path) -> PartFiles:
    return PartFiles(tmp_path)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return temporary_settings(tmp_path_factory.mktemp("uploads"), max_upload_bytes=MOST, upload_idle_seconds=100.0)


@pytest.fixture(scope="module")
def module_database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


@pytest.fixture
def database(module_database: Database) -> Database:
    empty_tables(module_database.engine)
    return module_database


# --- files ------------------------------------------------------------------------------------------------------------


def synced(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """Names of what is made durable from now on."""
    names, fsync = list[str](), os.fsync

    def note(handle: int) -> None:
        names.append(os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), root))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    return names


def test_a_new_file_is_durable_with_its_folders(
    parts: PartFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = synced(monkeypatch, tmp_path)
    parts.create("up_1")
    assert names == [".", ".", "uploads"], "also where another process made the folder and failed"
    parts.create("up_2")
    assert names == [".", ".", "uploads", "uploads"]
    with pytest.raises(FileExistsError):
        parts.create("up_1")
    parts.path("up_1").write_bytes(b"lost")
    inode = parts.path("up_1").stat().st_ino
    names.clear()
    parts.replace("up_1")
    assert (parts.path("up_1").read_bytes(), names) == (b"", ["uploads"])
    assert parts.path("up_1").stat().st_ino != inode
    parts.remove("up_1")
    parts.remove("up_1")
    assert [file.name for file in (tmp_path / "uploads").iterdir()] == ["up_2"]


def test_a_store_that_is_away_gets_no_upload(tmp_path: Path) -> None:
    def away() -> None:
        raise OSError(errno.ENOTCONN, "away")

    parts = PartFiles(tmp_path, away)
    for act in (lambda: parts.create("up_1"), lambda: parts.lock("up_1")):
        with pytest.raises(OSError, match="away"):
            act()
    assert list(tmp_path.iterdir()) == []


def test_one_writer_at_a_time(parts: PartFiles) -> None:
    parts.create("up_1")
    with parts.lock("up_1"), pytest.raises(Locked):
        parts.lock("up_1")
    before = len(os.listdir("/proc/self/fd"))
    parts.lock("up_1").close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(FileNotFoundError):
        parts.lock("up_2")


def test_only_old_files_are_told(parts: PartFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(parts.older_than(0.0)) == []
    for name, age in (("up_1", 100.0), ("up_2", 0.0)):
        parts.create(name)
        os.utime(parts.path(name), (time.time() - age, time.time() - age))
    assert list(parts.older_than(99.0)) == ["up_1"]
    assert list(parts.older_than(200.0)) == []
    assert sorted(parts.older_than(0.0)) == ["up_1", "up_2"]


def opened(parts: PartFiles, offset: int = 0, content: bytes = b"") -> Part:
    parts.create("up_1")
    parts.path("up_1").write_bytes(content)
    return Part(parts.lock("up_1"), parts.path("up_1"), offset)


def test_bytes_follow_the_offset_and_the_rest_is_cut_off(parts: PartFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, chunk, offset: pwrite(handle, bytes(chunk)[:2], offset))
    with opened(parts, 3, b"abcOLD, and longer") as part:
        part.write(b"defgh")
        assert (part.offset, part.durable_offset, part.is_trusted) == (8, 3, True)
        assert part.sync() == 8
        assert part.durable_offset == 8
        assert part.seal() == hash_file(parts.path("up_1"))
    assert parts.path("up_1").read_bytes() == b"abcdefgh"
    parts.lock("up_1").close()  # the end of the block unlocked it


@pytest.mark.parametrize("call", ["pwrite", "fsync", "truncate"])
def test_after_a_failure_nothing_is_believed(parts: PartFiles, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    part = opened(parts)
    part.write(b"first")
    part.sync()

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "made up")

    with monkeypatch.context() as broken:
        if call == "truncate":
            part._file.close()
            part._file = type("File", (), {"truncate": fail, "fileno": lambda _: 0, "close": lambda _: None})()
        else:
            broken.setattr(os, call, fail)
        with pytest.raises(UntrustedBytes, match="made up") as failed:
            part.seal() if call != "pwrite" else part.write(b"second")
    assert failed.value.errno == errno.EIO
    assert (part.is_trusted, part.durable_offset) == (False, 5)
    for act in (part.sync, part.seal, lambda: part.write(b"x")):
        with pytest.raises(UntrustedBytes, match="earlier write"):
            act()
    part.close()


# --- rows -------------------------------------------------------------------------------------------------------------


def begun(database: Database, parts: PartFiles, length: int | None = None) -> UploadRow:
    with database.write() as session:
        return service.begin(session, parts, "csv", ReadOptions(), "n", {"k": "v"}, length)


def received(database: Database, upload_id: str) -> int:
    with database.read() as session:
        return service.get(session, upload_id).received


def test_an_upload_begins_empty_and_ends_by_itself(database: Database, parts: PartFiles, settings: Settings) -> None:
    upload = begun(database, parts, 7)
    assert parts.path(upload.id).read_bytes() == b""
    shown = service.show(upload, settings)
    assert (shown["offset"], shown["length"], shown["complete"], shown["dataset_id"]) == (0, 7, False, None)
    assert shown["expires_at"] == upload.created_at + timedelta(seconds=100)
    upload.dataset_id = "ds_1"
    assert service.show(upload, settings)["complete"] is True
    for unknown in (f"up_{NOBODY}", "up_1", f"ds_{NOBODY}"):
        with database.read() as session, pytest.raises(NotFound):
            service.get(session, unknown)


def test_a_part_is_opened_where_the_upload_is(database: Database, parts: PartFiles) -> None:
    upload = begun(database, parts)
    found, part = service.open_part(database, parts, upload.id, 0)
    with part:
        part.write(b"12345")
        service.acknowledge(database, upload.id, part)
        assert (found.id, received(database, upload.id)) == (upload.id, 5)
        with pytest.raises(Locked):
            service.open_part(database, parts, upload.id, 5)
    for offset in (0, 4, 6):
        with pytest.raises(Conflict, match="5 bytes are stored") as refused:
            service.open_part(database, parts, upload.id, offset)
        assert (refused.value.code, refused.value.headers) == ("offset_mismatch", {"Upload-Offset": "5"})
    _, part = service.open_part(database, parts, upload.id, 5)
    assert (part.offset, part.path) == (5, parts.path(upload.id))
    part.close()
    service.complete(database, parts, upload.id, "ds_1")
    assert not parts.path(upload.id).exists()
    with pytest.raises(Conflict) as refused:
        service.open_part(database, parts, upload.id, 5)
    assert refused.value.code == "upload_complete"
    parts.path(upload.id).touch()  # a process that was killed before it removed the file
    with pytest.raises(Conflict) as refused:
        service.open_part(database, parts, upload.id, 5)
    assert refused.value.code == "upload_complete"
    parts.lock(upload.id).close()  # the refusal left no lock
    with pytest.raises(NotFound):
        service.open_part(database, parts, f"up_{NOBODY}", 0)


def test_an_upload_whose_file_is_gone_is_gone(database: Database, parts: PartFiles) -> None:
    upload = begun(database, parts)
    parts.remove(upload.id)
    with pytest.raises(NotFound):
        service.open_part(database, parts, upload.id, 0)


def test_an_abandoned_upload_leaves_nothing(database: Database, parts: PartFiles) -> None:
    upload, other = begun(database, parts), begun(database, parts)
    _, part = service.open_part(database, parts, upload.id, 0)
    service.abandon(database, parts, upload.id)
    assert not parts.path(upload.id).exists()
    with part, pytest.raises(NotFound, match="deleted during this request"):
        service.acknowledge(database, upload.id, part)
    for _ in range(2):
        with pytest.raises(NotFound):
            service.abandon(database, parts, upload.id)
    assert received(database, other.id) == 0


def test_a_sealed_upload_takes_no_more(database: Database, parts: PartFiles, settings: Settings) -> None:
    upload = begun(database, parts)
    _, part = service.open_part(database, parts, upload.id, 0)
    with part:
        part.write(b"12345")
        whole = service.seal(database, upload, part)
    assert (whole.sha256, whole.size) == (hash_file(parts.path(upload.id)), 5)
    assert (whole.file_format, whole.options, whole.name, whole.labels) == ("csv", ReadOptions(), "n", {"k": "v"})
    with database.read() as session:
        sealed = service.get(session, upload.id)
    assert sealed.length == 5
    service.check_room(sealed, settings, 5)
    with pytest.raises(PayloadTooLarge, match="Upload-Length of 5 bytes"):
        service.check_room(sealed, settings, 6)


def test_an_upload_that_is_not_whole_is_not_sealed(database: Database, parts: PartFiles, settings: Settings) -> None:
    upload = begun(database, parts, 6)
    _, part = service.open_part(database, parts, upload.id, 0)
    with part:
        part.write(b"12345")
        with pytest.raises(Invalid, match="6 bytes, but 5 have arrived") as refused:
            service.seal(database, upload, part)
        assert refused.value.code == "upload_incomplete"
        part.write(b"6")
        assert service.seal(database, upload, part).size == 6
    service.check_room(upload, settings, 6)
    service.check_length(MOST, settings)
    for refuse in (lambda: service.check_length(MOST + 1, settings), lambda: service.check_room(upload, settings, 7)):
        with pytest.raises(PayloadTooLarge):
            refuse()


def test_an_upload_that_begins_again_has_nothing(database: Database, parts: PartFiles) -> None:
    upload = begun(database, parts)
    _, part = service.open_part(database, parts, upload.id, 0)
    with part:
        part.write(b"12345")
        service.acknowledge(database, upload.id, part)
        service.begin_again(database, parts, upload.id)
    assert (received(database, upload.id), parts.path(upload.id).read_bytes()) == (0, b"")


def test_what_nobody_goes_on_with_is_forgotten(database: Database, tmp_path: Path, settings: Settings) -> None:
    checked: list[int] = []
    parts = PartFiles(tmp_path, lambda: checked.append(1))
    idle, active, old = (begun(database, parts) for _ in range(3))
    parts.create("up_left_old")
    parts.create("up_left_young")
    checked.clear()
    with database.write() as session:
        session.get_one(UploadRow, idle.id).updated_at = datetime.now(UTC) - timedelta(seconds=101)
        session.get_one(UploadRow, active.id).updated_at = datetime.now(UTC) - timedelta(seconds=90)
    for name in (old.id, "up_left_old"):
        os.utime(parts.path(name), (0, 0))
    service.forget_idle(database, parts, settings)
    assert sorted(file.name for file in (tmp_path / "uploads").iterdir()) == sorted(
        [active.id, old.id, "up_left_young"]
    )
    assert checked == [1], "the files of another database would have no row here"
    with database.read() as session, pytest.raises(NotFound):
        service.get(session, idle.id)
    assert [received(database, one.id) for one in (active, old)] == [0, 0]
