"""How a job ends, for every way its work can end, and how long a failing storage or database is waited for."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.db import Database
from app.db.job_state import StopReason
from app.db.queries import list_events
from app.errors import DatabaseUnavailable
from app.jobs import control, queue
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim
from app.storage import BlobStore
from app.storage.identity import StoreAway
from app.worker import executor, patience
from app.worker.failures import PermanentFailure, Stopped, TransientFailure, storage_error
from app.worker.worker_context import JobWork, StopAsked, WorkerContext
from tests.support.builders import migrated_database, queued_jobs
from tests.support.queue_acts import claim, event_types, get


class Clock:
    """Sleeping takes no time and is noted."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Bench:
    """One claimed job, whose work is what the test says."""

    def __init__(self, database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
        self.database, self.clock = database, clock
        self.context = WorkerContext(database, BlobStore(folder), 1, storage_patience_seconds=100.0)
        (self.job_id,) = queued_jobs(database, [0])
        self.claim = claim(database)
        self.reason: StopReason | None = None
        self.runs = 0
        self.errors: list[BaseException] = []
        self.work: Callable[[], None] = self._succeed
        monkeypatch.setattr(patience, "time", clock)
        monkeypatch.setattr(executor, "WORK_OF_TYPE", {"train": JobWork("train", self._run)})

    def _run(self, context: WorkerContext, held: Claim, stop_reason: StopAsked) -> None:
        assert (context, held, stop_reason()) == (self.context, self.claim, self.reason)
        self.runs += 1
        if self.errors:
            raise self.errors.pop(0)
        self.work()

    def _succeed(self) -> None:
        with self.database.write() as session:
            queue.succeed(session, self.claim, "mdl_1", {})

    def execute(self, *errors: BaseException) -> Any:
        """The job after its work has failed in these ways, one after the other, and then succeeded."""
        self.errors = list(errors)
        executor.execute(self.context, self.claim, lambda: self.reason)
        return get(self.database, self.job_id)

    def waits(self) -> list[tuple[str, float]]:
        """What the job's events say of pauses."""
        with self.database.read() as session:
            events = list_events(session, self.job_id, 100, None)
        return [(one.data["reason"], one.data["seconds"]) for one in events if one.type == "job.waiting"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with migrated_database(f"sqlite:///{tmp_path / 'jobs.sqlite3'}") as database:
        yield Bench(database, tmp_path, monkeypatch, Clock())


def with_checkpoint(bench: Bench) -> str:
    blob = bench.context.blobs.put(b"a checkpoint")
    with bench.database.write() as session:
        queue.keep(session, bench.claim, {"checkpoint": (blob, 12)}, bench.context.blobs)
    return blob


def failing(number: int) -> OSError:
    return OSError(number, "made up")


def test_work_that_ends_well_is_run_once(bench: Bench) -> None:
    assert (bench.execute().status, bench.runs, bench.clock.slept) == ("succeeded", 1, [])


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (PermanentFailure("bad_data", "no rows", "dataset_id"), "bad_data", "no rows"),
        (MemoryError(), "out_of_memory", "more memory than its limit"),
        (failing(errno.ENOTDIR), "storage_error", "made up"),
        (FileNotFoundError(errno.ENOENT, "gone"), "data_missing", "hyperplane verify"),
        (ValueError("a secret"), "internal", "its log has the details"),
    ],
)
def test_what_cannot_pass_fails_the_job_and_frees_its_files(
    bench: Bench, error: Exception, code: str, message: str
) -> None:
    blob = with_checkpoint(bench)
    ended = bench.execute(error)
    assert (ended.status, ended.error["code"], bench.runs) == ("failed", code, 1)
    assert message in ended.error["message"]
    assert "secret" not in ended.error["message"]
    assert ended.error["param"] == ("dataset_id" if code == "bad_data" else None)
    assert ended.checkpoint is None
    assert not bench.context.blobs.holds(blob)


def test_a_type_that_this_worker_does_not_know_fails_the_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "WORK_OF_TYPE", {})
    ended = bench.execute()
    assert (ended.status, ended.error["code"], ended.error["param"]) == ("failed", "unknown_type", "type")
    assert "train" in ended.error["message"]


@pytest.mark.parametrize(
    ("reason", "status", "keeps"),
    [("cancel", "cancelled", False), ("pause", "queued", True), ("drain", "queued", True)],
)
def test_a_stop_ends_or_gives_back(bench: Bench, reason: StopReason, status: str, keeps: bool) -> None:
    blob = with_checkpoint(bench)
    ended = bench.execute(Stopped(reason))
    assert (ended.status, ended.worker_deaths, ended.error) == (status, 0, None)
    assert ended.checkpoint == (blob if keeps else None)
    assert bench.context.blobs.holds(blob) is keeps


def test_a_pause_that_was_asked_for_pauses(bench: Bench) -> None:
    with bench.database.write() as session:
        control.pause(session, bench.job_id)
    assert bench.execute(Stopped("pause")).status == "paused"


@pytest.mark.parametrize("reason", ["lost", "finish"])
def test_other_stops_write_nothing(bench: Bench, reason: StopReason) -> None:
    assert bench.execute(Stopped(reason)).status == "running"
    assert event_types(bench.database, bench.job_id) == ["job.queued", "job.running"]


@pytest.mark.parametrize("error", [LeaseLost(), PermanentFailure("x", "y"), Stopped("cancel"), Stopped("drain")])
def test_who_has_lost_the_lease_writes_nothing(bench: Bench, error: Exception) -> None:
    with bench.database.write() as session:
        queue.release(session, bench.claim)

    def work(*_: Any) -> JobWork:
        raise error

    executor._work_for, real = work, executor._work_for  # type: ignore[assignment]
    try:
        assert bench.execute().status == "queued"
    finally:
        executor._work_for = real  # type: ignore[assignment]
    assert event_types(bench.database, bench.job_id) == ["job.queued", "job.running", "job.queued"]


def test_a_job_that_is_not_ours_any_more_is_not_begun(bench: Bench) -> None:
    with bench.database.write() as session:
        queue.release(session, bench.claim)
    bench.execute()
    assert bench.runs == 0


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "storage_full"), (errno.EDQUOT, "storage_full"), (errno.EIO, "storage_error")],
)
def test_a_storage_that_recovers_is_waited_for_with_longer_and_longer_pauses(
    bench: Bench, number: int, code: str
) -> None:
    ended = bench.execute(*(failing(number) for _ in range(7)))
    assert (ended.status, bench.runs) == ("succeeded", 8)
    assert bench.waits() == [(code, seconds) for seconds in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)]
    assert sum(bench.clock.slept) == pytest.approx(91.0)
    assert max(bench.clock.slept) <= 0.2, "a stop is heard meanwhile"


def test_a_storage_that_does_not_recover_in_time_fails_the_job(bench: Bench) -> None:
    bench.context = replace(bench.context, storage_patience_seconds=7.0)
    ended = bench.execute(*(failing(errno.EIO) for _ in range(9)))
    assert (ended.status, ended.error["code"], bench.runs) == ("failed", "storage_error", 4)
    assert bench.waits() == [("storage_error", 1.0), ("storage_error", 2.0), ("storage_error", 4.0)]


def test_a_broken_connection_is_no_fault_of_the_storage(bench: Bench) -> None:
    with pytest.raises(TransientFailure, match="reset"):
        bench.execute(ConnectionResetError(errno.ECONNRESET, "reset by peer"))


def test_without_patience_nothing_is_waited_for(bench: Bench) -> None:
    bench.context = replace(bench.context, storage_patience_seconds=0.0)
    assert (bench.execute(failing(errno.EIO)).status, bench.runs, bench.clock.slept) == ("failed", 1, [])


def test_a_file_that_is_missing_because_the_store_is_away_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [StoreAway(errno.ENOTCONN, "not mounted")] * 2

    def check(_establish: bool = True) -> None:
        if away:
            raise away.pop()

    monkeypatch.setattr(bench.context.blobs, "_check", check)
    ended = bench.execute(FileNotFoundError(errno.ENOENT, "gone"), StoreAway(errno.ENOTCONN, "not mounted"))
    assert (ended.status, bench.waits()) == ("succeeded", [("storage_away", 1.0), ("storage_away", 2.0)])


def test_a_store_that_stays_away_gives_the_job_back(bench: Bench) -> None:
    bench.context = replace(bench.context, storage_patience_seconds=3.0)
    with pytest.raises(TransientFailure, match="not mounted"):
        bench.execute(*(StoreAway(errno.ENOTCONN, "not mounted") for _ in range(9)))
    assert (get(bench.database, bench.job_id).status, bench.runs) == ("running", 3)


@pytest.mark.parametrize(("reason", "status"), [("cancel", "cancelled"), ("drain", "queued")])
def test_a_job_that_waits_can_be_stopped(bench: Bench, reason: StopReason, status: str) -> None:
    bench.reason = reason
    ended = bench.execute(failing(errno.EIO))
    assert (ended.status, bench.runs, bench.clock.slept) == (status, 1, [])


def test_a_job_that_waits_has_nothing_to_finish_with(bench: Bench) -> None:
    bench.reason = "finish"
    assert (bench.execute(failing(errno.EIO)).status, bench.runs) == ("succeeded", 2)


def test_a_database_that_recovers_is_waited_for_and_nothing_is_lost(bench: Bench) -> None:
    ended = bench.execute(*(DatabaseUnavailable("away") for _ in range(5)))
    assert (ended.status, bench.runs, bench.waits()) == ("succeeded", 6, [])
    assert sum(bench.clock.slept) == pytest.approx(1.0 + 2.0 + 4.0 + 4.0 + 4.0)


def test_a_database_that_stays_away_gives_the_job_back(bench: Bench) -> None:
    bench.context = replace(bench.context, storage_patience_seconds=7.0)
    with pytest.raises(TransientFailure, match="away"):
        bench.execute(*(DatabaseUnavailable("away") for _ in range(9)))
    assert (bench.runs, sum(bench.clock.slept)) == (4, pytest.approx(7.0))


@pytest.mark.parametrize("error", [PermanentFailure("x", "y"), Stopped("cancel"), Stopped("pause"), Stopped("drain")])
def test_an_end_that_cannot_be_written_gives_the_job_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailable("away")

    for name in ("fail", "cancel", "pause", "release"):
        monkeypatch.setattr(queue, name, away)
    with pytest.raises(TransientFailure, match="away"):
        bench.execute(error)


def test_a_wait_that_cannot_be_told_is_a_wait_all_the_same(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(queue, "tell", away)
    assert (bench.execute(failing(errno.EIO)).status, bench.runs) == ("succeeded", 2)
    assert sum(bench.clock.slept) == pytest.approx(1.0)


def test_pauses_are_those_that_are_documented() -> None:
    assert (patience.FIRST_PAUSE_SECONDS, patience.LONGEST_PAUSE_SECONDS) == (1.0, 30.0)
    assert (patience.LONGEST_DATABASE_PAUSE_SECONDS, patience.LOOK_SECONDS) == (4.0, 0.2)


def test_a_client_is_told_what_the_storage_lacks() -> None:
    assert storage_error(failing(errno.ENOSPC))["code"] == "storage_full"
    assert storage_error(StoreAway(errno.ENOTCONN, "mount it")) == {"code": "storage_away", "message": "mount it"}
    assert storage_error(FileNotFoundError(errno.ENOENT, "gone"))["code"] == "data_missing"
    assert storage_error(failing(errno.EIO)) == {"code": "storage_error", "message": "the storage failed: made up"}


def test_a_failure_says_what_why_and_where() -> None:
    assert PermanentFailure("a", "b").error == {"code": "a", "message": "b", "param": None}
    assert PermanentFailure("a", "b", "c").error == {"code": "a", "message": "b", "param": "c"}
    assert Stopped("drain").reason == "drain"
