"""Metrics and curves of a training result on labelled rows, by task."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

import solvers
from app.datasets.arrays import DatasetArrays
from app.datasets.schemas import Label
from app.jobs.validation.positive_class import place_of
from app.models import metrics
from app.models.linear import class_positions
from app.models.metrics import BY_SIGN, Decision
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.load import Work


def labels_of(rows: DatasetArrays, result: solvers.LinearModel) -> list[Label]:
    """Return the labels that the model can predict; empty for regression and for ordinal models without ranks."""
    if result.task == "ordinal" and result.thresholds is None:
        return []
    return [rows.label(value) for value in result.classes]


def decision_of(work: Work) -> Decision:
    """Return the decision of a binary model before its threshold is tuned: the positive class that the request names,
    or the rarer class of the training rows. Other tasks have none, and get the default."""
    if work.task != "binary":
        return BY_SIGN
    values, counts = np.unique(work.train.y, return_counts=True)
    if work.request.positive_class is None:
        return Decision(positive=0 if len(counts) == 2 and counts[0] < counts[1] else 1)
    labels = [work.train.label(value) for value in values]
    place = place_of(work.request.positive_class, labels)
    if place is None:
        message = f"positive_class: no training row has this label; the labels are {', '.join(map(str, labels))[:200]}"
        raise PermanentFailure("unknown_class", message, "positive_class")
    return Decision(positive=place)


class Judged:
    """The scores of a result on labelled rows, and the figures from them. Each is computed once."""

    def __init__(
        self,
        rows: DatasetArrays,
        result: solvers.SolveResult,
        trained: DatasetArrays,
        decision: Decision = BY_SIGN,
    ) -> None:
        """`trained`: the rows that define the class numbers of `result`. `rows` can number classes differently."""
        self.rows, self._result, self._decision = rows, result, decision
        self._labels = [trained.label(value) for value in result.classes]
        self.scores = score(rows, result)

    @property
    def n_predicted(self) -> int | None:
        """Number of classes that are predicted for some row; None: the task has no classes."""
        if self._result.task not in ("binary", "multiclass"):
            return None
        limits = np.array([self._decision.threshold]) if self.scores.ndim == 1 else None
        return len(np.unique(class_positions(self.scores, limits)))

    def baseline(self, trained: DatasetArrays) -> dict[str, Any]:
        """Return the metrics on these rows of the constant that fits the training rows best."""
        rows, result = self.rows, self._result
        if result.task == "regression":
            has_weight = trained.weight is not None and trained.weight.any()
            mean = float(np.average(trained.y, weights=trained.weight if has_weight else None))
            return metrics.number_baseline(rows.y, mean, rows.weight)
        usual = metrics.most_frequent(trained.y, trained.weight)
        if result.task == "ordinal":
            rank = None if result.thresholds is None else usual
            return metrics.rank_baseline(rows.y, rank, rows.group, rows.weight)
        decision = self._decision if result.task == "binary" else None
        constant = int(np.searchsorted(result.classes, usual))
        return metrics.class_baseline(self._labels, self.codes, constant, rows.weight, decision)

    def figures(self) -> dict[str, Any]:
        rows, result = self.rows, self._result
        if result.task == "regression":
            return metrics.regression_metrics(rows.y, self.scores, rows.weight)
        if result.task == "ordinal":
            predicted = None
            if result.thresholds is not None:
                predicted = result.classes[class_positions(self.scores, result.thresholds)]
            return metrics.ordinal_metrics(rows.y, self.scores, predicted, rows.group, rows.weight)
        if result.task == "binary":
            return metrics.binary_metrics(
                self._labels, self.codes, self.scores, rows.weight, self._decision, self._ranking
            )
        return metrics.multiclass_metrics(self._labels, self.codes, self.scores, rows.weight)

    def curves(self) -> dict[str, Any] | None:
        """Return the ROC and precision-recall curves of the positive class, or of the second of two ranks; None for
        other tasks."""
        rows, result = self.rows, self._result
        if result.task not in ("binary", "ordinal") or result.classes.size != 2:
            return None
        if result.task == "ordinal" and not np.isin(rows.y, result.classes).all():
            return None  # test rows can have ranks that training rows lack
        return self._ranking.curves()

    @cached_property
    def codes(self) -> Array:
        """Return the position of each row's label among the labels of the result."""
        return self.rows.codes(self._labels)

    @cached_property
    def _ranking(self) -> metrics.Ranking:
        return metrics.Ranking.of_class(self._decision.positive, self.codes, self.scores, self.rows.weight)


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
