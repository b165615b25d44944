"""Tunes the decision threshold of a binary model on the scores of held-out rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import solvers
from app.models.metrics import Decision
from app.tabular.types import Array
from app.worker.train.load import Work
from app.worker.train.result_metrics import labels_of

TIE = 1e-12
"""Difference of two values of a metric that counts as rounding. Larger: more thresholds count as equally good."""


class TunedThreshold(NamedTuple):
    value: float
    told: dict[str, Any]
    """Description for the model's card."""


class _Cells(NamedTuple):
    """Weights of the rows by truth and prediction, for each threshold."""

    tp: Array
    fp: Array
    fn: Array
    tn: Array


def tuned_threshold(
    work: Work, result: solvers.SolveResult, held_out_scores: Array | None, decision: Decision
) -> TunedThreshold | None:
    """Tune the threshold that the job asks for; None: it asks for none, or no row of a class was held out."""
    if work.request.threshold is None or held_out_scores is None:
        return None
    classes, rows = labels_of(work.train, result), work.train
    is_scored = np.isfinite(held_out_scores)
    scores, codes = held_out_scores[is_scored], rows.codes(classes)[is_scored]
    weight = np.ones(len(codes)) if rows.weight is None else rows.weight[is_scored]
    if (np.bincount(codes, weight, minlength=2) <= 0.0).any():
        return None
    metric = work.request.threshold.metric
    value, reached, at_zero = best_threshold(metric, decision.positive, codes, scores, weight)
    told = {
        "metric": metric,
        "value": value,
        "positive_class": classes[decision.positive],
        "rows": len(codes),
        "held_out": reached,
        "at_zero": at_zero,
    }
    return TunedThreshold(value, told)


def best_threshold(
    metric: str, positive: int, codes: Array, scores: Array, weight: Array
) -> tuple[float, float, float]:
    """Return the threshold with the best metric, the metric there, and the metric at 0.

    A score above the threshold predicts the second class. Thresholds between two neighbouring scores are equal; of
    equally good ones, the one nearest to 0 is chosen.
    """
    points, place = np.unique(scores, return_inverse=True)
    below = [
        np.concatenate([[0.0], np.cumsum(np.bincount(place, weight * (codes == code), minlength=len(points)))])
        for code in (0, 1)
    ]
    above = [one[-1] - one for one in below]
    hit, wrong, missed, rejected = (above[1], above[0], below[1], below[0])
    cells = _Cells(hit, wrong, missed, rejected) if positive == 1 else _Cells(rejected, missed, wrong, hit)
    values = METRICS[metric](cells)
    low, high = np.append(-np.inf, points), np.append(points, np.inf)  # threshold k: low[k] <= t < high[k]
    distance = np.maximum(0.0, np.maximum(low, -high))
    good = np.flatnonzero(values >= values.max() - TIE)
    chosen = int(good[distance[good].argmin()])
    zero = int(np.searchsorted(points, 0.0, side="right"))
    return _between(low[chosen], high[chosen]), float(values[chosen]), float(values[zero])


def _between(low: float, high: float) -> float:
    """Return a threshold t with low <= t < high: 0 if possible, else the middle."""
    if low <= 0.0 < high:
        return 0.0
    if not np.isfinite(low):
        return float(np.nextafter(high, -np.inf))
    middle = low + 0.5 * (high - low) if np.isfinite(high) else low
    return float(middle if low <= middle < high else low)


def _f1(cells: _Cells) -> Array:
    return _shares(2.0 * cells.tp, 2.0 * cells.tp + cells.fp + cells.fn)


def _accuracy(cells: _Cells) -> Array:
    return _shares(cells.tp + cells.tn, cells.tp + cells.fp + cells.fn + cells.tn)


def _balanced_accuracy(cells: _Cells) -> Array:
    return 0.5 * (_shares(cells.tp, cells.tp + cells.fn) + _shares(cells.tn, cells.tn + cells.fp))


def _matthews(cells: _Cells) -> Array:
    total = cells.tp + cells.fp + cells.fn + cells.tn
    tp, fp, fn, tn = (one / total for one in cells)
    return _shares(tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))


METRICS: dict[str, Callable[[_Cells], Array]] = {
    "f1": _f1,
    "balanced_accuracy": _balanced_accuracy,
    "accuracy": _accuracy,
    "matthews": _matthews,
}
"""The metrics that a threshold can be tuned for: those of app/jobs/schemas.py."""


def _shares(part: Array, whole: Array) -> Array:
    shares: Array = np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
    return shares
