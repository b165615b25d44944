"""The client's side of jobs: submit and look. How a client changes their course is in control.py."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy.orm import Session

import solvers
from app.datasets import service as datasets
from app.db import queries
from app.db.engine import current_time
from app.db.job_state import JobStatus
from app.db.tables import DatasetRow, EventRow, JobRow
from app.errors import AppError, Conflict, ErrorItem, NotFound, invalid_field
from app.ids import is_id, new_id
from app.jobs import repository
from app.jobs.admission import Admission, Needs
from app.jobs.schemas import SplitByDataset, SplitByFolds, SplitByShare, TrainRequest
from app.jobs.validation import preprocessing, warm_start
from app.jobs.validation.refusals import class_misses_folds, solver_refusal
from app.jobs.validation.task import CLASS_TASKS, check_labels, choose_task
from app.preprocess.spec import Preprocess
from app.storage import BlobStore


def submit(session: Session, request: TrainRequest, admission: Admission) -> JobRow:
    """Check everything that can be checked before a worker sees the job, then queue it."""
    dataset = ready_dataset(session, "dataset_id", request.dataset_id)
    for refusal in _refusals(session, request, dataset, admission.blobs):
        raise refusal
    request = warm_start.settled(session, request)
    needs = admission.needs(session, request, dataset)
    admission.admit(needs.peak_bytes)
    job_id = new_id("job")
    job = JobRow(
        id=job_id,
        type=request.type,
        status=JobStatus.QUEUED,
        dataset_id=dataset.id,
        model_name=request.model or dataset.name or f"model-{job_id[-12:]}",
        spec=request.model_dump(mode="json", exclude={"labels", "webhook"}),
        labels=request.labels,
        priority=request.priority,
        peak_bytes=needs.peak_bytes,
        created_at=current_time(session),
    )
    enqueue(session, job)
    return job


def enqueue(session: Session, job: JobRow) -> None:
    """Queue a job, whose datasets can then not be deleted before it is done."""
    if not datasets.hold(session, job.dataset_id):
        raise unknown_dataset("dataset_id")
    test_dataset_id = (job.spec.get("split") or {}).get("test_dataset_id")
    if test_dataset_id is not None and not datasets.hold(session, test_dataset_id):
        raise unknown_dataset("split.test_dataset_id")
    repository.insert(session, job)


def unknown_dataset(field: str) -> AppError:
    return invalid_field(field, "unknown_dataset", "there is no such dataset")


def validate(session: Session, request: TrainRequest, admission: Admission) -> dict[str, Any]:
    """What `submit` would say, as `schemas.Validation` lists it: all that is wrong, not only the first of it."""
    needs: Needs | None = None
    try:
        dataset = ready_dataset(session, "dataset_id", request.dataset_id)
        refusals = list(_refusals(session, request, dataset, admission.blobs))
        if not refusals:
            needs = admission.needs(session, request, dataset)
            admission.admit(needs.peak_bytes)
    except AppError as refusal:
        refusals = [refusal]
    errors = [item for refusal in refusals for item in error_items(refusal)]
    return {"valid": not errors, "estimate": needs, "errors": errors}


def get(session: Session, job_id: str, *, with_trace: bool = False, lock: bool = False) -> JobRow:
    job = repository.get(session, job_id, with_trace=with_trace, lock=lock) if is_id("job", job_id) else None
    if job is None:
        raise NotFound("There is no such job.")
    return job


def show(session: Session, job: JobRow) -> dict[str, Any]:
    """The job as `schemas.Job` lists it."""
    position = repository.queue_position(session, job) if job.status == JobStatus.QUEUED else None
    lineage = {"dataset_id": job.dataset_id, "seed": job.spec.get("seed")}
    return {**summarize(job), "queue_position": position, "lineage": lineage}


def summarize(job: JobRow) -> dict[str, Any]:
    columns = {name: getattr(job, name) for name in JobRow.__mapper__.columns.keys() if name != "trace"}  # noqa: SIM118
    return {**columns, "model": job.model_name, "done": JobStatus(job.status).done}


def list_newest(session: Session, limit: int, before_id: str | None, filters: repository.Filters) -> Sequence[JobRow]:
    return repository.list_newest(session, limit, before_id, filters)


def list_events(session: Session, job_id: str, limit: int, after_id: str | None) -> Sequence[EventRow]:
    get(session, job_id)
    return queries.list_events(session, job_id, limit, after_id)


def _refusals(session: Session, request: TrainRequest, dataset: DatasetRow, blobs: BlobStore) -> Iterator[AppError]:
    """What stands in the way of a job on this dataset."""
    task = choose_task(request.task, dataset).task
    spec = preprocessing.resolve(request, dataset)
    checks: list[Callable[[], None]] = [
        lambda: preprocessing.check_columns(spec, dataset),
        lambda: check_labels(task, dataset, "task"),
        lambda: _check_solver(request, dataset, spec),
        lambda: _check_class_weight(request, dataset),
        lambda: _check_split(request, dataset),
        lambda: _check_folds(request, dataset, task),
        lambda: _check_calibrate(request, dataset, task),
        lambda: _check_test_dataset(session, request, dataset, task),
        lambda: warm_start.check(session, blobs, request, dataset, task),
    ]
    for check in checks:
        try:
            check()
        except AppError as refusal:
            yield refusal


def error_items(refusal: AppError) -> list[dict[str, Any]]:
    """What a refusal says of single fields, or all it says."""
    items = refusal.errors or [ErrorItem(code=refusal.code, detail=refusal.detail)]
    return [item.model_dump(exclude_none=True) for item in items]


def ready_dataset(session: Session, field: str, dataset_id: str) -> DatasetRow:
    """A dataset that a job can work on now."""
    dataset = datasets.find(session, dataset_id)
    if dataset is None:
        raise unknown_dataset(field)
    if dataset.status == "invalid":
        raise invalid_field(field, "dataset_invalid", "the file of this dataset is invalid; its `error` says why")
    if dataset.status != "ready":
        detail = (
            f"{field}: the dataset is still being read; GET /v1/datasets/{dataset.id}?wait=60 tells when it is ready."
        )
        raise Conflict(detail, code="dataset_not_ready")
    return dataset


def _check_solver(request: TrainRequest, dataset: DatasetRow, spec: Preprocess | None) -> None:
    expected = preprocessing.expected(spec, dataset)
    try:
        solvers.check(
            n_rows=dataset.n_rows,
            n_features=expected.n_features,
            n_classes=len(dataset.classes) or None,
            sparse=expected.sparse,
            **request.solver_arguments(),
        )
    except solvers.SolverError as error:
        field, detail = solver_refusal(error)
        raise invalid_field(field, type(error).__name__, detail) from error


def _check_class_weight(request: TrainRequest, dataset: DatasetRow) -> None:
    if not isinstance(request.class_weight, dict):
        return
    known = {str(one["label"]) for one in dataset.classes}
    for label in request.class_weight:
        if label not in known:
            raise invalid_field("class_weight", "unknown_class", f"the classes are {', '.join(sorted(known))}")


def _check_split(request: TrainRequest, dataset: DatasetRow) -> None:
    split = request.split
    has_groups = "group" in dataset.arrays
    if isinstance(split, SplitByShare) and split.group and not has_groups:
        detail = "the dataset has no groups; upload it with `group` naming a column (libsvm: qid)"
        raise invalid_field("split.group", "no_groups", detail)
    if isinstance(split, SplitByFolds):
        if not has_groups or split.fold_column != _group_column(dataset):
            detail = "the dataset keeps no such column; upload it with `group` naming the column (libsvm: qid)"
            raise invalid_field("split.fold_column", "unknown_column", detail)
        if request.cross_validation is not None:
            detail = "the values of split.fold_column are the folds; leave this out"
            raise invalid_field("cross_validation", "folds_are_given", detail)


def _group_column(dataset: DatasetRow) -> str:
    named: str | None = (dataset.options or {}).get("group")
    return named or ("qid" if dataset.format == "libsvm" else "group")


def _check_folds(request: TrainRequest, dataset: DatasetRow, task: str) -> None:
    """What is known before the rows are: the worker looks again at the rows that are left for training."""
    folds = request.cross_validation
    if folds is None or ("group" in dataset.arrays and request.keeps_groups_whole):
        return
    if dataset.n_rows < folds:
        raise invalid_field("cross_validation", "too_many_folds", f"the dataset has {dataset.n_rows} rows only")
    smallest = min(dataset.classes, key=lambda one: one["count"], default=None)
    if task in CLASS_TASKS and smallest is not None and smallest["count"] < folds:
        detail = class_misses_folds(smallest["label"], smallest["count"], folds)
        raise invalid_field("cross_validation", "class_too_small", detail)


def _check_calibrate(request: TrainRequest, dataset: DatasetRow, task: str) -> None:
    if not request.calibrate:
        return
    if task not in CLASS_TASKS:
        raise invalid_field("calibrate", "no_classes", f"there are no probabilities of classes with task {task}")
    smallest = min(dataset.classes, key=lambda one: one["count"], default=None)
    if smallest is not None and smallest["count"] < 2:
        detail = f"class {smallest['label']!r:.60} has one row only, which cannot be held out and trained on"
        raise invalid_field("calibrate", "class_too_small", detail)


def _check_test_dataset(session: Session, request: TrainRequest, train: DatasetRow, task: str) -> None:
    if not isinstance(request.split, SplitByDataset):
        return
    field = "split.test_dataset_id"
    test = ready_dataset(session, field, request.split.test_dataset_id)
    preprocessing.check_test_columns(preprocessing.resolve(request, train), train, test, field)
    is_named = bool(train.columns and test.columns)  # then columns are found by name
    is_short = test.n_features < train.n_features and test.storage == "dense"
    if not is_named and (test.n_features > train.n_features or is_short):
        detail = f"it has {test.n_features} features, the training dataset {train.n_features}"
        raise invalid_field(field, "feature_mismatch", detail)
    check_labels(task, test, field)
    unseen = {one["label"] for one in test.classes} - {one["label"] for one in train.classes}
    if task in CLASS_TASKS and (unseen or not test.classes):
        raise invalid_field(field, "unknown_class", "it has labels that the training dataset does not have")
