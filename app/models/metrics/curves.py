"""ROC and precision-recall curves of scores, and the areas under them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.tabular.types import Array

CURVE_POINTS = 200
"""Maximum points of a curve. Larger: larger cards. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Ranking:
    """Cumulative weights of rows from the highest score down; equal scores form one step."""

    thresholds: Array
    hits: Array
    """Weight of the positive rows with at least the score of each step."""
    false_alarms: Array

    @classmethod
    def of(cls, positive: Array, scores: Array, weight: Array | None = None) -> "Ranking":
        order = np.argsort(-scores)
        descending, is_hit = scores[order], positive[order]
        last = np.flatnonzero(np.append(descending[1:] != descending[:-1], True)[: len(scores)])  # of equal scores
        if weight is None:  # row counts are exact in float64; a third of the memory
            hits = np.cumsum(is_hit, dtype=np.float64)[last]
            return cls(descending[last], hits, last + 1.0 - hits)
        counted = weight[order]
        hits, false_alarms = np.cumsum(np.where(is_hit, counted, 0.0)), np.cumsum(np.where(is_hit, 0.0, counted))
        return cls(descending[last], hits[last], false_alarms[last])

    @classmethod
    def of_class(cls, positive: int, codes: Array, scores: Array, weight: Array | None = None) -> "Ranking":
        """Rank the rows of two classes for one of them: low scores first, if it is the first class. Thresholds stay
        scores."""
        if positive == 1:
            return cls.of(codes == 1, scores, weight)
        mirrored = cls.of(codes == 0, -scores, weight)
        return replace(mirrored, thresholds=0.0 - mirrored.thresholds)

    @property
    def n_positive(self) -> float:
        return float(self.hits[-1]) if len(self.hits) else 0.0

    @property
    def n_negative(self) -> float:
        return float(self.false_alarms[-1]) if len(self.false_alarms) else 0.0

    @property
    def has_both(self) -> bool:
        return self.n_positive > 0 and self.n_negative > 0

    def roc_auc(self) -> float | None:
        """Return the share of (positive, negative) pairs in the right order; a tie counts half."""
        if not self.has_both:
            return None
        area = np.trapezoid(np.append(0.0, self.hits), np.append(0.0, self.false_alarms))
        return float(area / (self.n_positive * self.n_negative))

    def average_precision(self) -> float | None:
        """Return the area under the precision-recall curve as a sum of steps: interpolation would be too optimistic."""
        if self.n_positive <= 0:
            return None
        gained = np.diff(self.hits, prepend=0.0)
        return float(np.sum(gained * self._precision()) / self.n_positive)

    def break_even(self) -> float | None:
        """Return the precision at the threshold where precision equals recall. A step of tied scores that crosses it
        counts in part."""
        if self.n_positive <= 0:
            return None
        taken = np.append(0.0, self.hits + self.false_alarms)
        return float(np.interp(self.n_positive, taken, np.append(0.0, self.hits)) / self.n_positive)

    def roc_curve(self) -> dict[str, list[Any]]:
        tpr = np.append(0.0, self.hits) / self.n_positive
        fpr = np.append(0.0, self.false_alarms) / self.n_negative
        kept = _thinned(0.5 * (fpr + tpr))
        threshold = [None, *self.thresholds[kept[1:] - 1].tolist()]  # the start of the curve
        return {"fpr": fpr[kept].tolist(), "tpr": tpr[kept].tolist(), "threshold": threshold}

    def pr_curve(self) -> dict[str, list[Any]]:
        precision, recall = self._precision(), self.hits / self.n_positive
        kept = _thinned(recall)
        curve = {"precision": precision, "recall": recall, "threshold": self.thresholds}
        return {name: values[kept].tolist() for name, values in curve.items()}

    def curves(self) -> dict[str, Any] | None:
        """Return the ROC and the precision-recall curve, at most 200 points each; None without rows of both classes."""
        return {"roc": self.roc_curve(), "pr": self.pr_curve()} if self.has_both else None

    def _precision(self) -> Array:
        taken = self.hits + self.false_alarms
        precision: Array = np.divide(self.hits, taken, out=np.zeros(len(taken)), where=taken > 0)
        return precision


def _thinned(progress: Array) -> Array:
    """Select points evenly by `progress`, which grows from 0 to 1, including both ends."""
    last = len(progress) - 1
    if last < CURVE_POINTS:
        return np.arange(last + 1)
    wanted = np.searchsorted(progress, np.linspace(0.0, 1.0, CURVE_POINTS - 1))
    return np.unique(np.append(np.minimum(wanted, last), last))
