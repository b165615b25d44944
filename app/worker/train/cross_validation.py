"""Cross-validation: each fold of the training rows is held out once and scored by a model of the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from app.jobs.schemas import CALIBRATION_FOLDS, MAX_FOLDS
from app.jobs.validation.refusals import class_misses_folds
from app.jobs.validation.task import CLASS_TASKS
from app.models import metrics
from app.models.metrics import Decision
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.checkpoints import Note
from app.worker.train.encode_model import encode_fold
from app.worker.train.load import Work, groups_to_keep, missing_class
from app.worker.train.prepare import prepare
from app.worker.train.result_metrics import Judged, decision_of
from app.worker.train.split import draw_folds
from app.worker.train.trainer import Trainer


class Validation(NamedTuple):
    report: dict[str, Any] | None
    """Metrics of each fold; mean and standard deviation over the folds. None: a search reports them."""
    scores: Array
    """Score of each row while it was held out; NaN: the row was not held out."""
    fold_of_row: Array | None = None
    """None: the folds are not those of a cross-validation."""
    models: Sequence[bytes | None] = ()
    """The model file of each trained fold, for prediction sets; None: it is not kept."""


def choose_folds(work: Work) -> Array | None:
    """Return the fold of each training row, from 0; None: there are no folds."""
    if work.given_folds is not None:
        return _read_folds(work.given_folds)
    folds = work.request.cross_validation
    if folds is None:
        return _inner_folds(work) if work.request.calibrate or work.request.threshold else None
    group, y = groups_to_keep(work), work.train.y
    if group is not None:
        _require_enough(len(np.unique(group)), folds, "groups")
    _require_enough(len(y), folds, "rows")
    if work.task in CLASS_TASKS and group is None:
        values, counts = np.unique(y, return_counts=True)
        if counts.min() < folds:
            message = class_misses_folds(work.train.label(values[counts.argmin()]), int(counts.min()), folds)
            raise PermanentFailure("class_too_small", message, "cross_validation")
    return draw_folds(y, folds, work.request.seed, group=group, has_classes=work.has_classes)


def cross_validate(work: Work, fold_of_row: Array, trainer: Trainer) -> Validation:
    """Hold out each fold in turn, train on the others and compute metrics on the held-out rows."""
    judged: list[dict[str, Any]] = []
    models: list[bytes | None] = []
    decision = decision_of(work)
    n_folds = int(fold_of_row.max()) + 1
    n_classes = len(np.unique(work.train.y)) if work.task == "multiclass" else None
    scores = np.full(len(work.train.y) if n_classes is None else (len(work.train.y), n_classes), np.nan)

    def take(number: int, note: Note) -> None:
        judged.append(note.report)
        models.append(note.model)
        scores[fold_of_row == number] = note.scores

    for number in range(n_folds):
        if (note := trainer.recall()) is not None:
            take(number, note)
            continue
        if trainer.is_finishing and not trainer.is_resuming:
            break
        training = work.train.rows(np.flatnonzero(fold_of_row != number))
        held_out = work.train.rows(np.flatnonzero(fold_of_row == number))
        if missing := missing_class(work, training):
            message = (
                f"class {missing} has rows only in fold {number + 1}, so none to train on when that fold is held out"
            )
            raise PermanentFailure("class_in_one_fold", message, "cross_validation")
        fold = prepare(replace(work, train=training, test=held_out))
        assert fold.test is not None
        result = trainer.train(fold.train)
        outcome = Judged(fold.test, result, fold.train, decision)
        note = Note(
            {
                "fold": number + 1,
                "train_rows": len(training.y),
                "status": str(result.status),
                "converged": result.converged,
                "relative_gap": result.certificate.relative_gap,
                "seconds": result.seconds,
                "metrics": _figures(outcome.figures()),
            },
            outcome.scores,
            encode_fold(fold, result, n_folds) if work.wants_validation else None,
        )
        trainer.note(note)
        take(number, note)
    return Validation({"by": _kind(work), "folds": judged, **_summaries(judged)}, scores, fold_of_row, models)


def judged_again(work: Work, validation: Validation, decision: Decision) -> Validation:
    """Return the validation with the metrics of a binary model at another threshold."""
    if validation.report is None or validation.fold_of_row is None:
        return validation
    labels, rows = [work.train.label(value) for value in np.unique(work.train.y)], work.train
    codes, folds = rows.codes(labels), []
    for number, fold in enumerate(validation.report["folds"]):
        held_out = validation.fold_of_row == number
        weight = None if rows.weight is None else rows.weight[held_out]
        figures = metrics.binary_metrics(labels, codes[held_out], validation.scores[held_out], weight, decision)
        folds.append({**fold, "metrics": _figures(figures)})
    return validation._replace(report={**validation.report, "folds": folds, **_summaries(folds)})


def _summaries(folds: list[dict[str, Any]]) -> dict[str, Any]:
    figures = [fold["metrics"] for fold in folds]
    return {"mean": _summary(figures, _mean), "std": _summary(figures, _deviation)}


def _inner_folds(work: Work) -> Array:
    """Draw the folds for calibration or a threshold: fewer than the default if the rows do not allow more."""
    group, y = groups_to_keep(work), work.train.y
    values, counts = np.unique(y, return_counts=True)
    most = int(counts.min()) if group is None else len(np.unique(group))
    if most < 2:
        rare = f"class {work.train.label(values[counts.argmin()])!r:.60} has one row"
        message = "too few rows to hold any out: " + (rare if group is None else "there is only one group")
        raise PermanentFailure("class_too_small", message, "calibrate" if work.request.calibrate else "threshold")
    folds = min(CALIBRATION_FOLDS, most)
    return draw_folds(y, folds, work.request.seed, group=group, has_classes=work.has_classes)


def _read_folds(column: Array) -> Array:
    values, fold_of_row = np.unique(column, return_inverse=True)
    if not 2 <= len(values) <= MAX_FOLDS:
        message = f"the fold column has {len(values)} different values; 2 to {MAX_FOLDS} are allowed"
        raise PermanentFailure("too_many_folds", message, "split.fold_column")
    return fold_of_row


def _require_enough(count: int, folds: int, things: str) -> None:
    if count < folds:
        message = f"{count} {things} are left for training; use at most {count} folds"
        raise PermanentFailure("too_many_folds", message, "cross_validation")


def _kind(work: Work) -> str:
    if work.given_folds is not None:
        return "fold_column"
    if groups_to_keep(work) is not None:
        return "group"
    return "class" if work.has_classes else "row"


def _figures(judged: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics that are single numbers: those that have a mean over folds."""
    figures: dict[str, Any] = {}
    for name, value in judged.items():
        if name == "positive_class":  # a label, which can be a number
            continue
        if value is None or isinstance(value, int | float):
            figures[name] = value
        elif isinstance(value, dict) and (inner := _figures(value)):
            figures[name] = inner
    return figures


def _summary(folds: Sequence[dict[str, Any]], summarize: Callable[[list[float]], float | None]) -> dict[str, Any]:
    """Combine each metric over the folds that have it."""
    summary: dict[str, Any] = {}
    for name in {name: None for fold in folds for name in fold if name != "rows"}:
        values = [fold[name] for fold in folds if fold.get(name) is not None]
        if values and isinstance(values[0], dict):
            summary[name] = _summary(values, summarize)
        else:
            summary[name] = summarize(values)
    return summary


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _deviation(values: list[float]) -> float | None:
    """Return the sample standard deviation (divided by n - 1)."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
