"""A result on labelled rows: metrics and curves by task, and the labels as the client wrote them."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

import solvers
from app.datasets.arrays import DatasetArrays
from app.datasets.schemas import Label
from app.models import metrics
from app.models.linear import class_positions
from app.tabular.types import Array
from app.worker.failures import PermanentFailure


def labels_of(rows: DatasetArrays, result: solvers.LinearModel) -> list[Label]:
    """What the model can answer; empty for numbers, and for an order without ranks."""
    if result.task == "ordinal" and result.thresholds is None:
        return []
    return [rows.label(value) for value in result.classes]


class Judged:
    """A result on labelled rows: its scores, and what they say of it. Nothing is computed twice."""

    def __init__(self, rows: DatasetArrays, result: solvers.SolveResult, trained: DatasetArrays) -> None:
        """`trained`: rows that the result's classes are values of; another dataset may number its labels otherwise."""
        self._rows, self._result = rows, result
        self._labels = [trained.label(value) for value in result.classes]
        self.scores = score(rows, result)

    def figures(self) -> dict[str, Any]:
        rows, result = self._rows, self._result
        if result.task == "regression":
            return metrics.regression_metrics(rows.y, self.scores, rows.weight)
        if result.task == "ordinal":
            predicted = None
            if result.thresholds is not None:
                predicted = result.classes[class_positions(self.scores, result.thresholds)]
            return metrics.ordinal_metrics(rows.y, self.scores, predicted, rows.group, rows.weight)
        if result.task == "binary":
            return metrics.binary_metrics(self._labels, self.codes, self.scores, rows.weight, self._ranking)
        return metrics.multiclass_metrics(self._labels, self.codes, self.scores, rows.weight)

    def curves(self) -> dict[str, Any] | None:
        """ROC and precision-recall of the higher of two labels; None for tasks with more or other labels."""
        rows, result = self._rows, self._result
        if result.task not in ("binary", "ordinal") or result.classes.size != 2:
            return None
        if result.task == "ordinal" and not np.isin(rows.y, result.classes).all():
            return None  # test rows may have ranks that training rows do not have
        return self._ranking.curves()

    @cached_property
    def codes(self) -> Array:
        """For each row the place of its label among those of the result."""
        return self._rows.codes(self._labels)

    @cached_property
    def _ranking(self) -> metrics.Ranking:
        return metrics.Ranking.of(self.codes == 1, self.scores, self._rows.weight)


def score(rows: DatasetArrays, result: solvers.LinearModel) -> Array:
    # a sparse test file may end before the last feature: its missing columns are zeros
    width = rows.X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        scores = replace(result, coef=result.coef[..., :width]).decision_function(rows.X)
    if not np.isfinite(scores).all():
        raise PermanentFailure(
            "overflow", "a row's score is too large to be a number; scale the features", "dataset_id"
        )
    return scores
