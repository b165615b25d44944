"""Metrics of class predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.datasets.schemas import Label
from app.models.linear import class_positions
from app.models.metrics.curves import Ranking
from app.tabular.types import Array

MOST_LISTED_CLASSES = 100
"""Maximum classes with metrics per class and a confusion matrix. Larger: a matrix of 10,000 entries and more in the
card. Set by hand; no measurement is recorded."""


def binary_metrics(
    classes: Sequence[Label],
    codes: Array,
    scores: Array,
    weight: Array | None = None,
    ranking: Ranking | None = None,
) -> dict[str, Any]:
    """Return the metrics of two classes. `codes`: positions in `classes`. A score > 0 predicts the second class.

    `ranking`: that of these rows, if it is already computed.
    """
    counts = _Counts(classes, codes, class_positions(scores), weight)
    ranking = ranking or Ranking.of(codes == 1, scores, weight)
    per_class = counts.per_class()
    return {
        **counts.shares(),
        **{name: per_class[1][name] for name in ("precision", "recall", "f1")},
        "roc_auc": ranking.roc_auc(),
        "pr_auc": ranking.average_precision(),
        "prbep": ranking.break_even(),
        "per_class": per_class,
        "macro": _macro(per_class),
        "confusion": counts.confusion(),
    }


def multiclass_metrics(
    classes: Sequence[Label], codes: Array, scores: Array, weight: Array | None = None
) -> dict[str, Any]:
    """Return the metrics of several classes. `scores` has a column per class; areas are one-vs-rest means."""
    counts = _Counts(classes, codes, class_positions(scores), weight)
    per_class = counts.per_class()
    macro = _macro(per_class)
    is_listed = len(classes) <= MOST_LISTED_CLASSES
    if is_listed:
        for code, figures in enumerate(per_class):
            ranking = Ranking.of(codes == code, scores[:, code], weight)
            figures |= {"roc_auc": ranking.roc_auc(), "pr_auc": ranking.average_precision()}
    return {
        **counts.shares(),
        **macro,
        "roc_auc": _mean(figures.get("roc_auc") for figures in per_class),
        "pr_auc": _mean(figures.get("pr_auc") for figures in per_class),
        "per_class": per_class if is_listed else None,
        "macro": macro,
        "confusion": counts.confusion() if is_listed else None,
    }


class _Counts:
    """Number (or weight) of rows by true and predicted class."""

    def __init__(self, classes: Sequence[Label], codes: Array, predicted: Array, weight: Array | None) -> None:
        self._classes = classes
        self._codes, self._predicted, self._weight = codes, predicted, weight
        self._actual = self._count(codes, len(classes))
        self._named = self._count(predicted, len(classes))
        hit = codes == predicted
        self._hits = np.bincount(codes[hit], None if weight is None else weight[hit], minlength=len(classes))

    def shares(self) -> dict[str, Any]:
        accuracy = ratio(self._hits.sum(), self._actual.sum())
        return {
            "rows": len(self._codes),
            "accuracy": accuracy,
            "error": None if accuracy is None else 1.0 - accuracy,
        }

    def per_class(self) -> list[dict[str, Any]]:
        figures = zip(self._classes, self._hits, self._named, self._actual, strict=True)
        return [
            {
                "label": label,
                "rows": actual.item(),
                "precision": ratio(hits, named),
                "recall": ratio(hits, actual),
                "f1": ratio(2 * hits, named + actual),
            }
            for label, hits, named, actual in figures
        ]

    def confusion(self) -> dict[str, Any]:
        """Return the confusion matrix: a row per true class, a column per predicted class."""
        k = len(self._classes)
        matrix = self._count(self._codes * k + self._predicted, k * k).reshape(k, k)
        return {"labels": list(self._classes), "matrix": matrix.tolist()}

    def _count(self, numbers: Array, size: int) -> Array:
        return np.bincount(numbers, self._weight, minlength=size)


def _macro(per_class: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean over the classes for which the metric is defined."""
    return {name: _mean(figures[name] for figures in per_class) for name in ("precision", "recall", "f1")}


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def ratio(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole > 0 else None
