"""The files of uploads: bytes that a disk can have lost are not acknowledged, and abandoned uploads are deleted."""

import errno
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.config import Settings
from app.datasets.formats import ReadOptions
from app.datasets.reading.receive import UploadBuffers
from app.datasets.uploads import endpoints as upload_endpoints
from app.datasets.uploads import repository as uploads_repository
from app.datasets.uploads import service as uploads
from app.datasets.uploads.part_files import Part, PartFiles
from app.db import Database
from app.db.tables import UploadRow
from app.main import create_app
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path)


@pytest.fixture(autouse=True)
def database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


class FailingSync:
    """From now on the n-th fsync of an upload's file fails, once, as the kernel reports a lost write once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
        self.calls, fsync = 0, os.fsync

        def sync(handle: int) -> None:
            if Path(os.readlink(f"/proc/self/fd/{handle}")).parent == folder:
                self.calls += 1
                if self.calls == number:
                    raise OSError(errno.EIO, "made up")
            fsync(handle)

        monkeypatch.setattr(os, "fsync", sync)


def test_bytes_whose_fsync_failed_are_not_acknowledged(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second fsync would succeed although the bytes are lost."""
    http = InProcess(create_app(settings))
    location = http.post("/v1/uploads", headers={"Content-Type": "text/csv"}).headers["location"]
    assert http.request("PATCH", location, content=b"a,y\n", headers={"Upload-Offset": "0"}).status_code == 204
    monkeypatch.setattr(UploadBuffers, "write_bytes", 4)
    monkeypatch.setattr(upload_endpoints, "SYNC_BYTES", 4)
    disk = FailingSync(monkeypatch, settings.data_dir / "uploads", 1)

    async def lines() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"1,0\n"

    lost = http.request("PATCH", location, content=lines(), headers={"Upload-Offset": "4"})
    checked_problem(lost, 503)
    assert (disk.calls, http.request("HEAD", location).headers["upload-offset"]) == (1, "4")
    rest = http.request("PATCH", location, content=b"1,0\n2,1\n", headers={"Upload-Offset": "4"})
    assert rest.headers["upload-offset"] == "12"


@pytest.mark.parametrize("number", [2, 3], ids=["at the end", "as it becomes a blob"])
def test_an_upload_that_cannot_be_made_durable_begins_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    http = InProcess(create_app(settings))
    location = http.post("/v1/uploads", headers={"Content-Type": "text/csv"}).headers["location"]
    FailingSync(monkeypatch, settings.data_dir / "uploads", number)
    whole = {"Upload-Offset": "0", "Upload-Complete": "?1"}
    checked_problem(http.request("PATCH", location, content=b"a,y\n1,0\n2,1\n", headers=whole), 503)
    assert http.request("HEAD", location).headers["upload-offset"] == "0"
    assert http.request("PATCH", location, content=b"a,y\n1,0\n2,1\n", headers=whole).status_code == 201


def test_a_write_that_failed_half_way_is_not_gone_on_with(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of a failed write would be written twice, and what is in between acknowledged."""
    http = InProcess(create_app(settings))
    location = http.post("/v1/uploads", headers={"Content-Type": "text/csv"}).headers["location"]
    monkeypatch.setattr(UploadBuffers, "write_bytes", 4)
    pwrite, calls = os.pwrite, []

    def write_half(handle: int, chunk: bytes, offset: int) -> int:
        calls.append(offset)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "made up")
        return pwrite(handle, chunk[:2], offset)

    monkeypatch.setattr(os, "pwrite", write_half)
    checked_problem(http.request("PATCH", location, content=b"12345678", headers={"Upload-Offset": "0"}), 507)
    assert (calls, http.request("HEAD", location).headers["upload-offset"]) == ([0, 2], "0")


def test_uploads_that_nobody_goes_on_with_are_forgotten(settings: Settings, database: Database) -> None:
    parts = PartFiles(settings.data_dir)
    impatient = temporary_settings(settings.data_dir, upload_idle_seconds=100.0, sweep_grace_seconds=0.0)
    with database.write() as session:
        begin = (session, parts, "csv", ReadOptions(), None, {}, None)
        idle, active = (uploads.begin(*begin) for _ in range(2))  # type: ignore[arg-type]
    parts.create("up_without_a_row")
    with database.write() as session:
        session.get_one(UploadRow, idle.id).updated_at = datetime.now(UTC) - timedelta(seconds=200)
    uploads.forget_idle(database, parts, impatient)
    with database.read() as session:
        assert uploads_repository.get(session, idle.id) is None
        assert uploads_repository.get(session, active.id) is not None
    assert [file.name for file in (settings.data_dir / "uploads").iterdir()] == [active.id]


def test_a_full_disk_keeps_what_was_acknowledged(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    http = InProcess(create_app(settings))
    location = http.post("/v1/uploads", headers={"Content-Type": "text/csv"}).headers["location"]
    assert http.request("PATCH", location, content=b"12345", headers={"Upload-Offset": "0"}).status_code == 204

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(Part, "write", fail)
        response = http.request("PATCH", location, content=b"6789", headers={"Upload-Offset": "5"})
        assert checked_problem(response, 507)["code"] == "storage_full"
    assert http.request("HEAD", location).headers["upload-offset"] == "5"
    assert http.request("PATCH", location, content=b"6789", headers={"Upload-Offset": "5"}).status_code == 204
