"""The client's side of jobs: submit, look, cancel."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

import solvers
from app.datasets import service as datasets
from app.db.engine import current_time
from app.db.tables import DatasetRow, EventRow, JobRow
from app.errors import Conflict, NotFound, invalid_field
from app.ids import is_id, new_id
from app.jobs import repository
from app.jobs.schemas import SplitByDataset, TrainRequest
from app.jobs.state import JobStatus

# where the solvers' argument names differ from the request's
FIELD_OF_ARGUMENT = {"options": "solver_options", "max_seconds": "stop.seconds", "max_passes": "stop.passes"}


def submit(session: Session, request: TrainRequest) -> JobRow:
    """Check everything that can be checked before a worker sees the job, then queue it."""
    dataset = _dataset(session, "dataset_id", request.dataset_id)
    _check_solver(request, dataset)
    _check_class_weight(request, dataset)
    if isinstance(request.split, SplitByDataset):
        _check_test_dataset(dataset, _dataset(session, "split.test_dataset_id", request.split.test_dataset_id))
    job_id = new_id("job")
    job = JobRow(
        id=job_id,
        type=request.type,
        status=JobStatus.QUEUED,
        dataset_id=dataset.id,
        model_name=request.model or dataset.name or f"model-{job_id[-12:]}",
        spec=request.model_dump(mode="json", exclude={"labels"}),
        labels=request.labels,
        priority=request.priority,
        created_at=current_time(session),
    )
    repository.insert(session, job)
    return job


def get(session: Session, job_id: str, *, with_trace: bool = False, lock: bool = False) -> JobRow:
    job = repository.get(session, job_id, with_trace=with_trace, lock=lock) if is_id("job", job_id) else None
    if job is None:
        raise NotFound("There is no such job.")
    return job


def show(session: Session, job: JobRow) -> dict[str, Any]:
    """The job as `schemas.Job` lists it."""
    position = repository.queue_position(session, job) if job.status == JobStatus.QUEUED else None
    lineage = {"dataset_id": job.dataset_id, "seed": job.spec["seed"]}
    return {**summarize(job), "queue_position": position, "eta_seconds": None, "lineage": lineage}


def summarize(job: JobRow) -> dict[str, Any]:
    columns = {name: getattr(job, name) for name in JobRow.__mapper__.columns.keys() if name != "trace"}  # noqa: SIM118
    return {**columns, "model": job.model_name, "done": JobStatus(job.status).done}


def list_newest(
    session: Session, limit: int, before_id: str | None, status: JobStatus | None, labels: dict[str, str]
) -> Sequence[JobRow]:
    return repository.list_newest(session, limit, before_id, status, labels)


def cancel(session: Session, job_id: str) -> JobRow:
    """Queued: ended at once. Running: its worker is told. Ended already: a conflict, unless it was by cancel."""
    job = get(session, job_id, lock=True)
    if repository.cancel_queued(session, job_id):
        repository.append_event(session, job_id, "job.cancelled", {})
    elif repository.request_cancel(session, job_id):
        repository.append_event(session, job_id, "job.cancel_requested", {})
    elif job.status != JobStatus.CANCELLED:
        raise Conflict(f"The job has already {job.status}.", code="job_ended")
    session.flush()
    session.refresh(job)
    return job


def list_events(session: Session, job_id: str, limit: int, after_id: str | None) -> Sequence[EventRow]:
    get(session, job_id)
    return repository.list_events(session, job_id, limit, after_id)


def _dataset(session: Session, field: str, dataset_id: str) -> DatasetRow:
    dataset = datasets.find(session, dataset_id)
    if dataset is None:
        raise invalid_field(field, "unknown_dataset", "there is no such dataset")
    return dataset


def _check_solver(request: TrainRequest, dataset: DatasetRow) -> None:
    try:
        solvers.check(
            n_rows=dataset.n_rows,
            n_features=dataset.n_features,
            n_classes=len(dataset.classes) or None,
            sparse=dataset.storage == "csr",
            **request.solver_arguments(),
        )
    except solvers.SolverError as error:
        argument, dot, option = error.argument.partition(".")
        field = FIELD_OF_ARGUMENT.get(argument, argument) + dot + option
        raise invalid_field(field, type(error).__name__, str(error)) from error


def _check_class_weight(request: TrainRequest, dataset: DatasetRow) -> None:
    if not isinstance(request.class_weight, dict):
        return
    known = {str(one["label"]) for one in dataset.classes}
    for label in request.class_weight:
        if label not in known:
            raise invalid_field("class_weight", "unknown_class", f"the classes are {', '.join(sorted(known))}")


def _check_test_dataset(train: DatasetRow, test: DatasetRow) -> None:
    field = "split.test_dataset_id"
    if test.n_features > train.n_features or (test.n_features < train.n_features and test.storage == "dense"):
        detail = f"it has {test.n_features} features, the training dataset {train.n_features}"
        raise invalid_field(field, "feature_mismatch", detail)
    unseen = {one["label"] for one in test.classes} - {one["label"] for one in train.classes}
    if unseen or not test.classes:
        raise invalid_field(field, "unknown_class", "it has labels that the training dataset does not have")
