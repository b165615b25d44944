"""A storage that fails while a job runs: one that recovers is waited for, and a job that waits can be stopped."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.db.job_state import StopReason
from app.storage import BlobStore
from app.worker import executor
from app.worker.train import checkpoints
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
    """From now on files cannot be written, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, number: int) -> None:
        self.left = times
        put = BlobStore.put

        def put_or_fail(store: BlobStore, content: bytes) -> str:
            if self.left:
                self.left -= 1
                raise OSError(number, os.strerror(number))
            return put(store, content)

        monkeypatch.setattr(BlobStore, "put", put_or_fail)


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "storage_full"), (errno.EIO, "storage_error")])
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
    FailingDisk(monkeypatch, 100, errno.EROFS)
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
