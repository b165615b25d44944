"""Proves that no C of a range is better than the best one found, by bisection with the bounds of bounds.py.

Every training cuts the range at its C. Between two neighbouring trainings the metric of the exact models is bounded. If
the bound allows a value better than best - epsilon, the interval is cut again. Trainings are only as precise as the
bounds require: the target of a gap is a small fraction of H. Each variant (another loss, class weight or preprocessing)
has its own curve. The proof compares every C of every variant with the best value of all curves.
"""

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solvers.linalg.types import Floats
from solvers.tuning.fold_work import FoldWork, Request
from solvers.tuning.intervals import Interval, ProvenCurve, Step

__all__ = ["Certifier", "TuningCertificate"]

FIRST_TOL = 1e-5
"""Relative gap of the first trainings. Larger: shorter first trainings, and more of them are repeated once H is known.
Set by hand; no measurement is recorded."""
LEAST_TOL = 1e-13
"""Smallest relative gap that is requested. Smaller gaps cannot be proved, because of rounding errors in float64. Set by
hand; no measurement is recorded."""
GAP_SHARE, WANTED_SHARE = 0.3, 0.1
"""A training is repeated if its gap exceeds GAP_SHARE times H / 4, the largest squared radius between exact trainings.
New trainings aim at WANTED_SHARE times H / 4. Larger: looser bounds, shorter trainings. Set by hand; no measurement is
recorded."""
PIECES = (2, 3, 4)
"""Numbers of pieces into which an interval can be cut at once. The smallest number that is probably enough is used; if
none is, the smallest of all. Larger numbers: more trainings at once, fewer rounds. Set by hand; no measurement is
recorded."""
LEAST_RATIO = 1e-9
"""A range from C to (1 + LEAST_RATIO) C is not cut again: a row whose score is nearly 0 for all C would otherwise cause
cuts without end. Larger: the proof gives up earlier. Set by hand; no measurement is recorded."""
DECADE_STEPS = 1
"""Number of first trainings for each factor of 10 in C. Larger: more trainings at the start, fewer later. Set by hand;
no measurement is recorded."""
MARGIN = 1e-12
"""Absolute tolerance in comparisons of mean metrics, which have rounding errors. Larger: a worse C can count as equal.
Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class TuningCertificate:
    """A proof about the metric of the exact models at every C of a range, as a mean over the folds.

    No C of the range, in any variant, has a metric better than `best` by more than `epsilon_reached`.
    """

    range: tuple[float, float]
    epsilon: float
    """The epsilon that was asked for."""
    epsilon_reached: float
    best: float
    """The proven bound of the metric at `C` in `variant`: the exact model is at least this good."""
    C: float
    variant: int
    lower_bound: float
    """No C of the range has a smaller figure."""
    upper_bound: float
    """No C of the range has a larger figure."""
    steps_by_variant: tuple[tuple[Step, ...], ...]
    """For each variant (C_low, C_high, lower, upper): bounds of the figure at every C from C_low to C_high."""
    decided: int | None
    """Number of held-out rows with the same prediction at every C of the step with the weakest bound; None: the task
    has no classes."""
    undecided: int | None
    """Number of the other held-out rows in that step."""
    proven: bool
    """Whether `epsilon_reached` is at most `epsilon`."""
    values: int
    """Values of C at which every fold was trained, counted in each variant."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the best variant: all steps if there is one variant."""
        return self.steps_by_variant[self.variant]


class Certifier:
    """Cuts a range of C until the proof is complete, the caller ends the search, or `max_values` is reached."""

    def __init__(
        self, work: FoldWork, values: list[float], epsilon: float | str, max_values: int, *, keep_models: bool
    ) -> None:
        self._work = work
        work.with_ends = True
        self._wanted = epsilon
        self._max_values = max_values
        self._keep_models = keep_models
        self._sign = -1.0 if work.metric.is_higher_better else 1.0
        self._curves = [ProvenCurve(work, variant, values) for variant in range(len(work.trainings))]

    @property
    def epsilon(self) -> float:
        """The epsilon in use: a number, or one standard error of the best C."""
        if not isinstance(self._wanted, str):
            return self._wanted
        variant, C, _ = self.best
        values = [self._work.value(solve) for solve in self._work.at(variant, C)]
        return float(np.std(values, ddof=1) / math.sqrt(len(values)))

    @property
    def best(self) -> tuple[int, float, float]:
        """The variant and C with the best proven metric, and that metric (as a loss: smaller is better)."""
        found = ((figure[1], curve.variant, C) for curve in self._curves for C, figure in curve.figures.items())
        metric, variant, C = min(found)
        return variant, C, metric

    @property
    def figures(self) -> dict[tuple[int, float], tuple[float, float]]:
        """Bounds of the metric at every (variant, C) at which all folds were trained."""
        return {(curve.variant, C): figure for curve in self._curves for C, figure in curve.signed_figures.items()}

    def run(self) -> None:
        work = self._work
        work.reporter.phase, work.reporter.share_done = "certify", self._share_closed
        first = (
            Request(curve.variant, fold, C, FIRST_TOL)
            for curve in self._curves
            for fold in range(len(work.folds))
            for C in curve.values
        )
        if not work.run(first):
            for curve in self._curves:
                curve.values = [C for C in curve.values if work.is_complete(curve.variant, C)]
        self._refresh({(curve.variant, C) for curve in self._curves for C in curve.values})
        is_working = not work.is_over
        while is_working and (open_ones := self._open()):
            repeated = list(self._repeats(open_ones))
            if repeated:
                touched = {(request.variant, request.C) for request in repeated}
                is_working = work.run(repeated)
            else:
                room = self._max_values - sum(len(curve.values) for curve in self._curves)
                cuts = dict(list(self._cuts(open_ones))[: max(room, 0)])
                if not cuts:
                    break
                is_working = work.run([request for several in cuts.values() for request in several])
                touched = {one for one in cuts if work.is_complete(*one)}
                for variant, C in touched:
                    insort(self._curves[variant].values, C)
            self._refresh(touched)
            if not isinstance(self._wanted, str):  # one standard error can become smaller, which can reopen an interval
                ends = {(curve.variant, C) for curve, one in self._open() for C in (one.low, one.high)}
                work.forget_vectors(ends | {self.best[:2]}, keep_models=self._keep_models)

    def certificate(self) -> TuningCertificate | None:
        """Return the proof; None if fewer than two values of C were trained on all folds of a variant."""
        if not all(curve.intervals for curve in self._curves):
            return None
        variant, C, best = self.best
        every = [(one, curve) for curve in self._curves for one in curve.intervals]
        weakest, curve_of_weakest = min(every, key=lambda pair: pair[0].weakest)
        lower, upper = weakest.weakest, max(float(one.upper.max()) for one, _ in every)
        reached = max(0.0, best - lower)
        if self._sign < 0.0:
            best, lower, upper = -best, -upper, -lower
        decided, undecided = curve_of_weakest.decided(weakest)
        return TuningCertificate(
            range=(max(curve.values[0] for curve in self._curves), min(curve.values[-1] for curve in self._curves)),
            epsilon=self.epsilon,
            epsilon_reached=reached,
            best=best,
            C=C,
            variant=variant,
            lower_bound=lower,
            upper_bound=upper,
            steps_by_variant=tuple(curve.steps for curve in self._curves),
            decided=decided,
            undecided=undecided,
            proven=reached <= self.epsilon + MARGIN,
            values=sum(len(curve.values) for curve in self._curves),
        )

    # --- what to do next ----------------------------------------------------------------------------------------------

    def _target(self) -> float:
        return self.best[2] - self.epsilon - MARGIN

    def _open(self) -> list[tuple[ProvenCurve, Interval]]:
        """Return the intervals that can contain a better metric, the weakest bound first."""
        target = self._target()
        found = [
            (curve, one)
            for curve in self._curves
            for one in curve.intervals
            if one.weakest < target and one.high > one.low * (1.0 + LEAST_RATIO)
        ]
        return sorted(found, key=lambda pair: pair[1].weakest)

    def _repeats(self, intervals: list[tuple[ProvenCurve, Interval]]) -> Iterator[Request]:
        """Return requests to repeat trainings whose gap is too large for the bounds of these intervals."""
        asked: dict[tuple[int, int, float], Request] = {}
        for curve, one in intervals:
            for fold, spread in enumerate(one.spreads):
                for C in (one.low, one.high):
                    solve = self._work.of_fold(curve.variant, fold)[C]
                    if not (solve.ends.gaps > GAP_SHARE * spread / 4.0).any():
                        continue
                    request = _request(curve.variant, fold, C, WANTED_SHARE * spread / 4.0, solve.ends.primals)
                    if request.tol <= 0.5 * solve.tol:
                        known = asked.get((curve.variant, fold, C))
                        if known is None or request.tol < known.tol:
                            asked[curve.variant, fold, C] = request
        for request in self._repeats_of_promising():
            asked.setdefault((request.variant, request.fold, request.C), request)
        yield from (
            one for (variant, fold, C), one in asked.items() if one.tol < self._work.of_fold(variant, fold)[C].tol
        )

    def _repeats_of_promising(self) -> Iterator[Request]:
        """Return more precise trainings at each C that can be better than the best. Labels can be undecided at a C
        itself, not only between two."""
        best = self.best[2]
        found = ((figure[0], curve.variant, C) for curve in self._curves for C, figure in curve.figures.items())
        metric, variant, C = min(found)
        if metric < best - MARGIN:
            for solve in self._work.at(variant, C):
                if solve.tol > 2.0 * LEAST_TOL:
                    yield _request(variant, solve.fold, C, solve.ends.gaps / 64.0, solve.ends.primals)

    def _cuts(self, intervals: list[tuple[ProvenCurve, Interval]]) -> Iterator[tuple[tuple[int, float], list[Request]]]:
        """Return the values of C at which to cut each interval, and the trainings needed for it."""
        target = self._target()
        for curve, one in intervals:
            (weak,) = np.nonzero(one.lower < target)
            first, last = float(one.edges[weak[0]]), float(one.edges[weak[-1] + 1])
            pieces = _pieces(curve, one, target)
            # Cut inside the weak parts, and at their outer ends unless these are the ends of the interval.
            for C in np.geomspace(first, last, pieces + 1)[1:-1].tolist():
                if one.low < C < one.high:
                    requests = [self._cut(curve, one, fold, C, pieces) for fold in range(len(one.spreads))]
                    yield (curve.variant, C), requests

    def _cut(self, curve: ProvenCurve, interval: Interval, fold: int, C: float, pieces: int) -> Request:
        ends = self._work.of_fold(curve.variant, fold)[interval.high].ends
        wanted = WANTED_SHARE * interval.spreads[fold] / (4.0 * pieces**2)
        # V(C) >= (C / high) V(high), because V is concave.
        return _request(curve.variant, fold, C, wanted, ends.primals * (C / interval.high))

    def _share_closed(self) -> float:
        every = [one for curve in self._curves for one in curve.intervals]
        if not every:
            return 0.0
        whole = sum(math.log(one.high / one.low) for one in every)
        return 1.0 - sum(math.log(one.high / one.low) for _, one in self._open()) / whole

    def _refresh(self, changed: set[tuple[int, float]]) -> None:
        """Bound the metric at these (variant, C), and in the adjacent intervals that are not closed.

        A bound that is good enough stays good enough, because the best metric only improves."""
        of_variant = {
            curve.variant: {C for variant, C in changed if variant == curve.variant} for curve in self._curves
        }
        for curve in self._curves:
            curve.measure(of_variant[curve.variant])
        closed_at = None if isinstance(self._wanted, str) or not changed else self._target()
        for curve in self._curves:
            curve.refresh(of_variant[curve.variant], closed_at)


def _pieces(curve: ProvenCurve, interval: Interval, target: float) -> int:
    """Return the number of pieces that are probably narrow enough. H falls with the square of their width."""
    for pieces in PIECES:
        lower, _ = curve.bounds_with(interval, [spread / pieces**2 for spread in interval.spreads])
        if lower.min() >= target:
            return pieces
    return PIECES[0]


def _request(variant: int, fold: int, C: float, wanted: Floats, primals: Floats) -> Request:
    tol = float((wanted / np.maximum(primals, 1e-300)).min())
    # A power of 2, so that the same request has exactly the same tolerance on every machine.
    tol = 2.0 ** math.floor(math.log2(min(max(tol, LEAST_TOL), FIRST_TOL)))
    return Request(variant, fold, C, tol, wanted)
