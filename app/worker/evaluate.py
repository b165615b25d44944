"""A result on labelled rows: metrics and curves by task, and the labels as the client wrote them."""

from dataclasses import replace
from typing import Any

import numpy as np

import solvers
from app.datasets.arrays import DatasetArrays
from app.datasets.schemas import Label
from app.models import metrics
from app.worker.failures import PermanentFailure

Array = np.ndarray[Any, Any]


def labels_of(rows: DatasetArrays, result: solvers.LinearModel) -> list[Label]:
    """What the model can answer; empty for numbers, and for an order without ranks."""
    if result.task == "ordinal" and result.thresholds is None:
        return []
    return [rows.label(value) for value in result.classes]


def measure(rows: DatasetArrays, result: solvers.SolveResult) -> dict[str, Any]:
    scores = score(rows, result)
    if result.task == "regression":
        return metrics.regression_metrics(rows.y, scores, rows.weight)
    if result.task == "ordinal":
        predicted = None
        if result.thresholds is not None:
            predicted = result.classes[np.searchsorted(result.thresholds, scores, side="left")]
        return metrics.ordinal_metrics(rows.y, scores, predicted, rows.group, rows.weight)
    classes = labels_of(rows, result)
    judge = metrics.binary_metrics if result.task == "binary" else metrics.multiclass_metrics
    return judge(classes, rows.codes(classes), scores, rows.weight)


def curves(rows: DatasetArrays, result: solvers.SolveResult) -> dict[str, Any] | None:
    """ROC and precision-recall of the higher of two labels; None for tasks with more or other labels."""
    if result.task not in ("binary", "ordinal") or result.classes.size != 2:
        return None
    if result.task == "ordinal" and not np.isin(rows.y, result.classes).all():
        return None  # test rows may have ranks that training rows do not have
    positive = rows.codes([rows.label(value) for value in result.classes]) == 1
    return metrics.ranking_curves(positive, score(rows, result), rows.weight)


def score(rows: DatasetArrays, result: solvers.SolveResult) -> Array:
    # a sparse test file may end before the last feature: its missing columns are zeros
    width = rows.X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        scores = replace(result, coef=result.coef[..., :width]).decision_function(rows.X)
    if not np.isfinite(scores).all():
        raise PermanentFailure(
            "overflow", "a row's score is too large to be a number; scale the features", "dataset_id"
        )
    return scores
