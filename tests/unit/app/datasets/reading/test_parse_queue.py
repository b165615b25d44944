"""Reading in the background, with a reader that does as the test says: every way it can end, and who continues."""

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from app.datasets import service
from app.datasets.reading import parse_queue
from app.datasets.reading.parse import Parsed
from app.datasets.repository import claim_silent
from app.datasets.service import MAX_ATTEMPTS
from app.db.tables import DatasetRow
from app.errors import Invalid, Unavailable
from app.storage import BlobStore
from tests.support.builders import count_rows, migrated_database, temporary_settings
from tests.support.parsing_house import DESCRIPTION, House, run, settled
from tests.support.serving import wait_until


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    settings = temporary_settings(tmp_path, lease_seconds=30.0, heartbeat_seconds=0.05)
    with migrated_database(settings.resolved_database_url) as database:
        yield House(settings, database, BlobStore(tmp_path))


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
        house.settings = house.settings.model_copy(update={"storage_patience_seconds": 0.0})
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
    orphan(house, attempt=MAX_ATTEMPTS - 1)
    ended = cared_for(house, house.parsed)
    assert (ended.status, ended.attempt, ended.n_rows) == ("ready", MAX_ATTEMPTS, 2)


def test_many_attempts_in_a_short_time_do_not_make_a_file_invalid(house: House) -> None:
    orphan(house, attempt=MAX_ATTEMPTS)
    ended = cared_for(house, house.parsed)
    assert (ended.status, ended.attempt) == ("ready", MAX_ATTEMPTS + 1)


def test_a_file_that_kills_every_reader_is_given_up(house: House) -> None:
    house.settings = house.settings.model_copy(update={"storage_patience_seconds": 0.0})
    orphan(house, attempt=MAX_ATTEMPTS)
    ended = cared_for(house, house.parsed)
    assert ended.error is not None
    assert (ended.status, ended.error["code"]) == ("invalid", "reader_died")
    wait_until(lambda: not list(house.blobs), 20, "the bytes to be freed, which happens after the row is written")


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


def test_a_process_does_not_take_over_what_it_reads_itself(house: House) -> None:
    """After a pause longer than the lease, again and again: the reader is alive."""
    go_on, renewed = threading.Event(), threading.Event()

    def wait() -> Parsed:
        go_on.wait(20)
        return house.parsed()

    def expire() -> None:
        with house.database.write() as session:
            for row in session.scalars(select(DatasetRow)):
                row.lease_expires_at = datetime.now(UTC) - timedelta(seconds=1)

    async def upload() -> None:
        processor = house.processor(wait)
        await processor.create(*house.received(), 0.0)
        expire()
        assert processor._take_over() == [], "not even if it comes before the renewal"
        rounds = 0

        def count() -> None:
            nonlocal rounds
            rounds += 1
            expire()
            if rounds > MAX_ATTEMPTS + 1:
                renewed.set()

        caretaker = asyncio.create_task(processor.take_care(count))
        await asyncio.to_thread(renewed.wait, 20)
        caretaker.cancel()
        go_on.set()
        ended = await settled(house)
        assert (ended.status, ended.attempt) == ("ready", 1)

    run(upload())


def test_nothing_is_taken_over_in_the_round_after_a_pause(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes that were paused with this one need a moment to renew their leases."""
    orphan(house, attempt=1)
    now, taken, processor = [1000.0], [], house.processor(house.parsed)
    monkeypatch.setattr(parse_queue.time, "time", lambda: now[0])
    monkeypatch.setattr(processor, "_take_over", lambda: taken.append(now[0]) or [])

    async def care() -> None:
        rounds = 0

        def pass_time() -> None:
            nonlocal rounds
            rounds += 1
            now[0] += 1000.0 if rounds == 1 else 1.0

        caretaker = asyncio.create_task(processor.take_care(pass_time))
        while rounds < 3:
            await asyncio.sleep(0.01)
        caretaker.cancel()
        await asyncio.gather(caretaker, return_exceptions=True)

    run(care())
    assert taken[:2] == [1000.0, 2001.0], "the round at 2000.0 came after the pause"


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES, errno.ENOTCONN, errno.ENOSPC])
def test_an_acknowledged_file_is_read_again_when_the_storage_recovers(
    house: House, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(parse_queue, "FIRST_PAUSE_SECONDS", 0.01)
    failures = [number] * 5

    def read() -> Parsed:
        if failures:
            raise OSError(failures.pop(), "made up")
        return house.parsed()

    async def upload() -> None:
        await house.processor(read).create(*house.received(), 0.0)
        ended = await settled(house)
        assert (ended.status, ended.attempt) == ("ready", 1)

    run(upload())


@pytest.mark.parametrize("victim", ["source", "X"])
def test_sending_a_file_again_repairs_its_dataset(house: House, victim: str) -> None:
    processor = house.processor(house.parsed)
    dataset, _ = run(processor.create(*house.received(), 10.0))
    damaged = dataset.sha256 if victim == "source" else dataset.arrays[victim]
    (house.blobs.staging / "received").unlink()  # a second name of the blob, which would be written through
    house.blobs.path(damaged).write_bytes(b"damaged")
    again, known = run(processor.create(*house.received(), 10.0))
    assert (again.id, known) == (dataset.id, True)
    assert all(house.blobs.is_intact(sha256) for sha256 in house.blobs)


def test_a_reader_of_another_version_repairs_a_dataset_with_other_arrays(house: House) -> None:
    dataset, _ = run(house.processor(house.parsed).create(*house.received(), 10.0))
    house.blobs.path(dataset.arrays["X"]).unlink()

    def read_differently() -> Parsed:
        arrays = {"X": house.blobs.put_array(np.zeros((2, 1))), "y": dataset.arrays["y"]}
        return Parsed(arrays, {sha256: house.blobs.size(sha256) for sha256 in arrays.values()}, dict(DESCRIPTION))

    run(house.processor(read_differently).create(*house.received(), 10.0))
    row = house.row()
    assert row.arrays["X"] != dataset.arrays["X"]
    assert house.owned() == set(house.blobs) == {row.sha256, *row.arrays.values()}
