"""Interrupted jobs continue: from which state, with which curve and limits, and what they leave behind."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvers
from app.db.job_state import StopReason
from app.db.tables import DatasetRow, JobRow
from app.jobs import control, lease, queue
from app.jobs import service as jobs
from app.models import file
from app.storage import ownership
from app.worker.executor import execute
from app.worker.train import checkpoint_file, checkpoints, progress
from app.worker.train.checkpoints import Checkpoints
from tests.support.checkpointed_jobs import TASKS, stored
from tests.support.worker_bench import Bench, Json, noisy, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


@pytest.fixture
def eager(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint and a report at every step; otherwise these short jobs have one only when they are stopped."""
    bench.context = replace(bench.context, checkpoint_seconds=1e-9)
    monkeypatch.setattr(progress, "WRITE_EVERY_SECONDS", 0.0)


class Killed(BaseException):
    """What nothing of the worker sees coming."""


def after(steps: int, reason: StopReason | None) -> Callable[[], StopReason | None]:
    """A reason to stop that comes up when it has been asked for so often; None: the worker dies there."""
    asked = 0

    def stop_reason() -> StopReason | None:
        nonlocal asked
        asked += 1
        if asked <= steps:
            return None
        if reason is None:
            raise Killed
        return reason

    return stop_reason


def submitted(bench: Bench, task: str, **fields: Any) -> str:
    return bench.submit(stored(bench, task), task=task.split()[0], **{"tol": 1e-6, **TASKS[task], **fields})


def trace(bench: Bench, job_id: str) -> list[Json]:
    with bench.database.read() as session:
        return jobs.get(session, job_id, with_trace=True).trace


def row(bench: Bench, job_id: str) -> Any:
    with bench.database.read() as session:
        return jobs.get(session, job_id)


def left(bench: Bench, job_id: str) -> checkpoint_file.Header:
    """What the last checkpoint says."""
    return checkpoint_file.read(bench.blobs, row(bench, job_id).checkpoint)[0]


def owned(bench: Bench, job_id: str) -> set[str]:
    with bench.database.read() as session:
        return {sha256 for sha256, owners in ownership.owners(session).items() if job_id in owners}


def ask(bench: Bench, act: Callable[..., Any], job_id: str) -> Any:
    with bench.database.write() as session:
        return act(session, job_id)


@pytest.mark.parametrize("task", TASKS)
def test_a_drained_job_goes_on_where_it_was(bench: Bench, task: str) -> None:
    job_id = submitted(bench, task)
    first = bench.execute(job_id, after(4, "drain"))
    assert (first["status"], first["attempt"]) == ("queued", 1)
    kept = row(bench, job_id)
    assert owned(bench, job_id) == {kept.checkpoint, kept.snapshot}
    curve = left(bench, job_id).curve
    second = bench.execute(job_id)
    assert second["status"] == "succeeded", second["error"]
    (resumed,) = bench.events(job_id, "job.resumed")
    assert resumed["passes"] >= curve[-1]["passes"], "with threads, another class may have got further"
    assert second["result"]["converged"]
    assert second["relative_gap"] <= 1e-6
    whole = trace(bench, job_id)
    earlier = [point for point in whole if point["seconds"] <= curve[-1]["seconds"]]
    assert earlier
    assert all(point in curve for point in earlier), "the curve continues"
    for figure in ("seconds", "passes", "iterations"):
        values = [point[figure] for point in whole]
        assert values == sorted(values)
    assert second["progress"] == 1.0
    assert second["result"]["training"]["seconds"] > curve[-1]["seconds"]
    alone = bench.run(stored(bench, task), task=task.split()[0], tol=1e-6, **TASKS[task])
    assert second["primal"] == pytest.approx(alone["primal"], rel=3e-6)
    ended = row(bench, job_id)
    assert (ended.checkpoint, ended.snapshot, owned(bench, job_id)) == (None, None, set())
    assert not bench.blobs.path(kept.checkpoint).exists()


@pytest.mark.usefixtures("eager")
def test_a_killed_worker_costs_what_was_done_since_the_last_checkpoint(bench: Bench) -> None:
    job_id = submitted(bench, "binary")
    with pytest.raises(Killed):
        bench.execute(job_id, after(6, None))
    bench.context = replace(bench.context, checkpoint_seconds=30.0)
    dead = row(bench, job_id)
    assert dead.status == "running"
    assert dead.checkpoint is not None
    with bench.database.write() as session:
        queue.worker_died(session, queue.Claim(job_id, dead.fence))
    ended = bench.execute(job_id)
    assert (ended["status"], ended["attempt"], ended["result"]["converged"]) == ("succeeded", 2, True)
    (resumed,) = bench.events(job_id, "job.resumed")
    assert resumed["passes"] > 0
    shares = [one["progress"] for one in bench.events(job_id, "job.progress")]
    assert len(shares) > 5
    assert shares == sorted(shares)


def test_cross_validation_goes_on_at_the_fold_where_it_was(bench: Bench) -> None:
    asked = {"cross_validation": 4, "tol": 1e-5, "C": 100.0, "calibrate": "platt"}
    data = stored(bench, "binary")
    alone = bench.run(data, **asked)["result"]
    job_id = bench.submit(data, **asked)
    interrupted_at = []
    while not (ended := bench.execute(job_id, after(25, "drain")))["done"]:
        header = left(bench, job_id)
        interrupted_at.append(header.training)
        assert [fold["fold"] for fold in header.folds] == list(range(1, header.training + 1))
    assert interrupted_at == sorted(interrupted_at)
    assert len(set(interrupted_at)) > 2
    assert ended["status"] == "succeeded"
    folds = ended["result"]["cross_validation"]["folds"]
    assert [fold["fold"] for fold in folds] == [1, 2, 3, 4]
    assert all(fold["converged"] for fold in folds)
    for fold, other in zip(folds, alone["cross_validation"]["folds"], strict=True):
        assert fold["metrics"]["accuracy"] == pytest.approx(other["metrics"]["accuracy"], abs=0.03)
    calibration = ended["result"]["calibration"]
    assert calibration["rows"] == alone["calibration"]["rows"] == 300, "no fold's scores were lost"
    assert calibration["held_out"]["brier"] == pytest.approx(alone["calibration"]["held_out"]["brier"], abs=0.01)


@pytest.mark.parametrize("damage", ["missing", "other bytes", "other version", "other data", "of another solver"])
def test_what_cannot_be_gone_on_from_is_begun_anew_and_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    job_id = submitted(bench, "binary", solver="auto")
    bench.execute(job_id, after(5, "drain"))
    path = bench.blobs.path(row(bench, job_id).checkpoint)
    if damage == "missing":
        path.unlink()
    elif damage == "other bytes":
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    elif damage == "other version":
        monkeypatch.setattr(checkpoint_file, "_source_sha256", lambda: "another")
    elif damage == "other data":
        with bench.database.write() as session:
            session.get_one(DatasetRow, row(bench, job_id).dataset_id).sha256 = "9" * 64
    else:
        with bench.database.write() as session:
            job = session.get_one(JobRow, job_id)
            job.spec = {**job.spec, "solver": "tron", "loss": "squared_hinge"}
    ended = bench.execute(job_id)
    assert (ended["status"], ended["result"]["converged"]) == ("succeeded", True)
    (told,) = bench.events(job_id, "job.restarted")
    assert told["reason"]
    if damage != "of another solver":
        assert bench.events(job_id, "job.resumed") == []


@pytest.mark.parametrize("on_limit", ["keep_best", "fail"])
def test_the_passes_of_all_attempts_count(bench: Bench, on_limit: str) -> None:
    job_id = submitted(bench, "binary", tol=1e-12, stop={"passes": 40}, on_limit=on_limit)
    attempts = 0
    while not (job := bench.execute(job_id, after(10, "drain")))["done"]:
        attempts += 1
    assert attempts >= 2
    if on_limit == "fail":
        assert (job["status"], job["error"]["code"]) == ("failed", "not_converged")
        return
    assert job["result"]["status"] == "pass_limit"
    assert 40 <= job["passes"] <= 45


def test_the_seconds_of_all_attempts_count(bench: Bench) -> None:
    asked = {"cross_validation": 2, "stop": {"seconds": 1e6}, "tol": 1e-12}
    job_id = submitted(bench, "binary", **asked)
    bench.execute(job_id, after(10, "drain"))
    header, state = checkpoint_file.read(bench.blobs, row(bench, job_id).checkpoint)
    # As if the first attempt had taken all of the time: a step for each training is all that is left.
    spent = header.model_copy(update={"seconds": 1e6})
    blob, size = checkpoint_file.write(bench.blobs, spent, {**state, "run.seconds": 9e5})
    with bench.database.write() as session:
        ownership.own(session, bench.blobs, job_id, {blob: size})
        session.get_one(JobRow, job_id).checkpoint = blob
    ended = bench.execute(job_id)
    assert ended["status"] == "succeeded"
    assert ended["result"]["status"] == "time_limit"
    assert ended["result"]["training"]["total_seconds"] > 1e6


@pytest.mark.parametrize("folds", [None, 3])
def test_finish_keeps_the_model_so_far(bench: Bench, folds: int | None) -> None:
    job_id = submitted(bench, "multiclass", cross_validation=folds, on_limit="fail", tol=1e-12)
    ended = bench.execute(job_id, after(10, "finish"))
    assert ended["status"] == "succeeded", ended["error"]
    assert (ended["result"]["status"], ended["result"]["training"]["status"]) == ("stopped", "stopped")
    _, model = bench.model(ended)
    assert model.coef.any(axis=1).all()
    assert ended["result"]["metrics"]["train"]["accuracy"] > 0.6
    if folds:
        assert 1 <= len(ended["result"]["cross_validation"]["folds"]) < folds


@pytest.mark.parametrize("folds", [None, 3])
def test_a_paused_job_can_be_finished_from_its_checkpoint(bench: Bench, folds: int | None) -> None:
    job_id = submitted(bench, "binary", tol=1e-12, cross_validation=folds)
    with bench.database.write() as session:
        claim = lease.claim_next(session, "wrk_test", 60.0)
    assert claim is not None
    ask(bench, control.pause, job_id)
    execute(bench.context, claim, after(10, "pause"))
    paused = bench.job(job_id)
    assert (paused["status"], paused["request"]) == ("paused", None)
    assert ask(bench, control.finish, job_id).status == "queued"
    ended = bench.execute(job_id, lambda: "finish")
    assert ended["status"] == "succeeded", ended["error"]
    assert ended["result"]["status"] == "stopped"
    assert len(bench.events(job_id, "job.resumed")) == 1
    assert ended["result"]["metrics"]["train"]["accuracy"] > 0.8


def test_a_pause_that_comes_when_the_work_is_done_is_too_late(bench: Bench) -> None:
    calls = 0

    def pause_after_training() -> str | None:
        return "pause" if calls else None

    result = solvers.train

    def train(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        answer = result(*arguments, **named)
        calls += 1
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "train", train)
        ended = bench.run(stored(bench, "binary"), pause_after_training)
    assert (ended["status"], ended["result"]["converged"]) == ("succeeded", True)


@pytest.mark.usefixtures("eager")
def test_a_full_disk_costs_checkpoints_and_not_the_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint_file, "write", refuse)
    ended = bench.run(stored(bench, "binary"))
    assert (ended["status"], ended["result"]["converged"]) == ("succeeded", True)


@pytest.mark.parametrize("task", TASKS)
def test_a_snapshot_is_a_model_file_that_says_how_far_it_is(bench: Bench, task: str) -> None:
    job_id = submitted(bench, task)
    bench.execute(job_id, after(5, "drain"))
    model = file.read(bench.blobs.path(row(bench, job_id).snapshot))
    assert model.header.task == task.split()[0]
    assert (model.header.card["job_id"], model.header.card["passes"]) == (
        job_id,
        left(bench, job_id).curve[-1]["passes"],
    )
    assert model.coef.any()


def test_a_snapshot_of_prepared_rows_is_in_the_units_of_the_raw_ones(bench: Bench) -> None:
    X, signal = noisy(300)
    data = bench.store(X * np.array([1.0, 1e3, 1e-2, 5.0]) + 7.0, np.where(signal > 0, 1, -1))
    job_id = bench.submit(data, preprocess={"scale": "standard"}, C=100.0, tol=1e-6)
    bench.execute(job_id, after(20, "drain"))
    snapshot = file.read(bench.blobs.path(row(bench, job_id).snapshot))
    _, final = bench.model(bench.execute(job_id))
    assert snapshot.header.preprocess == final.header.preprocess
    ratio = snapshot.coef[:3] / final.coef[:3]  # the last column says nothing; the units of the others differ by 1e5
    assert (ratio > 0.2).all()
    assert (ratio < 5.0).all()
    assert len(bench.events(job_id, "job.resumed")) == 1


def test_checkpoints_come_often_at_first_and_never_further_apart_than_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, saved = 0.0, []
    report = solvers.StepReport(1, 1, 0.1, 1.0, 0.5, 0.5)
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now)
    context: Any = replace(bench.context, checkpoint_seconds=10.0)
    work: Any = None
    schedule = Checkpoints(context, queue.Claim("job_x", 1), work)
    monkeypatch.setattr(schedule, "_write", lambda *_: saved.append(now))
    while now < 60.0:
        if schedule.is_due:
            schedule.save(report, {}, [], None)
        now += 0.25
    assert saved == [1.0, 3.0, 7.0, 15.0, 25.0, 35.0, 45.0, 55.0]


def test_nothing_is_left_behind_in_the_store(bench: Bench) -> None:
    data = stored(bench, "binary")
    before = set(bench.blobs)
    job_id = bench.submit(data, C=100.0, tol=1e-6)
    bench.execute(job_id, after(5, "drain"))
    bench.execute(job_id, after(5, "cancel"))
    assert bench.job(job_id)["status"] == "cancelled"
    assert set(bench.blobs) == before
    assert list(bench.blobs.staging.iterdir()) == []
