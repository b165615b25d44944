"""A storage that fails while a job runs: one that recovers is waited for, and a job that waits can be stopped."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.db.job_state import StopReason
from app.storage import BlobStore
from app.storage.identity import open_store
from app.worker import executor
from app.worker.failures import TransientFailure
from app.worker.train import checkpoints
from tests.support.builders import migrated_database
from tests.support.worker_bench import Bench, noisy, worker_bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(executor, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(checkpoints, "FIRST_SECONDS", 3600.0)  # no checkpoint: it would write too
    with worker_bench(tmp_path) as bench:
        yield bench


def submitted(bench: Bench, patience_seconds: float) -> str:
    bench.context = replace(bench.context, storage_patience_seconds=patience_seconds, checkpoint_seconds=3600.0)
    X, signal = noisy(100)
    return bench.submit(bench.store(X, (signal > 0).astype(float)))


class FailingDisk:
    """Make the next writes of files fail, this many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, number: int) -> None:
        self.left = times
        put = BlobStore.put

        def put_or_fail(store: BlobStore, content: bytes) -> str:
            if self.left:
                self.left -= 1
                raise OSError(number, os.strerror(number))
            return put(store, content)

        monkeypatch.setattr(BlobStore, "put", put_or_fail)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "storage_full"),
        *((number, "storage_error") for number in (errno.EIO, errno.EROFS, errno.EACCES, errno.ENOTCONN)),
    ],
)
def test_a_storage_that_recovers_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    job_id = submitted(bench, 60.0)
    disk = FailingDisk(monkeypatch, 2, number)
    ended = bench.execute(job_id)
    assert (ended["status"], ended["attempt"], ended["result"]["converged"]) == ("succeeded", 1, True)
    assert disk.left == 0
    told = bench.events(job_id, "job.waiting")
    assert told == [{"reason": code, "seconds": 0.01}, {"reason": code, "seconds": 0.02}]


def test_a_storage_that_does_not_recover_fails_the_job_in_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submitted(bench, 0.05)
    FailingDisk(monkeypatch, 100, errno.ENOSPC)
    ended = bench.execute(job_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "storage_full")
    assert len(bench.events(job_id, "job.waiting")) == 3  # 0.01 + 0.02 + 0.04 s


def test_an_error_that_does_not_pass_is_not_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submitted(bench, 60.0)
    FailingDisk(monkeypatch, 100, errno.EISDIR)
    ended = bench.execute(job_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "storage_error")
    assert bench.events(job_id, "job.waiting") == []


@pytest.mark.parametrize(("reason", "status"), [("cancel", "cancelled"), ("drain", "queued"), ("lost", "running")])
def test_a_job_that_waits_for_its_storage_can_be_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, reason: StopReason, status: str
) -> None:
    job_id = submitted(bench, 600.0)
    disk = FailingDisk(monkeypatch, 1, errno.ENOSPC)
    ended = bench.execute(job_id, lambda: reason if disk.left == 0 else None)
    assert ended["status"] == status
    assert len(bench.events(job_id, "job.waiting")) == 1


class Volume:
    """A store on a volume that can be unmounted: an empty folder takes its place."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.folder = folder
        blobs = open_store(folder, bench.database)
        blobs.check()
        bench.context = replace(bench.context, blobs=blobs)

    def unmount(self) -> None:
        self.folder.rename(self.folder.with_name("unmounted"))
        self.folder.mkdir()

    def mount(self) -> None:
        self.folder.rmdir()
        self.folder.with_name("unmounted").rename(self.folder)


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Bench, Volume]]:
    monkeypatch.setattr(executor, "FIRST_PAUSE_SECONDS", 0.01)
    with migrated_database(f"sqlite:///{tmp_path / 'test.sqlite3'}") as database:
        bench = Bench(database, BlobStore(tmp_path / "volume"))
        yield bench, Volume(bench, tmp_path / "volume")


def test_a_job_waits_for_a_volume_that_is_not_mounted(volume: tuple[Bench, Volume]) -> None:
    bench, mounted = volume
    job_id = submitted(bench, 60.0)
    mounted.unmount()

    def mount_again() -> None:
        if bench.events(job_id, "job.waiting") and not (mounted.folder / "store.id").exists():
            mounted.mount()

    ended = bench.execute(job_id, mount_again)
    assert (ended["status"], ended["attempt"], ended["error"]) == ("succeeded", 1, None)
    assert bench.events(job_id, "job.waiting") == [{"reason": "storage_away", "seconds": 0.01}]


def test_a_volume_that_stays_away_gives_the_job_back_and_fails_nothing(volume: tuple[Bench, Volume]) -> None:
    bench, mounted = volume
    job_id = submitted(bench, 0.02)
    mounted.unmount()
    with pytest.raises(TransientFailure, match=r"has no store\.id"):
        bench.execute(job_id)
    assert bench.job(job_id)["status"] == "running", "the supervisor puts it back into the queue"
    assert list(mounted.folder.iterdir()) == [], "nothing was written into the folder below the volume"


def test_a_file_that_is_missing_from_the_right_store_fails_the_job(volume: tuple[Bench, Volume]) -> None:
    bench, _ = volume
    job_id = submitted(bench, 60.0)
    for sha256 in bench.blobs:
        bench.blobs.path(sha256).unlink()
    ended = bench.execute(job_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "data_missing")
    assert bench.events(job_id, "job.waiting") == []
