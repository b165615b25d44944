"""Proves that no C of a range is better than the best one found, by bisection with the bounds of bounds.py.

Every training cuts the range at its C. Between two neighbouring trainings the metric of the exact models is bounded. If
the bound allows a value better than best - epsilon, the interval is cut again. Trainings are as precise as their bounds
require: their gaps are kept at a small fraction of H.
"""

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solvers.linalg.types import Floats
from solvers.tuning.bounds import edges_of, score_bounds, score_bounds_at, spread_of
from solvers.tuning.fold_work import FoldWork, Request
from solvers.tuning.path import FoldSolve

__all__ = ["Certifier", "Interval", "TuningCertificate"]

FIRST_TOL = 1e-5
"""Relative gap of the first trainings. Smaller: longer first trainings, of which fewer are repeated once H is known.
Chosen."""
LEAST_TOL = 1e-13
"""Smallest relative gap that is requested. Rounding errors prevent the proof of smaller ones."""
GAP_SHARE, WANTED_SHARE = 0.3, 0.1
"""A training is repeated if its gap exceeds GAP_SHARE times H / 4, the largest squared radius between exact trainings.
New trainings aim at WANTED_SHARE times it. Smaller: tighter bounds, longer trainings. Chosen."""
PIECES = (2, 3, 4)
"""Numbers of pieces into which an interval can be cut at once. The smallest that is probably enough is used, or the
first if none is. Chosen."""
LEAST_RATIO = 1e-9
"""A range from C to (1 + LEAST_RATIO) C is not cut again: rows whose score is nearly 0 for all C would be cut for ever.
Larger: the proof gives up earlier. Chosen."""
DECADE_STEPS = 1
"""Number of first trainings for each factor of 10 in C. Larger: more trainings at the start, fewer later. Chosen."""
MARGIN = 1e-12
"""Tolerance in comparisons of means, which have rounding errors."""


@dataclass(frozen=True)
class TuningCertificate:
    """A proof about the metric of the exact models at every C of a range, as a mean over the folds.

    No C of the range has a metric better than `best` by more than `epsilon_reached`.
    """

    range: tuple[float, float]
    epsilon: float
    """The epsilon that was asked for."""
    epsilon_reached: float
    best: float
    """The proven figure at `C`: at worst this."""
    C: float
    lower_bound: float
    """No C of the range has a smaller figure."""
    upper_bound: float
    """No C of the range has a larger figure."""
    steps: tuple[tuple[float, float, float, float], ...]
    """(C_low, C_high, lower, upper): bounds of the figure at every C from C_low to C_high."""
    decided: int | None
    """Held-out rows whose prediction is the same on all of the step with the weakest bound; None: not classes."""
    undecided: int | None
    """The other held-out rows there."""
    proven: bool
    """Whether `epsilon_reached` is at most `epsilon`."""
    values: int
    """Values of C at which every fold was trained."""


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
    """H of each fold and part of its ends."""


class Certifier:
    """Cuts a range of C until the proof is complete, the caller ends it, or the trainings are used up."""

    def __init__(self, work: FoldWork, values: list[float], epsilon: float | str, max_values: int) -> None:
        self._work = work
        self._values = sorted(values)
        self._wanted = epsilon
        self._max_values = max_values
        self._sign = -1.0 if work.metric.is_higher_better else 1.0
        self._intervals: list[Interval] = []
        self._figures: dict[float, tuple[float, float]] = {}
        self._are_joint = work.are_joint

    @property
    def epsilon(self) -> float:
        """The epsilon in use: a number, or one standard error of the best C."""
        if not isinstance(self._wanted, str):
            return self._wanted
        C, _ = self.best
        values = [self._work.value(solve) for solve in self._work.at(C)]
        return float(np.std(values, ddof=1) / math.sqrt(len(values)))

    @property
    def best(self) -> tuple[float, float]:
        """The C with the best proven metric, and that metric (as a loss: smaller is better)."""
        C = min(self._figures, key=lambda one: (self._figures[one][1], one))
        return C, self._figures[C][1]

    @property
    def figures(self) -> dict[float, tuple[float, float]]:
        """Bounds of the metric at every C at which all folds were trained."""
        if self._sign > 0.0:
            return dict(self._figures)
        return {C: (-high, -low) for C, (low, high) in self._figures.items()}

    def run(self) -> None:
        work = self._work
        work.phase, work.share_done = "certify", self._share_closed
        if not work.run(Request(fold, C, FIRST_TOL) for fold in range(len(work.folds)) for C in self._values):
            self._values = [C for C in self._values if work.is_complete(C)]
        self._refresh(set(self._values))
        is_working = not work.is_over
        while is_working and (open_ones := self._open()):
            repeated = list(self._repeats(open_ones))
            if repeated:
                touched = {request.C for request in repeated}
                is_working = work.run(repeated)
            else:
                room = self._max_values - len(self._values)
                cuts = dict(list(self._cuts(open_ones))[: max(room, 0)])
                if not cuts:
                    break
                requests = [request for several in cuts.values() for request in several]
                is_working = work.run(requests)
                touched = {C for C in cuts if work.is_complete(C)}
                for C in touched:
                    insort(self._values, C)
            self._refresh(touched)
            if not isinstance(self._wanted, str):  # one standard error can shrink, and open an interval again
                ends = {C for one in self._open() for C in (one.low, one.high)}
                work.forget_vectors(ends | {self.best[0]})

    def certificate(self) -> TuningCertificate | None:
        """Return the proof; None if fewer than two values of C were trained on all folds."""
        if not self._intervals:
            return None
        C, best = self.best
        lower = min(float(one.lower.min()) for one in self._intervals)
        upper = max(float(one.upper.max()) for one in self._intervals)
        reached = max(0.0, best - lower)
        steps = [(one.low, one.high, float(one.lower.min()), float(one.upper.max())) for one in self._intervals]
        if self._sign < 0.0:
            best, lower, upper = -best, -upper, -lower
            steps = [(a, b, -high, -low) for a, b, low, high in steps]
        weakest = min(self._intervals, key=lambda one: float(one.lower.min()))
        decided, undecided = self._decided(weakest)
        return TuningCertificate(
            range=(self._values[0], self._values[-1]),
            epsilon=self.epsilon,
            epsilon_reached=reached,
            best=best,
            C=C,
            lower_bound=lower,
            upper_bound=upper,
            steps=tuple(steps),
            decided=decided,
            undecided=undecided,
            proven=reached <= self.epsilon + MARGIN,
            values=len(self._values),
        )

    # --- what to do next ----------------------------------------------------------------------------------------------

    def _target(self) -> float:
        return self.best[1] - self.epsilon - MARGIN

    def _open(self) -> list[Interval]:
        """Return the intervals that can contain a better metric, the weakest bound first."""
        target = self._target()
        found = [
            one for one in self._intervals if one.lower.min() < target and one.high > one.low * (1.0 + LEAST_RATIO)
        ]
        return sorted(found, key=lambda one: float(one.lower.min()))

    def _repeats(self, intervals: list[Interval]) -> Iterator[Request]:
        """Return trainings whose gap is too large for the bounds that they are used in."""
        asked: dict[tuple[int, float], Request] = {}
        for one in intervals:
            for fold, spread in enumerate(one.spreads):
                for C in (one.low, one.high):
                    solve = self._work.of_fold(fold)[C]
                    if not (solve.ends.gaps > GAP_SHARE * spread / 4.0).any():
                        continue
                    request = self._request(fold, C, WANTED_SHARE * spread / 4.0, solve.ends.primals)
                    if request.tol <= 0.5 * solve.tol:
                        known = asked.get((fold, C))
                        if known is None or request.tol < known.tol:
                            asked[fold, C] = request
        C, proven = self.best
        # The label of a row may be open at the C of a training itself: then that C may be better than the best.
        promising = min(self._figures, key=lambda one: (self._figures[one][0], one))
        if self._figures[promising][0] < proven - MARGIN:
            for solve in self._work.at(promising):
                if solve.tol > 2.0 * LEAST_TOL and (solve.fold, promising) not in asked:
                    wanted = solve.ends.gaps / 64.0
                    asked[solve.fold, promising] = self._request(solve.fold, promising, wanted, solve.ends.primals)
        yield from (one for (fold, C), one in asked.items() if one.tol < self._work.of_fold(fold)[C].tol)

    def _cuts(self, intervals: list[Interval]) -> Iterator[tuple[float, list[Request]]]:
        """Return the values of C at which to cut each interval, and the trainings needed for it."""
        target = self._target()
        for one in intervals:
            (weak,) = np.nonzero(one.lower < target)
            first, last = float(one.edges[weak[0]]), float(one.edges[weak[-1] + 1])
            pieces = self._pieces(one, target)
            # Cuts are those of the weak parts; their outer ends are cuts too if they are not those of the interval.
            for C in np.geomspace(first, last, pieces + 1)[1:-1].tolist():
                if one.low < C < one.high:
                    yield C, [self._cut(one, fold, C, pieces) for fold in range(len(one.spreads))]

    def _pieces(self, interval: Interval, target: float) -> int:
        """Return the number of pieces that are probably narrow enough. H falls with the square of their width."""
        for pieces in PIECES:
            lower, _ = self._figures_between(interval, [spread / pieces**2 for spread in interval.spreads])
            if lower.min() >= target:
                return pieces
        return PIECES[0]

    def _cut(self, interval: Interval, fold: int, C: float, pieces: int) -> Request:
        ends = self._work.of_fold(fold)[interval.high].ends
        wanted = WANTED_SHARE * interval.spreads[fold] / (4.0 * pieces**2)
        # V(C) >= (C / high) V(high), because V is concave.
        return self._request(fold, C, wanted, ends.primals * (C / interval.high))

    def _request(self, fold: int, C: float, wanted: Floats, primals: Floats) -> Request:
        tol = float((wanted / np.maximum(primals, 1e-300)).min())
        # A power of 2: the same request has the same number on every machine.
        tol = 2.0 ** math.floor(math.log2(min(max(tol, LEAST_TOL), FIRST_TOL)))
        return Request(fold, C, tol, wanted)

    def _share_closed(self) -> float:
        if not self._intervals:
            return 0.0
        whole = math.log(self._values[-1] / self._values[0])
        return 1.0 - sum(math.log(one.high / one.low) for one in self._open()) / whole

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _refresh(self, changed: set[float]) -> None:
        """Bound the metric at these values of C, and in the adjacent intervals that are not closed."""
        for C in changed:
            self._figures[C] = self._figure_at(C)
        known = {(one.low, one.high): one for one in self._intervals}
        self._intervals = [
            known[low, high]
            if (low, high) in known and (not {low, high} & changed or self._is_closed(known[low, high]))
            else self._bounded(low, high)
            for low, high in pairwise(self._values)
        ]

    def _is_closed(self, interval: Interval) -> bool:
        """Whether the bound is good enough. It stays good enough, because the best metric only improves."""
        return not isinstance(self._wanted, str) and bool(interval.lower.min() >= self._target())

    def _figure_at(self, C: float) -> tuple[float, float]:
        parts = []
        for fold, solve in enumerate(self._work.at(C)):
            judged = self._work.judged(fold)
            boxes = score_bounds_at(solve.ends, judged, are_joint=self._are_joint)
            parts.append(self._work.metric.bounds(*boxes, judged.truth))
        lower, upper = (float(np.mean([one[side][0] for one in parts])) for side in (0, 1))
        return (lower, upper) if self._sign > 0.0 else (-upper, -lower)

    def _bounded(self, low: float, high: float) -> Interval:
        spreads = [spread_of(a.ends, b.ends, low, high) for a, b in self._pairs(low, high)]
        interval = Interval(low, high, edges_of(low, high), np.empty(0), np.empty(0), spreads)
        interval.lower, interval.upper = self._figures_between(interval, spreads)
        return interval

    def _figures_between(self, interval: Interval, spreads: list[Floats]) -> tuple[Floats, Floats]:
        """Return bounds of the metric in each part of the interval, given H."""
        parts = []
        for (a, b), spread in zip(self._pairs(interval.low, interval.high), spreads, strict=True):
            judged = self._work.judged(a.fold)
            boxes = score_bounds(a.ends, b.ends, spread, interval.edges, judged, are_joint=self._are_joint)
            parts.append(self._work.metric.bounds(*boxes, judged.truth))
        lower, upper = (np.mean([one[side] for one in parts], axis=0) for side in (0, 1))
        return (lower, upper) if self._sign > 0.0 else (-upper, -lower)

    def _pairs(self, low: float, high: float) -> Iterator[tuple[FoldSolve, FoldSolve]]:
        for fold in range(len(self._work.folds)):
            found = self._work.of_fold(fold)
            yield found[low], found[high]

    def _decided(self, interval: Interval) -> tuple[int, int] | tuple[None, None]:
        """Count the held-out rows whose prediction is decided in the weakest part of an interval."""
        weakest = int(interval.lower.argmin())
        decided = total = 0
        for fold, (a, b) in enumerate(self._pairs(interval.low, interval.high)):
            judged, edges = self._work.judged(fold), interval.edges
            boxes = score_bounds(a.ends, b.ends, interval.spreads[fold], edges, judged, are_joint=self._are_joint)
            known = self._work.metric.decided_rows(*(one[[weakest]] for one in boxes))
            if known is None:
                return None, None
            decided, total = decided + known, total + judged.truth.size
        return decided, total - decided
