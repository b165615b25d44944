"""`cpa_ordinal`: cutting planes for ordinal regression, ranking by groups, and the area under the ROC curve.

Joachims: Training linear SVMs in linear time, KDD 2006, Algorithm 2. The loss R(w) of all pairs is replaced by the
planes cut so far, whose reduced problem (bundle.py) gives w_t and a bound of the optimum; the pairs that are violated
there give the next plane. A plane needs no pairs, only each row's counts c+ - c-, which pair_counts.py finds in
O(n log n) for any number of ranks and groups. So an iteration is two passes over the rows and a few sorts.

The paper's iteration cuts at w_t, and P rises and falls. By default P is instead minimised along the line from the
best point w_b so far to w_t, and the plane is cut at w_c = w_b + lambda (w_t - w_b), a tenth of the way from the new
w_b: the optimised cutting planes of Franc and Sonnenburg (ICML 2008). Scores are linear in w, so a point of the line
costs a sort and no pass. Each point gives R and its slope there, that is a tangent of R, and the tangents on both
sides of the minimum bound it, which tells when the search is good enough: mostly after one or two points.

The first plane of every run is the one at w = 0, where all pairs are violated. It depends on X, the ranks, the groups,
the weights and C, so it also tells whether an earlier state belongs to this problem.
"""

import math
from collections.abc import Mapping
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
from solvers.state import StoredState as State

__all__ = ["OrdinalCuttingPlanes"]

SEARCH_ACCURACY = 0.1
"""The line search ends when it can lower P by no more than this share of the gap."""
SEARCH_POINTS = 12
SEARCH_GROWTH = 4.0
"""While P falls, the next point is at most so many times as far from w_b."""
LEAST_SHARE, MOST_SHARE = 1e-4, 2.0
"""A search starts no nearer to w_b, and goes no farther: the rounding of w_b's scores grows by |1 - share|."""


class OrdinalCuttingPlanes(Method[OrdinalProblem, Any]):
    name = "cpa_ordinal"
    tasks = ("ordinal",)
    losses = ("pair_hinge",)
    biases = ("none",)
    reads_in_passes = True
    options = (
        Option("line_search", bool, True, "minimise on the line to each new point; false: the paper's Algorithm 2"),
        Option(
            "cutting_share",
            float,
            0.1,
            "lambda: how far from the best point towards the reduced problem's solution planes are cut; "
            "without line_search it is 1",
            low=1e-6,
            high=1.0,
        ),
        Option(
            "epsilon",
            float,
            0.0,
            "the paper's stopping rule: stop once the mean loss of the pairs is known to this; "
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

    def init(self, seed: int, start: Start) -> State:
        n, d = self.problem.data.n_rows, self.problem.data.n_features
        state: State = {
            "w": np.zeros(d),  # w_b, its scores, and what these violate
            "scores": np.zeros(n),
            **self.at_zero._asdict(),
            "reached": np.zeros(d),  # w_t
            "bound": 0.0,
            "share": 1.0,  # of the way to w_t that the last line search went
            "origin": self.origin.copy(),
            "pair_scale": self.problem.pair_scale,
            "iterations": 0,
            "reads": 1,  # for the plane at zero
            **empty_bundle(d, cuts=(d, np.float64)),
        }
        coef = start.coef
        if start.state is not None:
            if self._resume(state, start.state):
                return state
            coef = np.array(start.state["w"], dtype=np.float64)
        Bundle(state).add(self.origin, self.at_zero.beta, cuts=state["w"])
        if coef is not None:
            scores = self._scores(state, coef)
            found = self.counter.count(scores)
            state.update(w=coef, scores=scores, **found._asdict())
            self._add_plane(state, coef, found)
        state["bound"], state["reached"] = Bundle(state).solve()
        return state

    @np.errstate(over="ignore", invalid="ignore")  # it is a status
    def step(self, state: State, target: float) -> Progress:
        line = _Line(self.counter, state, self._scores(state, state["reached"]))
        if self.chosen["line_search"]:
            spot = line.lowest(state["share"], SEARCH_ACCURACY * (line.start.value - state["bound"]))
            self._move(state, line, spot)
            state["share"] = spot.share if spot.share > 0.0 else max(0.25 * state["share"], LEAST_SHARE)
            share = spot.share + self.chosen["cutting_share"] * (1.0 - spot.share)
        else:
            share = 1.0
        cut = line.at(share)
        if cut.value < _value(state["w"], state["loss"]):
            self._move(state, line, cut)
        self._add_plane(state, line.weights(share), cut.found)
        state["bound"], state["reached"] = Bundle(state).solve()
        state["iterations"] += 1
        return self._progress(state)

    def extract(self, state: State) -> Point:
        bundle = Bundle(state)
        active = bundle.active()
        planes = Planes(bundle.carried("cuts")[active], bundle.multipliers[active])
        return Point(state["w"].copy(), 0.0, None, planes)

    def _progress(self, state: State) -> Progress:
        bound, primal = state["bound"], _value(state["w"], state["loss"])
        counts = state["iterations"], state["reads"]
        if not math.isfinite(primal - bound):
            return Progress(*counts, None, None, None, Status.NONFINITE)
        gap = max(primal - bound, 0.0)
        accepted = self.chosen["epsilon"] * self.problem.total_cost
        finished = Status.STOPPED if accepted > 0.0 and gap <= accepted else None
        return Progress(*counts, primal, bound, gap / max(primal, self.problem.primal_floor), finished)

    def _scores(self, state: State, w: Floats) -> Floats:
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(w, scores)
        state["reads"] += 1
        return scores

    def _add_plane(self, state: State, w: Floats, found: PairCounts) -> None:
        normal = np.empty(w.size)
        self.problem.data.weighted_column_sums(found.counts, normal)
        state["reads"] += 1
        Bundle(state).add(normal, found.beta, cuts=w)

    def _move(self, state: State, line: "_Line", spot: "_Spot") -> None:
        state.update(w=line.weights(spot.share), scores=line.scores(spot.share), **spot.found._asdict())

    def _resume(self, state: State, earlier: State) -> bool:
        """Go on from an earlier state, to the same bits; False if it is of other rows, so that only w can be used."""
        d = self.problem.data.n_features
        if np.shape(earlier.get("w", ())) != (d,):
            raise InvalidOptions("warm_start", f"is not a state of cpa_ordinal on {d} features")
        if not np.isfinite(earlier["w"]).all():
            raise InvalidOptions("warm_start", "has weights that are NaN or infinite")
        if any(np.shape(earlier.get(name, ())) != state[name].shape for name in ("scores", "counts", "origin")):
            return False
        ratio = self.problem.pair_scale / earlier["pair_scale"]
        tolerance = 1e-9 * float(np.abs(self.origin).max(initial=0.0))
        if not np.allclose(ratio * earlier["origin"], self.origin, rtol=0.0, atol=tolerance):
            return False
        kept = {name for name in state if name not in ("origin", "pair_scale", "iterations", "reads")}
        for name in kept:
            state[name] = earlier[name].copy() if isinstance(earlier[name], np.ndarray) else earlier[name]
        if ratio != 1.0:
            for name in ("counts", "beta", "loss", "plane_vectors", "plane_levels"):
                state[name] *= ratio
            state["plane_gram"] *= ratio * ratio
            state["bound"], state["reached"] = Bundle(state).solve()
        return True


class _Spot(NamedTuple):
    """A point of a line, with P there, its slope, and the violated pairs."""

    share: float
    value: float
    slope: float
    found: PairCounts


class _Line:
    """P on the line from w_b, share 0, through w_t, share 1."""

    def __init__(self, counter: PairCounter, state: State, reached: Floats) -> None:
        self._counter, self._w, self._scores = counter, state["w"], state["scores"]
        self._direction, self._slopes = state["reached"] - state["w"], reached - state["scores"]
        self._linear = float((self._w * self._direction).sum())
        self.curvature = float((self._direction * self._direction).sum())
        self.start = self._spot(0.0, PairCounts(state["counts"], state["beta"], state["loss"]))

    def weights(self, share: float) -> Floats:
        return np.asarray(self._w + share * self._direction)

    def scores(self, share: float) -> Floats:
        return np.asarray(self._scores + share * self._slopes)

    def at(self, share: float) -> _Spot:
        return self._spot(share, self._counter.count(self.scores(share)))

    def lowest(self, first: float, accuracy: float) -> _Spot:
        """A point that is at most `accuracy` above the lowest one, if not too many points are needed for it."""
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
        """(the next point to look at, a lower bound of P on the line)

        A tangent of R and the quadratic bound P. Two such bounds differ by a linear function, the one of `low` is the
        higher one left of where they cross, and the lowest point of both together comes next.
        """
        left = low.share - low.slope / self.curvature
        if high is None:
            return min(left, SEARCH_GROWTH * low.share, MOST_SHARE), self._bound(low, left)
        right = high.share - high.slope / self.curvature
        turn = high.slope - low.slope - self.curvature * (high.share - low.share)
        if turn <= 0.0:  # the two tangents are the same
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
