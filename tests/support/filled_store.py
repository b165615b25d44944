"""Many jobs and models, and jobs that look alive, written through the project's own code: lists and pages at scale."""

import math
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from sqlalchemy.orm import Session, undefer

import solvers
from app.db import Database
from app.db.tables import JobRow, ModelRow
from app.ids import new_id
from app.jobs import lease, repository
from app.jobs.repository import Claim
from app.models import service as models
from app.storage import BlobStore
from app.worker.train.progress import MAX_TRACE_POINTS, Progress

__all__ = ["LiveJobs", "fill"]

A_WRITE = 250
"""Rows of one transaction."""
TOL = 1e-9
STATUSES = ("succeeded",) * 8 + ("failed", "cancelled")
DIED = {"code": "worker_died", "message": "Three workers died while they ran this job."}
NAMES = 200
"""Names of models; each has several versions."""
TEAMS = ("radar", "churn", "text", "fraud")
REPORTS_A_SECOND = 20
SECONDS_TO_HALVE = 20.0
"""How fast the gap of a job that looks alive closes; from 1 to TOL it takes ten minutes."""


def curve(points: int = MAX_TRACE_POINTS, slope: float = 0.1) -> list[dict[str, Any]]:
    """A stored convergence curve: a gap that closes at a steady rate."""
    return [_point(0.05 * (number + 1), math.exp(-slope * number)) for number in range(points)]


def fill(database: Database, blobs: BlobStore, like_job: str, jobs: int, model_count: int) -> None:
    """Insert ended jobs, and models of some of them, each with the result or the card of a real one."""
    with database.read() as session:
        job = repository.get(session, like_job)
        assert job is not None
        assert job.model_id is not None
        spec, result, dataset_id = dict(job.spec), job.result, job.dataset_id
        like = session.get(ModelRow, job.model_id, options=[undefer(ModelRow.card)])
        assert like is not None
    began = datetime.now(UTC) - timedelta(days=30)
    every = max(1, jobs // model_count)
    for first in range(0, jobs, A_WRITE):
        with database.write() as session:
            for number in range(first, min(first + A_WRITE, jobs)):
                has_model = number % every == 0 and number // every < model_count
                status = "succeeded" if has_model else STATUSES[number % len(STATUSES)]
                created = began + number * timedelta(days=29) / jobs
                row = JobRow(
                    id=new_id("job"),
                    type="train",
                    status=status,
                    dataset_id=dataset_id,
                    model_name=f"model-{number % NAMES}",
                    spec=spec,
                    labels={"team": TEAMS[number % len(TEAMS)], "run": str(number)},
                    priority=0,
                    attempt=1,
                    progress=1.0,
                    iterations=MAX_TRACE_POINTS,
                    passes=MAX_TRACE_POINTS,
                    primal=1.0,
                    dual_bound=1.0 - TOL,
                    relative_gap=TOL,
                    trace=curve(slope=0.05 + 0.005 * (number % 10)),
                    result=result if status == "succeeded" else None,
                    error=DIED if status == "failed" else None,
                    created_at=created,
                    started_at=created,
                    finished_at=created + timedelta(seconds=10),
                )
                repository.insert(session, row)
                if has_model:
                    row.model_id = _register(session, blobs, row, like)


def _register(session: Session, blobs: BlobStore, job: JobRow, like: ModelRow) -> str:
    """A model of this job with the file and the card of another one."""
    model = ModelRow(
        id=new_id("mdl"),
        name=job.model_name,
        job_id=job.id,
        blob=like.blob,
        task=like.task,
        solver=like.solver,
        converged=True,
        card=like.card,
        created_at=job.created_at,
    )
    models.register(session, blobs, model, 1)
    return model.id


def _point(seconds: float, gap: float) -> dict[str, Any]:
    counts = {"seconds": seconds, "iterations": int(10 * seconds), "passes": int(10 * seconds)}
    return {**counts, "primal": 1.0 + gap / 2, "dual_bound": 1.0 - gap / 2, "relative_gap": gap, "test_error": None}


class LiveJobs:
    """Running jobs whose progress is reported as a worker does it, by a thread of this process. They solve nothing."""

    def __init__(self, database: Database, dataset_id: str, count: int, lease_seconds: float = 3600.0) -> None:
        self._database = database
        self._stopped = threading.Event()
        self._claims: list[Claim] = []
        for number in range(count):
            with database.write() as session:  # one transaction: a real worker must not claim it
                job = _queued(dataset_id, f"live-{number}")
                repository.insert(session, job)
                claim = lease.claim_next(session, "wrk_live", lease_seconds)
            assert claim is not None
            assert claim.job_id == job.id
            self._claims.append(claim)
        self.ids: Sequence[str] = [claim.job_id for claim in self._claims]
        self._thread = threading.Thread(target=self._report)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _report(self) -> None:
        curves = [Progress(self._database, claim, TOL) for claim in self._claims]
        began = time.monotonic()
        while not self._stopped.wait(1 / REPORTS_A_SECOND):
            seconds = time.monotonic() - began
            for number, progress in enumerate(curves):
                gap = max(TOL, 2 ** (-seconds / (SECONDS_TO_HALVE + number)))
                figures = _point(seconds, gap)
                progress.report(solvers.StepReport(**{k: v for k, v in figures.items() if k != "test_error"}))


def _queued(dataset_id: str, name: str) -> JobRow:
    return JobRow(
        id=new_id("job"),
        type="train",
        status="queued",
        dataset_id=dataset_id,
        model_name=name,
        spec={"dataset_id": dataset_id, "tol": TOL},
        labels={},
        priority=0,
        created_at=datetime.now(UTC),
    )
