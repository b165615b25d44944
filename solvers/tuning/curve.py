"""The metrics of a search for C: their value on one fold, computed from scores, and bounds computed from bounds of
scores.

Scores have the shape (rows,), or (rows, classes) for several classes. Bounds are two arrays with one more axis in
front, for the parts of a range of C. `low <= score <= high` holds for the exact scores, so the bounds of a metric hold
for its exact value. With several classes only differences between the classes of a row matter. The two arrays can then
be bounds of the differences alone: low_m - high_k <= f_m - f_k.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from solvers.checks import one_of
from solvers.errors import InvalidProblem
from solvers.linalg.types import Array, Floats

__all__ = ["METRICS", "Metric", "Scorer", "read_metric"]

ROUNDING = 1e-12
"""Relative margin added to the bounds of a mean, for rounding errors. Larger: looser bounds. A pairwise sum of 10^9
non-negative terms has a relative error below 1e-14."""
ANY_TASK = ("binary", "multiclass", "ordinal", "regression")


class Metric(ABC):
    """A metric of the held-out rows of a fold."""

    name: str
    tasks: tuple[str, ...]
    is_higher_better: bool = False
    uses_differences: bool = False
    """Whether only differences between the scores of two rows count, so that a bias cancels."""
    has_bounds: bool = True

    @abstractmethod
    def value(self, scores: Floats, truth: Array) -> float:
        """Return the metric. `truth`: the index of each row's class, or its target."""

    def figure(self, scores: Floats, truth: Array, rows: NDArray[np.int64]) -> float:
        """Return the metric of these held-out rows."""
        return self.value(scores, truth)

    @abstractmethod
    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of the metric, one for each entry of the first axis."""

    def decided_rows(self, low: Floats, high: Floats) -> int | None:
        """Return the number of rows with only one possible prediction over the whole first axis; None: the metric is
        not one of classes."""
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
        """Return bounds from two boolean arrays (parts, rows, classes): the class is certainly predicted, and it is
        possibly predicted."""


@dataclass(frozen=True)
class Scorer:
    """A metric that the caller defines. It has no bounds, so nothing can be proved about it."""

    name: str
    is_higher_better: bool
    value: Callable[[Floats, NDArray[np.int64]], float]
    """(scores of the held-out rows, their row numbers) -> the metric. Several classes: one column of scores each."""


class Scored(Metric):
    """The metric of a `Scorer`."""

    tasks = ANY_TASK
    has_bounds = False

    def __init__(self, scorer: Scorer) -> None:
        self.name, self.is_higher_better = scorer.name, scorer.is_higher_better
        self._scorer = scorer

    def value(self, scores: Floats, truth: Array) -> float:
        raise TypeError("a Scorer needs row numbers, not labels")

    def figure(self, scores: Floats, truth: Array, rows: NDArray[np.int64]) -> float:
        figure = self._scorer.value(scores, rows)
        if not np.isfinite(figure):
            raise InvalidProblem("metric", f"{self.name} is {figure} on a fold; it must return a finite number")
        return float(figure)

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        raise TypeError(f"{self.name} has no bounds")


class Error(ClassMetric):
    """The fraction of rows whose predicted class is wrong."""

    name = "error"

    def value(self, scores: Floats, truth: Array) -> float:
        predicted = scores > 0.0 if scores.ndim == 1 else scores.argmax(axis=1)
        return float(np.count_nonzero(predicted != truth)) / truth.size

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


class Accuracy(Error):
    """The fraction of rows whose own class is predicted."""

    name = "accuracy"
    is_higher_better = True

    def value(self, scores: Floats, truth: Array) -> float:
        return 1.0 - super().value(scores, truth)

    def of_predictions(self, surely: Array, possibly: Array, truth: Array) -> tuple[Floats, Floats]:
        lower, upper = super().of_predictions(surely, possibly, truth)
        return 1.0 - upper, 1.0 - lower


class BalancedAccuracy(BalancedError):
    """The mean over the classes of the accuracy among the rows of the class."""

    name = "balanced_accuracy"
    is_higher_better = True

    def of_predictions(self, surely: Array, possibly: Array, truth: Array) -> tuple[Floats, Floats]:
        lower, upper = super().of_predictions(surely, possibly, truth)
        return 1.0 - upper, 1.0 - lower


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


class PrecisionRecallArea(Metric):
    """The mean precision at the rows of the second class, in order of falling scores; rows of equal score are one
    step."""

    name = "pr_auc"
    tasks = ("binary",)
    is_higher_better = True
    has_bounds = False

    def value(self, scores: Floats, truth: Array) -> float:
        order = np.argsort(-scores, kind="stable")
        hits = np.cumsum(truth[order] == 1, dtype=np.float64)
        is_last = np.append(np.diff(scores[order]) != 0.0, True)
        found, taken = hits[is_last], np.flatnonzero(is_last) + 1.0
        return float((np.diff(found, prepend=0.0) * found / taken).sum() / hits[-1])

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        raise TypeError("pr_auc has no bounds")

    def missing(self, truth: Array, n_classes: int | None) -> str | None:
        return None if (truth == 1).any() else "no row of the second class"


class MeanAbsoluteError(Metric):
    """The mean of |y - f(x)|."""

    name = "mae"
    tasks = ("regression",)
    power: int = 1

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


class RootMeanSquaredError(MeanSquaredError):
    """The square root of the mean of (y - f(x))^2."""

    name = "rmse"

    def value(self, scores: Floats, truth: Array) -> float:
        return float(np.sqrt(super().value(scores, truth)))

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        lower, upper = super().bounds(low, high, truth)
        return np.sqrt(lower) * (1.0 - ROUNDING), np.sqrt(upper) * (1.0 + ROUNDING)


class ExplainedShare(MeanSquaredError):
    """R2: 1 - mse / the variance of the fold's targets."""

    name = "r2"
    is_higher_better = True

    def value(self, scores: Floats, truth: Array) -> float:
        return 1.0 - super().value(scores, truth) / float(np.var(truth))

    def bounds(self, low: Floats, high: Floats, truth: Array) -> tuple[Floats, Floats]:
        least, most = super().bounds(low, high, truth)
        variance = float(np.var(truth))
        # The computed mean of the targets is off by at most 1e-14 of the largest one: a squared error of the variance.
        doubt = ROUNDING + (1e-14 * float(np.abs(truth).max())) ** 2 / variance
        lower, upper = 1.0 - most / variance * (1.0 + doubt), 1.0 - least / variance * (1.0 - doubt)
        return lower - ROUNDING, upper + ROUNDING

    def missing(self, truth: Array, n_classes: int | None) -> str | None:
        return None if np.var(truth) > 0.0 else "equal targets only"


METRICS = MappingProxyType(
    {
        one.name: one()
        for one in (
            Error,
            Accuracy,
            BalancedError,
            BalancedAccuracy,
            F1,
            RocArea,
            PrecisionRecallArea,
            MeanAbsoluteError,
            MeanSquaredError,
            RootMeanSquaredError,
            ExplainedShare,
        )
    }
)
"""Every metric by its name."""


def read_metric(metric: object, task: str) -> Metric:
    """Return the metric of this name, or the metric of a `Scorer`; None: the default metric of the task."""
    if isinstance(metric, Scorer):
        return Scored(metric)
    fitting = [one.name for one in METRICS.values() if task in one.tasks]
    if not fitting:
        raise InvalidProblem("metric", f"task {task} has no named metric; give a Scorer")
    if metric is None:
        return METRICS[fitting[0]]
    found = METRICS[one_of(metric, "metric", InvalidProblem, tuple(METRICS))]
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
