"""Metrics and curves of a training result on labelled rows, by task."""

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
    """Return the labels that the model can predict; empty for regression and for ordinal models without ranks."""
    if result.task == "ordinal" and result.thresholds is None:
        return []
    return [rows.label(value) for value in result.classes]


class Judged:
    """The scores of a result on labelled rows, and the figures from them. Each is computed once."""

    def __init__(self, rows: DatasetArrays, result: solvers.SolveResult, trained: DatasetArrays) -> None:
        """`trained`: the rows that define the class numbers of `result`. `rows` can number classes differently."""
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
        """Return the ROC and precision-recall curves of the second of two labels; None for other tasks."""
        rows, result = self._rows, self._result
        if result.task not in ("binary", "ordinal") or result.classes.size != 2:
            return None
        if result.task == "ordinal" and not np.isin(rows.y, result.classes).all():
            return None  # test rows can have ranks that training rows lack
        return self._ranking.curves()

    @cached_property
    def codes(self) -> Array:
        """Return the position of each row's label among the labels of the result."""
        return self._rows.codes(self._labels)

    @cached_property
    def _ranking(self) -> metrics.Ranking:
        return metrics.Ranking.of(self.codes == 1, self.scores, self._rows.weight)


def score(rows: DatasetArrays, result: solvers.LinearModel) -> Array:
    # a sparse test file can lack the last features, which are zeros
    width = rows.X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        scores = replace(result, coef=result.coef[..., :width]).decision_function(rows.X)
    if not np.isfinite(scores).all():
        raise PermanentFailure(
            "overflow", "the score of a row exceeds the range of a 64-bit float; scale the features", "dataset_id"
        )
    return scores
