"""The metrics of a search for C: their value on one fold, computed from scores, and bounds computed from bounds of
scores.

Scores have the shape (rows,), or (rows, classes) for several classes. Bounds are two arrays with one more axis in
front, for the parts of a range of C. `low <= score <= high` holds for the exact scores, so the bounds of a metric hold
for its exact value. With several classes only differences between the classes of a row matter. The two arrays can then
be bounds of the differences alone: low_m - high_k <= f_m - f_k.
"""

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from solvers.checks import one_of
from solvers.errors import InvalidProblem
from solvers.linalg.types import Array, Floats

__all__ = ["METRICS", "Metric", "read_metric"]

ROUNDING = 1e-12
"""Relative tolerance of the bounds of a mean. A pairwise sum of 10^9 non-negative terms has a relative error below
1e-14."""


class Metric(ABC):
    """A metric of the held-out rows of a fold."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]
    is_higher_better: ClassVar[bool] = False
    uses_differences: ClassVar[bool] = False
    """Whether only differences between the scores of two rows count, so that a bias cancels."""

    @abstractmethod
    def value(self, scores: Floats, truth: Array) -> float:
        """Return the metric. `truth`: the index of each row's class, or its target."""

    @abstractmethod
    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of the metric, one for each entry of the first axis."""

    def decided_rows(self, low: Floats, high: Floats) -> int | None:
        """Return how many rows have one possible prediction on all entries of the first axis; None: not classes."""
        return None

    def missing(self, truth: Array, n_classes: int | None) -> str | None:
        """Return what a fold's held-out rows lack for this metric; None if nothing."""
        return None


class ClassMetric(Metric):
    """A metric of predicted classes."""

    tasks = ("binary", "multiclass")

    def value(self, scores: Floats, truth: Array) -> float:
        exact = scores[None]
        return float(self.bounds(exact, exact, truth)[0][0])

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        return self.of_predictions(*_predictions(low, high), truth)

    def decided_rows(self, low: Floats, high: Floats) -> int | None:
        surely: Array = np.logical_and.reduce(_predictions(low, high)[0], axis=0)
        return int(np.count_nonzero(surely.any(axis=1)))

    @abstractmethod
    def of_predictions(self, surely: Array, possibly: Array, truth: Array) -> tuple[Floats, Floats]:
        """Return bounds from two arrays (parts, rows, classes): is a class certainly, and is it possibly predicted."""


class Error(ClassMetric):
    """The fraction of rows for which another class is predicted."""

    name = "error"

    def of_predictions(self, surely: Array, possibly: Array, truth: Array) -> tuple[Floats, Floats]:
        rows = np.arange(truth.size)
        return (~possibly[:, rows, truth]).mean(axis=1), (~surely[:, rows, truth]).mean(axis=1)


class BalancedError(ClassMetric):
    """The mean over the classes of the error among the rows of the class."""

    name = "balanced_error"

    def of_predictions(self, surely: Array, possibly: Array, truth: Array) -> tuple[Floats, Floats]:
        lower, upper = (np.zeros(surely.shape[0]) for _ in range(2))
        present = np.unique(truth)
        for code in present:
            own = truth == code
            lower += (~possibly[:, own, code]).mean(axis=1)
            upper += (~surely[:, own, code]).mean(axis=1)
        return lower / present.size, upper / present.size


class F1(ClassMetric):
    """2 hits / (predicted + actual) of the second class; with several classes, the mean over them."""

    name = "f1"
    is_higher_better = True

    def of_predictions(self, surely: Array, possibly: Array, truth: Array) -> tuple[Floats, Floats]:
        n_classes = surely.shape[2]
        codes = [1] if n_classes == 2 else [int(code) for code in np.unique(truth)]
        lower, upper = (np.zeros(surely.shape[0]) for _ in range(2))
        for code in codes:
            own = truth == code
            hits_low, hits_high = (np.count_nonzero(one[:, own, code], axis=1) for one in (surely, possibly))
            alarms_low, alarms_high = (np.count_nonzero(one[:, ~own, code], axis=1) for one in (surely, possibly))
            actual = np.count_nonzero(own)
            lower += 2.0 * hits_low / np.maximum(hits_low + actual + alarms_high, 1)
            upper += 2.0 * hits_high / np.maximum(hits_high + actual + alarms_low, 1)
        return lower / len(codes), upper / len(codes)

    def missing(self, truth: Array, n_classes: int | None) -> str | None:
        return "no row of the second class" if n_classes == 2 and not (truth == 1).any() else None


class RocArea(Metric):
    """The fraction of pairs of rows of different classes that the scores order correctly; a tie counts half."""

    name = "roc_auc"
    tasks = ("binary",)
    is_higher_better = True
    uses_differences = True

    def value(self, scores: Floats, truth: Array) -> float:
        positive, negative = scores[truth == 1], np.sort(scores[truth == 0])
        below = np.searchsorted(negative, positive, side="left").sum(dtype=np.float64)
        not_above = np.searchsorted(negative, positive, side="right").sum(dtype=np.float64)
        return float(0.5 * (below + not_above) / (positive.size * negative.size))

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        is_positive = truth == 1
        pairs = float(np.count_nonzero(is_positive)) * np.count_nonzero(~is_positive)
        lower, upper = (np.empty(low.shape[0]) for _ in range(2))
        for part in range(low.shape[0]):
            highest, lowest = np.sort(high[part, ~is_positive]), np.sort(low[part, ~is_positive])
            surely = np.searchsorted(highest, low[part, is_positive], side="left").sum(dtype=np.float64)
            possibly = np.searchsorted(lowest, high[part, is_positive], side="right").sum(dtype=np.float64)
            lower[part], upper[part] = surely / pairs, possibly / pairs
        return lower, upper

    def missing(self, truth: Array, n_classes: int | None) -> str | None:
        return "rows of one class only" if truth.min() == truth.max() else None


class MeanAbsoluteError(Metric):
    """The mean of |y - f(x)|."""

    name = "mae"
    tasks = ("regression",)
    power: ClassVar[int] = 1

    def value(self, scores: Floats, truth: Array) -> float:
        return float((np.abs(truth - scores) ** self.power).mean())

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        least = np.maximum(np.maximum(low - truth, truth - high), 0.0) ** self.power
        most = np.maximum(np.abs(low - truth), np.abs(high - truth)) ** self.power
        return least.mean(axis=1) * (1.0 - ROUNDING), most.mean(axis=1) * (1.0 + ROUNDING)


class MeanSquaredError(MeanAbsoluteError):
    """The mean of (y - f(x))^2."""

    name = "mse"
    power = 2


METRICS = MappingProxyType(
    {one.name: one() for one in (Error, BalancedError, F1, RocArea, MeanAbsoluteError, MeanSquaredError)}
)
"""Every metric by its name."""


def read_metric(name: object, task: str) -> Metric:
    """Return the metric of this name; None means the first one of the task."""
    fitting = [metric.name for metric in METRICS.values() if task in metric.tasks]
    if name is None:
        return METRICS[fitting[0]]
    found = METRICS[one_of(name, "metric", InvalidProblem, tuple(METRICS))]
    if found.name not in fitting:
        raise InvalidProblem("metric", f"{found.name} does not fit task {task}; use {' or '.join(fitting)}")
    return found


def _predictions(low: Floats, high: Floats) -> tuple[Array, Array]:
    """Return two arrays for each row and class: whether the class is certainly, and whether it is possibly predicted.

    Two classes: a score above 0 means the second one. Several: the first of the largest scores.
    """
    if low.ndim == 2:
        surely = np.stack([high <= 0.0, low > 0.0], axis=2)
        return surely, ~surely[:, :, ::-1]
    n_classes = low.shape[2]
    surely, possibly = np.empty(low.shape, dtype=bool), np.empty(low.shape, dtype=bool)
    for m in range(n_classes):
        before, after = np.arange(n_classes) < m, np.arange(n_classes) > m
        # A rival with a smaller number wins ties.
        surely[:, :, m] = (low[:, :, [m]] > high[:, :, before]).all(axis=2)
        surely[:, :, m] &= (low[:, :, [m]] >= high[:, :, after]).all(axis=2)
        possibly[:, :, m] = (high[:, :, [m]] > low[:, :, before]).all(axis=2)
        possibly[:, :, m] &= (high[:, :, [m]] >= low[:, :, after]).all(axis=2)
    return surely, possibly
