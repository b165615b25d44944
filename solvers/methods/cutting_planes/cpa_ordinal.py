"""`cpa_ordinal`: cutting planes for ordinal regression, for ranking within groups, and for the area under the ROC
curve.

Joachims (2006), Algorithm 2. The loss R(w) of all pairs is replaced by the maximum of the planes cut so far. The
reduced problem (bundle.py) gives w_t and a bound of the optimum. The pairs that w_t violates define the next plane. A
plane needs only the counts c+ - c- of each row, not the pairs. pair_counts.py computes them in O(n log n) for any
number of ranks and groups. An iteration costs two passes over the rows and a few sorts.

The paper cuts planes at w_t, so P rises and falls. The default here is the method of Franc and Sonnenburg (2008): P is
minimised along the line from the best point w_b to w_t, and the plane is cut at w_c = w_b + lambda (w_t - w_b), with
lambda = 0.1, from the new w_b. Scores are linear in w, so evaluating a point of the line costs a sort but no pass. Each
point yields R and its slope, that is a tangent of R. The tangents on both sides of the minimum bound it from below,
which shows when the search is precise enough: mostly after one or two points.

The first plane of every run is the one at w = 0, where all pairs are violated. It depends on X, the ranks, the groups,
the weights and C, so a warm start uses it to recognise a state of the same problem.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from solvers.cost import Footprint
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Planes, Point, Progress, Start
from solvers.methods.cutting_planes.bundle import Bundle, empty_bundle
from solvers.methods.cutting_planes.pair_counts import PairCounter, PairCounts
from solvers.problem.problems import OrdinalProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["OrdinalCuttingPlanes", "OrdinalState"]

SEARCH_ACCURACY = 0.1
"""The line search ends when it can lower P by at most this fraction of the gap. Smaller: more sorts per iteration,
fewer iterations and passes. Set by hand; no measurement is recorded."""
SEARCH_POINTS = 12
"""Maximum number of points that a line search evaluates. Larger: more precise, longer searches. Set by hand; no
measurement is recorded."""
SEARCH_GROWTH = 4.0
"""Factor by which the distance from w_b can grow from one point to the next while P falls. Larger: fewer points, and
more often a point beyond the minimum. Set by hand; no measurement is recorded."""
LEAST_SHARE, MOST_SHARE = 1e-4, 2.0
"""Limits of a line search, as fractions of the way from w_b to w_t: the least first point, and the largest point. A
larger MOST_SHARE allows longer steps, which lose precision: the rounding error of w_b's scores grows by |1 - share|.
Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class OrdinalState(State):
    bundle: Bundle  # the planes, each with the weights at which it was cut
    w: Floats  # w_b
    scores: Floats  # scores of every row at w_b
    counts: Floats  # counts of the pairs that w_b violates, see PairCounts
    beta: float  # total cost of these pairs
    loss: float  # R at w_b
    reached: Floats  # w_t
    bound: float  # D at w_t
    share: float  # where the last line search ended, as a fraction of the way from w_b to w_t
    origin: Floats  # normal of the plane cut at zero, by which a warm start recognises the same problem
    pair_scale: float  # cost of a pair of weight 1 in that plane
    iterations: int
    reads: int  # passes over the rows


class OrdinalCuttingPlanes(Method[OrdinalProblem, OrdinalState]):
    state_type = OrdinalState
    name = "cpa_ordinal"
    tasks = ("ordinal",)
    losses = ("pair_hinge",)
    biases = ("none",)
    reads_in_passes = True
    options = (
        Option("line_search", bool, True, "minimise along the line to each new point; false: the paper's Algorithm 2"),
        Option(
            "cutting_share",
            float,
            0.1,
            "lambda: where planes are cut, as a fraction of the way from the best point to the solution of the reduced "
            "problem; has no effect without line_search (planes are then cut at that solution)",
            low=1e-6,
            high=1.0,
        ),
        Option(
            "epsilon",
            float,
            0.0,
            "the paper's stopping rule: stop once the mean loss of the pairs is known to within this; "
            "0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=30.0, feature=8.0, plane_vectors=2, kept_feature=3.0)
    paper = "Joachims (2006): Training linear SVMs in linear time; Franc, Sonnenburg (2008): Optimized cutting planes"
    notes = "Any number of ranks, real relevance, groups. Two ranks: the area under the ROC curve."

    def __init__(self, problem: OrdinalProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.counter = PairCounter(problem)
        self.at_zero = self.counter.count(np.zeros(problem.data.n_rows))
        self.origin = np.empty(problem.data.n_features)
        problem.data.weighted_column_sums(self.at_zero.counts, self.origin)

    def init(self, seed: int, start: Start) -> OrdinalState:
        n, d = self.problem.data.n_rows, self.problem.data.n_features
        coef, earlier = start.coef, self.earlier(start)
        if earlier is not None:
            if self._is_of_these_pairs(earlier):
                return self._resumed(earlier)
            coef = earlier.w
        state = OrdinalState(
            bundle=empty_bundle(d, attached=(d, np.float64)),
            w=np.zeros(d),
            scores=np.zeros(n),
            counts=self.at_zero.counts,
            beta=self.at_zero.beta,
            loss=self.at_zero.loss,
            reached=np.zeros(d),
            bound=0.0,
            share=1.0,
            origin=self.origin.copy(),
            pair_scale=self.problem.pair_scale,
            iterations=0,
            reads=1,  # the pass for the plane at zero
        )
        state.bundle.add(self.origin, self.at_zero.beta, attached=state.w)
        if coef is not None:
            scores = self._scores(state, coef)
            found = self.counter.count(scores)
            state.w, state.scores = coef, scores
            state.counts, state.beta, state.loss = found
            self._add_plane(state, coef, found)
        state.bound, state.reached = state.bundle.solve()
        return state

    @np.errstate(over="ignore", invalid="ignore")  # overflow becomes a status
    def step(self, state: OrdinalState, target: float) -> Progress:
        line = _Line(self.counter, state, self._scores(state, state.reached))
        share = 1.0
        if self.chosen["line_search"]:
            spot = line.lowest(state.share, SEARCH_ACCURACY * (line.start.value - state.bound))
            self._move(state, line, spot)
            state.share = spot.share if spot.share > 0.0 else max(0.25 * state.share, LEAST_SHARE)
            share = spot.share + self.chosen["cutting_share"] * (1.0 - spot.share)
        cut = line.at(share)
        if cut.value < _value(state.w, state.loss):
            self._move(state, line, cut)
        self._add_plane(state, line.weights(share), cut.found)
        state.bound, state.reached = state.bundle.solve()
        state.iterations += 1
        return self._progress(state)

    def extract(self, state: OrdinalState) -> Point:
        active = state.bundle.active()
        planes = Planes(state.bundle.attached[active], state.bundle.multipliers[active])
        return Point(state.w.copy(), 0.0, None, planes)

    def _progress(self, state: OrdinalState) -> Progress:
        bound, primal = state.bound, _value(state.w, state.loss)
        if not math.isfinite(primal - bound):
            return Progress(state.iterations, state.reads, None, None, None, Status.NONFINITE)
        gap = max(primal - bound, 0.0)
        accepted = self.chosen["epsilon"] * self.problem.total_cost
        finished = Status.STOPPED if accepted > 0.0 and gap <= accepted else None
        estimate = gap / max(primal, self.problem.primal_floor)
        return Progress(state.iterations, state.reads, primal, bound, estimate, finished)

    def _scores(self, state: OrdinalState, w: Floats) -> Floats:
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(w, scores)
        state.reads += 1
        return scores

    def _add_plane(self, state: OrdinalState, w: Floats, found: PairCounts) -> None:
        normal = np.empty(w.size)
        self.problem.data.weighted_column_sums(found.counts, normal)
        state.reads += 1
        state.bundle.add(normal, found.beta, attached=w)

    def _move(self, state: OrdinalState, line: "_Line", spot: "_Spot") -> None:
        """Move w_b to a point of the line."""
        state.w, state.scores = line.weights(spot.share), line.scores(spot.share)
        state.counts, state.beta, state.loss = spot.found

    def _is_of_these_pairs(self, earlier: OrdinalState) -> bool:
        """Return whether the state `earlier` has the planes of this problem, possibly with another C. Raise
        InvalidOptions if its number of features differs."""
        n, d = self.problem.data.n_rows, self.problem.data.n_features
        if earlier.w.shape != (d,):
            raise InvalidOptions("warm_start", f"is not a state of cpa_ordinal on data with {d} features; leave it out")
        if not np.isfinite(earlier.w).all():
            raise InvalidOptions("warm_start", "has weights that are NaN or infinite; leave it out")
        if earlier.scores.shape != (n,) or earlier.counts.shape != (n,) or earlier.origin.shape != (d,):
            return False
        ratio = self.problem.pair_scale / earlier.pair_scale
        tolerance = 1e-9 * float(np.abs(self.origin).max(initial=0.0))
        return np.allclose(ratio * earlier.origin, self.origin, rtol=0.0, atol=tolerance)

    def _resumed(self, state: OrdinalState) -> OrdinalState:
        """Continue from an earlier state with bit-identical results. If C differs, scale the planes of that state
        first."""
        ratio = self.problem.pair_scale / state.pair_scale
        state.origin, state.pair_scale = self.origin.copy(), self.problem.pair_scale
        state.iterations, state.reads = 0, 1
        if ratio != 1.0:
            state.counts *= ratio
            state.beta *= ratio
            state.loss *= ratio
            state.bundle.vectors *= ratio
            state.bundle.levels *= ratio
            state.bundle.gram *= ratio * ratio
            state.bound, state.reached = state.bundle.solve()
        return state


class _Spot(NamedTuple):
    """A point of the line, with P, the slope of P, and the pairs violated there."""

    share: float
    value: float
    slope: float
    found: PairCounts


class _Line:
    """P along the line through w_b (share 0) and w_t (share 1)."""

    def __init__(self, counter: PairCounter, state: OrdinalState, reached: Floats) -> None:
        self._counter, self._w, self._scores = counter, state.w, state.scores
        self._direction, self._slopes = state.reached - state.w, reached - state.scores
        self._linear = float((self._w * self._direction).sum())
        self.curvature = float((self._direction * self._direction).sum())
        self.start = self._spot(0.0, PairCounts(state.counts, state.beta, state.loss))

    def weights(self, share: float) -> Floats:
        return np.asarray(self._w + share * self._direction)

    def scores(self, share: float) -> Floats:
        return np.asarray(self._scores + share * self._slopes)

    def at(self, share: float) -> _Spot:
        return self._spot(share, self._counter.count(self.scores(share)))

    def lowest(self, first: float, accuracy: float) -> _Spot:
        """Search for a point whose P is at most `accuracy` above the minimum, evaluating at most SEARCH_POINTS."""
        best = low = self.start
        if not (low.slope < 0.0 and self.curvature > 0.0):
            return best
        high, share = None, min(first, low.share - low.slope / self.curvature, MOST_SHARE)
        for _ in range(SEARCH_POINTS):
            spot = self.at(share)
            best = min(best, spot, key=lambda point: point.value)
            if spot.slope < 0.0:
                low = spot
            else:
                high = spot
            share, bound = self._next(low, high)
            if not best.value - bound > accuracy or share in (low.share, spot.share):
                break
        return best

    def _next(self, low: _Spot, high: _Spot | None) -> tuple[float, float]:
        """Return (the next point of the search, a lower bound of P on the line).

        A tangent of R plus the quadratic term is a lower bound of P. The bounds of `low` and `high` differ by a linear
        function, so they cross once: left of the crossing the bound of `low` is higher. The next point minimises the
        maximum of both bounds.
        """
        left = low.share - low.slope / self.curvature
        if high is None:
            return min(left, SEARCH_GROWTH * low.share, MOST_SHARE), self._bound(low, left)
        right = high.share - high.slope / self.curvature
        turn = high.slope - low.slope - self.curvature * (high.share - low.share)
        if turn <= 0.0:  # both tangents are the same line
            return left, self._bound(low, left)
        crossing = low.share + (low.value - self._bound(high, low.share)) / turn
        share = left if left <= crossing else max(right, crossing)
        return share, max(self._bound(low, share), self._bound(high, share))

    def _bound(self, spot: _Spot, share: float) -> float:
        step = share - spot.share
        return spot.value + step * (spot.slope + 0.5 * self.curvature * step)

    def _spot(self, share: float, found: PairCounts) -> _Spot:
        value = _value(self.weights(share), found.loss)
        slope = self._linear + share * self.curvature - float((found.counts * self._slopes).sum())
        return _Spot(share, value, slope, found)


def _value(w: Floats, loss: float) -> float:
    return 0.5 * float((w * w).sum()) + loss
