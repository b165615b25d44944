"""Submit and read jobs. control.py changes running jobs; app/worker runs them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.db import queries
from app.db.job_state import JobStatus
from app.db.tables import EventRow, JobRow
from app.errors import NotFound
from app.ids import is_id
from app.jobs import repository
from app.jobs.admission import Admission
from app.jobs.job_types import type_of
from app.jobs.schemas import JobOptions


def submit(session: Session, request: JobOptions, admission: Admission) -> JobRow:
    """Check a request as far as possible without reading rows, then queue the job."""
    return type_of(request).submit(session, request, admission)


def validate(session: Session, request: JobOptions, admission: Admission) -> dict[str, Any]:
    """Return the fields of `schemas.Validation`: what `submit` would refuse."""
    return type_of(request).validate(session, request, admission)


def get(session: Session, job_id: str, *, with_trace: bool = False, lock: bool = False) -> JobRow:
    job = repository.get(session, job_id, with_trace=with_trace, lock=lock) if is_id("job", job_id) else None
    if job is None:
        raise NotFound("There is no such job; `GET /v1/jobs` lists jobs.")
    return job


def show(session: Session, job: JobRow) -> dict[str, Any]:
    """Return the fields of `job_types.Job`."""
    position = repository.queue_position(session, job) if job.status == JobStatus.QUEUED else None
    lineage = {"dataset_id": job.dataset_id, "seed": job.spec.get("seed")}
    return {**summarize(job), "queue_position": position, "lineage": lineage}


def summarize(job: JobRow) -> dict[str, Any]:
    columns = {name: getattr(job, name) for name in JobRow.__mapper__.columns.keys() if name != "trace"}  # noqa: SIM118
    solver = (job.result or {}).get("solver") or job.spec.get("solver")
    own = {"model": job.model_name, "done": JobStatus(job.status).done, "solver": solver, "tol": job.spec.get("tol")}
    return {**columns, **own}


def list_newest(session: Session, limit: int, before_id: str | None, filters: repository.Filters) -> Sequence[JobRow]:
    return repository.list_newest(session, limit, before_id, filters)


def list_events(session: Session, job_id: str, limit: int, after_id: str | None) -> Sequence[EventRow]:
    get(session, job_id)
    return queries.list_events(session, job_id, limit, after_id)
