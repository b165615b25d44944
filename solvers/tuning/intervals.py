"""The proven curve of one variant: the range of C, cut at every training, with bounds of the metric in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solvers.linalg.types import Floats
from solvers.tuning.bounds import edges_of, score_bounds, score_bounds_at, spread_of
from solvers.tuning.fold_work import FoldWork
from solvers.tuning.path import FoldSolve

__all__ = ["Interval", "ProvenCurve", "Step"]

Step = tuple[float, float, float, float]
"""(C_low, C_high, lower, upper): bounds of the metric at every C from C_low to C_high."""


@dataclass
class Interval:
    """A range between two neighbouring values of C, with the bounds of its parts."""

    low: float
    high: float
    edges: Floats
    lower: Floats
    """Of each part."""
    upper: Floats
    spreads: list[Floats]
    """For each fold, H of each part of its `Ends`."""

    @property
    def weakest(self) -> float:
        """The smallest lower bound of its parts."""
        return float(self.lower.min())


class ProvenCurve:
    """Bounds of the metric of one variant along C. The metric is a loss here: its sign is changed if larger is
    better."""

    def __init__(self, work: FoldWork, variant: int, values: list[float]) -> None:
        self.variant = variant
        self.values = sorted(values)
        self.intervals: list[Interval] = []
        self.figures: dict[float, tuple[float, float]] = {}
        """Bounds at every C at which all folds were trained."""
        self._work = work
        self._sign = -1.0 if work.metric.is_higher_better else 1.0
        self._are_joint = work.trainings[variant].are_joint(work.source.labels)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The bounds of each interval, with the metric's own sign."""
        steps = [(one.low, one.high, one.weakest, float(one.upper.max())) for one in self.intervals]
        return tuple(steps) if self._sign > 0.0 else tuple((a, b, -high, -low) for a, b, low, high in steps)

    @property
    def signed_figures(self) -> dict[float, tuple[float, float]]:
        """The bounds at every C, with the metric's own sign."""
        if self._sign > 0.0:
            return dict(self.figures)
        return {C: (-high, -low) for C, (low, high) in self.figures.items()}

    def refresh(self, changed: set[float], closed_at: float | None) -> None:
        """Bound the metric in the intervals that end at these values of C. Those whose bound is at least `closed_at`
        stay as they are."""
        known = {(one.low, one.high): one for one in self.intervals}
        self.intervals = [
            known[low, high]
            if (low, high) in known
            and (not {low, high} & changed or (closed_at is not None and known[low, high].weakest >= closed_at))
            else self._bounded(low, high)
            for low, high in pairwise(self.values)
        ]

    def measure(self, changed: set[float]) -> None:
        """Bound the metric at these values of C."""
        for C in changed:
            self.figures[C] = self._figure_at(C)

    def bounds_with(self, interval: Interval, spreads: list[Floats]) -> tuple[Floats, Floats]:
        """Return bounds of the metric in each part of the interval, given H."""
        parts = []
        for (a, b), spread in zip(self._pairs(interval.low, interval.high), spreads, strict=True):
            judged = self._work.judged(self.variant, a.fold)
            boxes = score_bounds(a.ends, b.ends, spread, interval.edges, judged, are_joint=self._are_joint)
            parts.append(self._work.metric.bounds(*boxes, judged.truth))
        lower, upper = (np.mean([one[side] for one in parts], axis=0) for side in (0, 1))
        return (lower, upper) if self._sign > 0.0 else (-upper, -lower)

    def decided(self, interval: Interval) -> tuple[int, int] | tuple[None, None]:
        """Count the held-out rows whose prediction is decided in the weakest part of an interval."""
        weakest = int(interval.lower.argmin())
        decided = total = 0
        for fold, (a, b) in enumerate(self._pairs(interval.low, interval.high)):
            judged, edges = self._work.judged(self.variant, fold), interval.edges
            boxes = score_bounds(a.ends, b.ends, interval.spreads[fold], edges, judged, are_joint=self._are_joint)
            known = self._work.metric.decided_rows(*(one[[weakest]] for one in boxes))
            if known is None:
                return None, None
            decided, total = decided + known, total + judged.truth.size
        return decided, total - decided

    def _figure_at(self, C: float) -> tuple[float, float]:
        parts = []
        for fold, solve in enumerate(self._work.at(self.variant, C)):
            judged = self._work.judged(self.variant, fold)
            boxes = score_bounds_at(solve.ends, judged, are_joint=self._are_joint)
            parts.append(self._work.metric.bounds(*boxes, judged.truth))
        lower, upper = (float(np.mean([one[side][0] for one in parts])) for side in (0, 1))
        return (lower, upper) if self._sign > 0.0 else (-upper, -lower)

    def _bounded(self, low: float, high: float) -> Interval:
        spreads = [spread_of(a.ends, b.ends, low, high) for a, b in self._pairs(low, high)]
        interval = Interval(low, high, edges_of(low, high), np.empty(0), np.empty(0), spreads)
        interval.lower, interval.upper = self.bounds_with(interval, spreads)
        return interval

    def _pairs(self, low: float, high: float) -> Iterator[tuple[FoldSolve, FoldSolve]]:
        for fold in range(len(self._work.folds)):
            found = self._work.of_fold(self.variant, fold)
            yield found[low], found[high]
