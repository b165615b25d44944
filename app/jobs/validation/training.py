"""Check a training request against its dataset, as far as possible without reading the rows."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlalchemy.orm import Session

import solvers
from app.db.tables import DatasetRow
from app.errors import AppError, Invalid, NotFound, invalid_field
from app.jobs.schemas import SplitByDataset, SplitByFolds, SplitByShare, TrainingFields, TrainingSpec
from app.jobs.validation import preprocessing
from app.jobs.validation.named_dataset import ready_dataset
from app.jobs.validation.positive_class import check_positive_class, check_threshold
from app.jobs.validation.refusals import class_misses_folds, solver_refusal
from app.jobs.validation.task import CLASS_TASKS, check_labels, choose_task
from app.models import file
from app.models import service as models
from app.preprocess.spec import Preprocess
from app.storage import BlobStore

TEST_DATASET = "split.test_dataset_id"

Training = TypeVar("Training", bound=TrainingFields)


def refusals(session: Session, request: TrainingSpec, dataset: DatasetRow, blobs: BlobStore) -> Iterator[AppError]:
    """Yield all reasons to refuse a job on this dataset."""
    task = choose_task(request.task, dataset).task
    spec = preprocessing.resolve(request, dataset)
    checks: list[Callable[[], None]] = [
        lambda: preprocessing.check_columns(spec, dataset),
        lambda: check_labels(task, dataset, "task"),
        lambda: check_solver(request, dataset, spec),
        lambda: _check_class_weight(request, dataset),
        lambda: _check_split(request, dataset),
        lambda: _check_folds(request, dataset, task),
        lambda: _check_calibrate(request, dataset, task),
        lambda: check_positive_class(request.positive_class, task, [one["label"] for one in dataset.classes]),
        lambda: _check_threshold(request, dataset, task),
        lambda: _check_test_dataset(session, request, dataset, task),
        lambda: _check_warm_start(session, blobs, request, dataset, task),
    ]
    for check in checks:
        try:
            check()
        except AppError as refusal:
            yield refusal


def with_settled_start(session: Session, request: Training) -> Training:
    """Resolve `warm_start` to the version that it means now, so that a newer version does not change the job."""
    if request.warm_start is None:
        return request
    return request.model_copy(update={"warm_start": models.locate(session, request.warm_start).id})


def check_solver(request: TrainingSpec, dataset: DatasetRow, spec: Preprocess | None) -> None:
    """Refuse an unknown solver, a solver that does not support the problem, and parameters that define no valid
    problem."""
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
        raise invalid_field(*solver_refusal(error)) from error


def _check_class_weight(request: TrainingSpec, dataset: DatasetRow) -> None:
    if not isinstance(request.class_weight, dict):
        return
    known = {str(one["label"]) for one in dataset.classes}
    for label in request.class_weight:
        if label not in known:
            raise invalid_field(
                "class_weight",
                "unknown_class",
                f"{label[:60]!r} is not a class of the dataset; its classes are {', '.join(sorted(known))}",
            )


def _check_split(request: TrainingSpec, dataset: DatasetRow) -> None:
    split = request.split
    has_groups = "group" in dataset.arrays
    if isinstance(split, SplitByShare) and split.group and not has_groups:
        detail = "the dataset has no groups; upload it with the parameter `group` (libsvm: qid)"
        raise invalid_field("split.group", "no_groups", detail)
    if isinstance(split, SplitByFolds):
        if not has_groups or split.fold_column != group_column(dataset):
            detail = "the dataset has no such group column; upload it with `group` set to the column (libsvm: qid)"
            raise invalid_field("split.fold_column", "unknown_column", detail)
        if request.cross_validation is not None:
            detail = "split.fold_column already defines the folds; omit cross_validation"
            raise invalid_field("cross_validation", "folds_are_given", detail)


def group_column(dataset: DatasetRow) -> str:
    """Return the name of the column that holds the groups."""
    named: str | None = (dataset.options or {}).get("group")
    return named or ("qid" if dataset.format == "libsvm" else "group")


def _check_folds(request: TrainingSpec, dataset: DatasetRow, task: str) -> None:
    """Check the folds by the dataset's summary. The worker checks again with the rows that are left for training."""
    folds = request.cross_validation
    if folds is None or ("group" in dataset.arrays and request.keeps_groups_whole):
        return
    if dataset.n_rows < folds:
        raise invalid_field(
            "cross_validation",
            "too_many_folds",
            f"the dataset has only {dataset.n_rows} rows; use at most that many folds",
        )
    smallest = min(dataset.classes, key=lambda one: one["count"], default=None)
    if task in CLASS_TASKS and smallest is not None and smallest["count"] < folds:
        detail = class_misses_folds(smallest["label"], smallest["count"], folds)
        raise invalid_field("cross_validation", "class_too_small", detail)


def _check_calibrate(request: TrainingSpec, dataset: DatasetRow, task: str) -> None:
    if not request.calibrate:
        return
    if task not in CLASS_TASKS:
        raise invalid_field(
            "calibrate", "no_classes", f"task {task} has no classes, so there are no probabilities; omit calibrate"
        )
    _check_smallest_class("calibrate", dataset)


def _check_threshold(request: TrainingSpec, dataset: DatasetRow, task: str) -> None:
    check_threshold(request.threshold, task)
    if request.threshold is not None:
        _check_smallest_class("threshold", dataset)


def _check_smallest_class(field: str, dataset: DatasetRow) -> None:
    smallest = min(dataset.classes, key=lambda one: one["count"], default=None)
    if smallest is not None and smallest["count"] < 2:
        detail = f"class {smallest['label']!r:.60} has one row, which cannot be both held out and trained on; add rows"
        raise invalid_field(field, "class_too_small", detail)


def _check_test_dataset(session: Session, request: TrainingSpec, train: DatasetRow, task: str) -> None:
    if not isinstance(request.split, SplitByDataset):
        return
    field = TEST_DATASET
    test = ready_dataset(session, field, request.split.test_dataset_id)
    preprocessing.check_test_columns(preprocessing.resolve(request, train), train, test, field)
    is_named = bool(train.columns and test.columns)  # columns are matched by name
    is_short = test.n_features < train.n_features and test.storage == "dense"
    if not is_named and (test.n_features > train.n_features or is_short):
        detail = f"it has {test.n_features} features; the training dataset has {train.n_features}; use equal features"
        raise invalid_field(field, "feature_mismatch", detail)
    check_labels(task, test, field)
    unseen = {one["label"] for one in test.classes} - {one["label"] for one in train.classes}
    if task in CLASS_TASKS and (unseen or not test.classes):
        raise invalid_field(field, "unknown_class", "it has labels that the training dataset lacks; remove these rows")


def _check_warm_start(
    session: Session, blobs: BlobStore, request: TrainingSpec, dataset: DatasetRow, task: str
) -> None:
    """Refuse to start from a model with another task, other classes or other features."""
    if request.warm_start is None:
        return
    try:
        model = models.resolve(session, request.warm_start)
    except NotFound:
        raise _refused_start("unknown_model", "there is no such model; `GET /v1/models` lists them") from None
    if model.task != task:
        raise _refused_start("task_mismatch", f"the model has task {model.task}, the job {task}; use another or none")
    header, _ = file.read_header(blobs.path(model.blob))
    if task in CLASS_TASKS and set(header.classes) != {one["label"] for one in dataset.classes}:
        raise _refused_start("class_mismatch", "the model has other classes than the dataset; use another or none")
    if header.preprocess is None and preprocessing.resolve(request, dataset) is None:
        _check_start_features(header, dataset)


def _check_start_features(header: file.Header, dataset: DatasetRow) -> None:
    if header.n_features != dataset.n_features:
        detail = f"the model has {header.n_features} features, the dataset {dataset.n_features}; use another or none"
        raise _refused_start("feature_mismatch", detail)
    names = [column["name"] for column in dataset.columns if column["role"] == "feature"]
    if names and header.feature_names and names != header.feature_names:
        raise _refused_start(
            "feature_mismatch",
            "the features of the model and of the dataset differ in name or order; use another model or none",
        )


def _refused_start(code: str, detail: str) -> Invalid:
    return invalid_field("warm_start", code, detail)
