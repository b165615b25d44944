"""Metrics of class predictions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from app.datasets.schemas import Label
from app.models.linear import class_positions
from app.models.metrics.curves import Ranking
from app.tabular.types import Array

MOST_LISTED_CLASSES = 100
"""Maximum classes with metrics per class and a confusion matrix. Larger: a matrix of 10,000 entries and more in the
card. Set by hand; no measurement is recorded."""


class Decision(NamedTuple):
    """How a model of two classes decides, and for which class it is judged."""

    positive: int = 1
    """Position of the positive class: precision, recall, F1 and the areas are those of this class."""
    threshold: float = 0.0
    """A score above it predicts the second class, whichever class is positive."""


BY_SIGN = Decision()
"""A score above 0 predicts the second class, which is the positive one."""


def binary_metrics(
    classes: Sequence[Label],
    codes: Array,
    scores: Array,
    weight: Array | None = None,
    decision: Decision = BY_SIGN,
    ranking: Ranking | None = None,
) -> dict[str, Any]:
    """Return the metrics of two classes. `codes`: positions in `classes`.

    `ranking`: that of these rows for the positive class, if it is already computed.
    """
    predicted = class_positions(scores, np.array([decision.threshold]))
    counts = Counts(classes, codes, predicted, weight)
    ranking = ranking or Ranking.of_class(decision.positive, codes, scores, weight)
    per_class = counts.per_class()
    return {
        **counts.shares(),
        "positive_class": classes[decision.positive],
        "threshold": decision.threshold,
        **{name: per_class[decision.positive][name] for name in ("precision", "recall", "f1")},
        "roc_auc": ranking.roc_auc(),
        "pr_auc": ranking.average_precision(),
        "prbep": ranking.break_even(),
        "per_class": per_class,
        "macro": macro_means(per_class),
        "confusion": counts.confusion(),
    }


def multiclass_metrics(
    classes: Sequence[Label], codes: Array, scores: Array, weight: Array | None = None
) -> dict[str, Any]:
    """Return the metrics of several classes. `scores` has a column per class; areas are one-vs-rest means."""
    counts = Counts(classes, codes, class_positions(scores), weight)
    per_class = counts.per_class()
    macro = macro_means(per_class)
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


class Counts:
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
        has_rows = self._actual > 0
        return {
            "rows": len(self._codes),
            "accuracy": accuracy,
            "error": None if accuracy is None else 1.0 - accuracy,
            "balanced_accuracy": _mean((self._hits[has_rows] / self._actual[has_rows]).tolist()),
            "matthews": self._matthews(),
        }

    def prevalence(self) -> Array:
        """Return the share of the rows of each class."""
        shares: Array = self._actual / max(self._actual.sum(), np.finfo(np.float64).tiny)
        return shares

    def _matthews(self) -> float | None:
        """Return the Matthews correlation coefficient; 0 if all true or all predicted classes are equal."""
        total = float(self._actual.sum())
        if total <= 0:
            return None
        hit, actual, named = self._hits.sum() / total, self._actual / total, self._named / total
        spread = (1.0 - np.sum(actual**2)) * (1.0 - np.sum(named**2))
        if (actual == 1.0).any() or (named == 1.0).any() or spread <= 0:
            return 0.0
        return float(np.clip((hit - np.sum(actual * named)) / np.sqrt(spread), -1.0, 1.0))

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


def macro_means(per_class: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean over the classes for which the metric is defined."""
    return {name: _mean(figures[name] for figures in per_class) for name in ("precision", "recall", "f1")}


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def ratio(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole > 0 else None
