"""Check a search against its dataset, as far as possible without reading the rows."""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from app.db.tables import DatasetRow
from app.errors import AppError, invalid_field
from app.jobs.schemas import SplitByFolds
from app.jobs.tune_schemas import TuneSpec
from app.jobs.validation import training
from app.jobs.validation.task import choose_task
from app.storage import BlobStore

CLASS_METRICS = (
    *("error", "accuracy", "balanced_error", "balanced_accuracy", "f1", "precision", "recall"),
    *("roc_auc", "pr_auc", "matthews"),
)
METRICS = {
    "binary": CLASS_METRICS,
    "multiclass": CLASS_METRICS,
    "regression": ("mae", "mse", "rmse", "r2"),
    "ordinal": ("swapped_pairs", "kendall_tau", "ndcg"),
}
"""Metrics of each task. The first is the default."""


def metric_of(request: TuneSpec, task: str) -> str:
    """Return the metric to compare by: the requested one, or the first of the task."""
    return request.metric or METRICS[task][0]


def refusals(session: Session, request: TuneSpec, dataset: DatasetRow, blobs: BlobStore) -> Iterator[AppError]:
    """Yield all reasons to refuse a search on this dataset, each once."""
    seen = set()
    for refusal in (*_of_search(request, dataset), *_of_trainings(session, request, dataset, blobs)):
        reason = (refusal.code, tuple((item.field, item.detail) for item in refusal.errors or ()))
        if reason not in seen:
            seen.add(reason)
            yield refusal


def _of_search(request: TuneSpec, dataset: DatasetRow) -> Iterator[AppError]:
    task, has_groups = choose_task(request.task, dataset).task, "group" in dataset.arrays
    metrics = METRICS.get(task)  # None: there is no such task, which every training refuses
    if request.metric is not None and metrics is not None and request.metric not in metrics:
        detail = f"is not a metric of task {task}; use {', '.join(metrics)}"
        yield invalid_field("metric", "unknown_metric", f"{request.metric[:40]!r} {detail}")
    if request.metric == "ndcg" and not has_groups:
        detail = "ndcg needs groups; upload the dataset with the parameter `group` (libsvm: qid)"
        yield invalid_field("metric", "no_groups", detail)
    if isinstance(request.split, SplitByFolds):
        detail = "set cross_validation.fold_column instead; split holds out rows that the search never sees"
        yield invalid_field("split.fold_column", "folds_are_given", detail)
    folds = request.cross_validation
    if folds.group and not has_groups:
        detail = "the dataset has no groups; upload it with the parameter `group` (libsvm: qid)"
        yield invalid_field("cross_validation.group", "no_groups", detail)
    if folds.fold_column is not None and (not has_groups or folds.fold_column != training.group_column(dataset)):
        detail = "the dataset has no such group column; upload it with `group` set to the column (libsvm: qid)"
        yield invalid_field("cross_validation.fold_column", "unknown_column", detail)


def _of_trainings(session: Session, request: TuneSpec, dataset: DatasetRow, blobs: BlobStore) -> Iterator[AppError]:
    """Check every combination, at the smallest and the largest C."""
    ends = request.costs()
    for combination in request.combinations():
        for C in {ends[0], ends[-1]}:
            yield from training.refusals(session, request.training(combination, C), dataset, blobs)
