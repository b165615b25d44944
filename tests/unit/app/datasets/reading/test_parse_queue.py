"""Reading in the background, with a reader that does as the test says: every way it can end, and who goes on."""

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from anyio import CapacityLimiter

from app.config import Settings
from app.datasets import service
from app.datasets.formats import ReadOptions
from app.datasets.reading.parse import Parsed
from app.datasets.reading.parse_queue import ParseQueue
from app.datasets.repository import claim_silent
from app.datasets.service import Received
from app.datasets.uploads import repository as uploads_repository
from app.datasets.uploads import service as uploads
from app.datasets.uploads.part_files import Part, PartFiles
from app.db import Database
from app.db.tables import DatasetRow, UploadRow
from app.errors import Invalid, Unavailable
from app.main import create_app
from app.storage import BlobStore, ownership
from tests.support.builders import InProcess, checked_problem, count_rows, migrated_database, temporary_settings
from tests.support.serving import wait_until

DESCRIPTION = {
    **{"n_rows": 2, "n_features": 1, "nnz": 2, "storage": "dense", "task_hint": "binary"},
    **{"label_names": None, "classes": [], "columns": [], "warnings": []},
}


@dataclass
class Reader:
    """Stands in for the parser_pool: `read` is what happens to every file."""

    read: Callable[[], Parsed]
    files: int = 0

    def __post_init__(self) -> None:
        self.limiter = CapacityLimiter(4)

    def ingest(self, path: Path, _format: str, _options: ReadOptions) -> Parsed:
        assert path.read_bytes() == b"file"
        self.files += 1
        return self.read()


@dataclass
class House:
    settings: Settings
    database: Database
    blobs: BlobStore

    def processor(self, read: Callable[[], Parsed]) -> ParseQueue:
        return ParseQueue(self.settings, self.database, self.blobs, Reader(read))  # type: ignore[arg-type]

    def parsed(self) -> Parsed:
        arrays = {"X": self.blobs.put_array(np.ones((2, 1))), "y": self.blobs.put_array(np.array([0.0, 1.0]))}
        return Parsed(arrays, {sha256: self.blobs.size(sha256) for sha256 in arrays.values()}, dict(DESCRIPTION))

    def received(self, name: str | None = None) -> tuple[Path, Received]:
        file = self.blobs.staging / "received"
        file.write_bytes(b"file")
        with self.blobs.stage() as staged:
            staged.write(b"file")
            return file, Received(staged.sha256, 4, "csv", ReadOptions(ignore=("a",)), name, {})

    def row(self) -> DatasetRow:
        with self.database.read() as session:
            (row,) = session.query(DatasetRow).all()
            return row

    def owned(self) -> set[str]:
        with self.database.read() as session:
            return set(ownership.owners(session))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    settings = temporary_settings(tmp_path, lease_seconds=30.0, heartbeat_seconds=0.05)
    with migrated_database(settings.resolved_database_url) as database:
        yield House(settings, database, BlobStore(tmp_path))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


async def settled(house: House) -> DatasetRow:
    while house.row().status == "processing":
        await asyncio.sleep(0.01)
    return house.row()


def test_a_file_that_is_read_in_time_is_ready_and_owns_its_files(house: House) -> None:
    dataset, known = run(house.processor(house.parsed).create(*house.received(), 10.0))
    assert (dataset.status, known, dataset.n_rows) == ("ready", False, 2)
    assert house.owned() == set(house.blobs) == {dataset.sha256, *dataset.arrays.values()}


def test_a_file_that_is_refused_in_time_leaves_nothing(house: House) -> None:
    def refuse() -> Parsed:
        raise Invalid("no")

    with pytest.raises(Invalid):
        run(house.processor(refuse).create(*house.received(), 10.0))
    assert (count_rows(house.database, DatasetRow), list(house.blobs)) == (0, [])


def test_refusing_a_file_takes_nothing_from_a_dataset_of_the_same_bytes(house: House) -> None:
    def refuse() -> Parsed:
        raise Invalid("no")

    dataset, _ = run(house.processor(house.parsed).create(*house.received("first"), 10.0))
    with pytest.raises(Invalid):
        run(house.processor(refuse).create(*house.received("second"), 10.0))
    assert dataset.sha256 in set(house.blobs)


def test_a_file_that_takes_longer_is_finished_later(house: House) -> None:
    go_on = threading.Event()

    def wait() -> Parsed:
        go_on.wait(20)
        return house.parsed()

    async def upload() -> None:
        processor = house.processor(wait)
        dataset, _ = await processor.create(*house.received(), 0.05)
        assert (dataset.status, house.owned()) == ("processing", {dataset.sha256})
        again, known = await processor.create(*house.received(), 0.05)
        assert (again.id, known) == (dataset.id, True)
        go_on.set()
        ended = await settled(house)
        assert (ended.status, ended.n_rows, ended.lease_expires_at) == ("ready", 2, None)
        assert house.owned() == {ended.sha256, *ended.arrays.values()}

    run(upload())


@pytest.mark.parametrize(
    ("error", "code"),
    [(Invalid("no", code="invalid_file"), "invalid_file"), (OSError(errno.ENOSPC, "full"), "storage_full")],
)
def test_a_refusal_in_the_background_frees_the_bytes_and_the_fingerprint(
    house: House, error: Exception, code: str
) -> None:
    def refuse() -> Parsed:
        raise error

    async def upload() -> None:
        await house.processor(refuse).create(*house.received(), 0.0)
        ended = await settled(house)
        assert ended.error is not None
        assert (ended.status, ended.error["code"]) == ("invalid", code)
        assert ended.expires_at is not None
        while set(house.blobs):
            await asyncio.sleep(0.01)
        again, known = await house.processor(house.parsed).create(*house.received(), 10.0)
        assert (again.status, known) == ("ready", False)

    run(upload())


def test_two_equal_files_at_once_become_one_dataset(house: House) -> None:
    together = threading.Barrier(2)

    def read() -> Parsed:
        together.wait(20)
        return house.parsed()

    async def upload() -> list[tuple[DatasetRow, bool]]:
        processor = house.processor(read)
        return await asyncio.gather(*(processor.create(*house.received(), 10.0) for _ in range(2)))

    (first, known_first), (second, known_second) = run(upload())
    assert first.id == second.id
    assert sorted([known_first, known_second]) == [False, True]


def test_a_file_that_vanishes_before_it_is_owned_is_to_be_sent_again(house: House) -> None:
    def read() -> Parsed:
        parsed = house.parsed()
        house.blobs.remove(parsed.arrays["X"])
        return parsed

    with pytest.raises(Unavailable):
        run(house.processor(read).create(*house.received(), 10.0))
    assert (count_rows(house.database, DatasetRow), house.owned()) == (0, set())


def test_a_file_that_another_request_had_deleted_is_to_be_sent_again(house: House) -> None:
    def read() -> Parsed:
        raise FileNotFoundError

    with pytest.raises(Unavailable):
        run(house.processor(read).create(*house.received(), 10.0))


def test_a_dataset_that_is_deleted_while_it_is_read_does_not_come_back(house: House) -> None:
    go_on = threading.Event()

    def wait() -> Parsed:
        go_on.wait(20)
        return house.parsed()

    async def upload() -> None:
        processor = house.processor(wait)
        dataset, _ = await processor.create(*house.received(), 0.0)
        service.delete(house.database, house.blobs, dataset.id)
        go_on.set()
        await processor.stop()  # waits for what is being read

    run(upload())
    assert (count_rows(house.database, DatasetRow), house.owned()) == (0, set())


def orphan(house: House, attempt: int) -> None:
    """A dataset whose process died while reading it, for the n-th time."""
    file, received = house.received()
    house.blobs.adopt(file, received.sha256)
    dataset, _ = service.store_processing(house.database, house.blobs, received, lambda *_: None, lease_seconds=-1.0)
    with house.database.write() as session:
        session.get_one(DatasetRow, dataset.id).attempt = attempt


def cared_for(house: House, read: Callable[[], Parsed]) -> DatasetRow:
    async def care() -> DatasetRow:
        caretaker = asyncio.create_task(house.processor(read).take_care())
        ended = await settled(house)
        caretaker.cancel()
        await asyncio.gather(caretaker, return_exceptions=True)  # it ends what it was doing
        return ended

    ended: DatasetRow = run(care())
    return ended


def test_what_a_dead_process_left_is_read_by_another(house: House) -> None:
    orphan(house, attempt=1)
    ended = cared_for(house, house.parsed)
    assert (ended.status, ended.attempt, ended.n_rows) == ("ready", 2, 2)


def test_a_file_that_kills_every_reader_is_given_up(house: House) -> None:
    orphan(house, attempt=3)
    ended = cared_for(house, house.parsed)
    assert ended.error is not None
    assert (ended.status, ended.error["code"]) == ("invalid", "reader_died")
    wait_until(lambda: not list(house.blobs), 20, "the bytes to be freed, which is after the row tells of it")


def test_a_reader_that_lost_its_claim_changes_nothing(house: House) -> None:
    orphan(house, attempt=1)
    with house.database.write() as session:
        (claim,) = claim_silent(session, 30.0)
        stale = type(claim)(claim.dataset_id, 1)
    service.settle_ready(house.database, house.blobs, stale, house.parsed())
    service.settle_invalid(house.database, house.blobs, stale, Invalid("no"))
    assert (house.row().status, house.owned()) == ("processing", {house.row().sha256})
    service.settle_ready(house.database, house.blobs, claim, house.parsed())
    assert house.row().status == "ready"


def test_leases_are_renewed_while_a_file_is_read(house: House) -> None:
    go_on = threading.Event()

    def wait() -> Parsed:
        go_on.wait(20)
        return house.parsed()

    async def upload() -> None:
        processor = house.processor(wait)
        dataset, _ = await processor.create(*house.received(), 0.0)
        with house.database.write() as session:
            soon = datetime.now(UTC) + timedelta(seconds=1)
            session.get_one(DatasetRow, dataset.id).lease_expires_at = soon
        caretaker = asyncio.create_task(processor.take_care())
        while (house.row().lease_expires_at or soon) <= soon:
            await asyncio.sleep(0.01)
        caretaker.cancel()
        go_on.set()
        assert (await settled(house)).attempt == 1

    run(upload())


def test_uploads_that_nobody_goes_on_with_are_forgotten(house: House) -> None:
    parts = PartFiles(house.settings.data_dir)
    settings = temporary_settings(house.settings.data_dir, upload_idle_seconds=100.0, sweep_grace_seconds=0.0)
    with house.database.write() as session:
        begin = (session, parts, settings, "csv", ReadOptions(), None, {}, None)
        idle, active = (uploads.begin(*begin) for _ in range(2))  # type: ignore[arg-type]
    parts.create("up_without_a_row")
    with house.database.write() as session:
        session.get_one(UploadRow, idle.id).updated_at = datetime.now(UTC) - timedelta(seconds=200)
    uploads.forget_idle(house.database, parts, settings)
    with house.database.read() as session:
        assert uploads_repository.get(session, idle.id) is None
        assert uploads_repository.get(session, active.id) is not None
    assert [file.name for file in (house.settings.data_dir / "uploads").iterdir()] == [active.id]


def test_a_full_disk_keeps_what_was_acknowledged(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    http = InProcess(create_app(house.settings))
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
