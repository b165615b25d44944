"""The cutting-plane algorithm (Joachims 2006). `cpa`, `bmrm`, `oca_e` and `oca_t` are its variants.

An iteration has four parts:

1. Solve the reduced problem over the planes so far (bundle.py). Its solution is w_t, its value a bound of the optimum.
2. Compute the scores of w_t, in one pass over X.
3. Update w_b, the best point so far. Here w_b is the w_t of least objective; oca.py moves it by a line search.
4. Cut a new plane (risks.py). Here it is cut at w_t; oca.py cuts it between w_b and w_t. The cut reads the violators,
   or only the rows that became or ceased to be violators since the last plane, whichever are fewer. With squared hinge
   it always reads all violators.

If there are far fewer rows than weights (text data), the bundle stores the scores X a instead of a plane's normal a.
Products of planes and the scores of w_t then take time proportional to the number of rows, and w_t is computed from its
dual point. The only full pass over X computes X a of a new plane.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.cost import Footprint, is_shorter_by_scores
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Point, Progress, Start
from solvers.methods.cutting_planes.bundle import Bundle, empty_bundle, sum_squares
from solvers.methods.cutting_planes.risks import Cut, Risk, risk_of
from solvers.problem.problems import BinaryProblem, MulticlassProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["CuttingPlanes", "CuttingPlanesState"]

LEAST_GAIN = 1e-6
"""Least gain of a new plane: how far it must lie above the other planes at w_t, as a fraction of the gap. A plane that
gains less would not move w_t, so it is replaced by a plane cut at w_t itself, which always moves w_t. Without this
rule, rows exactly on the margin can produce useless planes without end. Larger: more planes cut at w_t. Set by hand; no
measurement is recorded."""


@dataclass(slots=True)
class CuttingPlanesState(State):
    bundle: Bundle  # the planes, with their marks
    weights: Floats  # w_b; for several classes, all their weights in one vector
    scores: Floats  # y_i f(x_i) of every row at w_b, or the scores of all classes
    primal: float  # primal value at w_b
    cut_normal: Floats  # normal of the last plane
    cut_choices: Array  # rows or classes that the last plane counts
    origin: Floats  # normal of the plane cut at zero, by which a warm start recognises the same problem
    iterations: int
    rows_read: int


AnyPlanesState = TypeVar("AnyPlanesState", bound=CuttingPlanesState)


class CuttingPlanes(Method[BinaryProblem | MulticlassProblem, AnyPlanesState], Generic[AnyPlanesState]):
    reads_in_passes = True
    footprint = Footprint(
        row=15.5,
        row_and_class=8.0,
        plane_vectors=1,
        plane_scores=True,
        plane_row_bytes=0.125,
        squared_plane_row_bytes=4.0,
        kept_row=1.1,
    )
    cutting_share = 1.0
    """Where planes are cut: the fraction of the way from w_b to w_t."""

    def __init__(self, problem: BinaryProblem | MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.risk = self._risk(problem)
        self.scores = self.risk.empty_scores()
        """Scores of w_t. Every step overwrites them."""
        data = problem.data
        shorter = is_shorter_by_scores(data.n_rows, data.n_features, data.stored_entries)
        self.by_scores = self.risk.has_dual_points and shorter
        """Whether the bundle stores scores instead of normals."""

    def _risk(self, problem: BinaryProblem | MulticlassProblem) -> Risk:
        return risk_of(problem)

    def init(self, seed: int, start: Start) -> AnyPlanesState:
        risk, earlier = self.risk, self.earlier(start)
        zero_scores = risk.empty_scores()
        at_zero = risk.cut(zero_scores, zero_scores, 0.0, None)
        weights = None
        if earlier is not None:
            if self._is_of_this_problem(earlier, at_zero):
                # Continue with bit-identical results.
                earlier.iterations, earlier.rows_read = 0, at_zero.rows_read
                return earlier
            weights = earlier.weights
        elif start.coef is not None:
            weights = risk.weights_of(start)
        state = self.state_type(
            bundle=empty_bundle(self._vector_size(), attached=risk.marks),
            weights=np.zeros(risk.n_weights),
            scores=zero_scores,
            primal=0.0,
            cut_normal=at_zero.normal,
            cut_choices=at_zero.choices,
            origin=at_zero.normal,
            iterations=0,
            rows_read=at_zero.rows_read,
        )
        self._add_plane(state, at_zero)
        if weights is not None:
            state.weights = weights
            risk.find_scores(weights, state.scores)
            state.rows_read += self.problem.data.n_rows
            cut = risk.cut(state.scores, state.scores, 0.0, at_zero)
            state.rows_read += cut.rows_read
            self._add_plane(state, cut)
        state.primal = self._objective(state.weights, state.scores)
        return state

    @np.errstate(over="ignore", invalid="ignore")  # overflow becomes a status
    def step(self, state: AnyPlanesState, target: float) -> Progress:
        bound, weights = self._solve_reduced(state)
        state.iterations += 1
        self._improve(state, weights)
        finished = self._finished(bound, weights)
        if not math.isfinite(state.primal + bound):
            finished = Status.NONFINITE
        else:
            self._cut(state, bound, weights)
        estimate = max(0.0, state.primal - bound) / max(state.primal, self.problem.primal_floor)
        passes = state.rows_read // self.problem.data.n_rows
        return Progress(state.iterations, passes, state.primal, bound, estimate, finished)

    def extract(self, state: AnyPlanesState) -> Point:
        return self.risk.point(state.weights, self._dual_point(state))

    def _solve_reduced(self, state: AnyPlanesState) -> tuple[float, Floats]:
        """Return (D, w_t) and put the scores of w_t into `self.scores`."""
        risk, n_rows = self.risk, self.problem.data.n_rows
        level, found = state.bundle.combine(risk.idle_solves)
        if self.by_scores:
            self.scores[:] = found.reshape(self.scores.shape)
            alpha = self._dual_point(state)
            assert alpha is not None, "planes are stored by their scores only if they have dual points"
            weights = risk.combine(alpha)
            state.rows_read += int(np.count_nonzero(alpha.reshape(n_rows, -1).any(axis=1)))
        else:
            weights = found
            risk.find_scores(weights, self.scores)
            state.rows_read += n_rows
        return level - 0.5 * sum_squares(read_only(weights)), weights

    def _dual_point(self, state: AnyPlanesState) -> Floats | None:
        bundle = state.bundle
        planes = bundle.active()
        return self.risk.dual_point(bundle.attached[: bundle.count], planes, bundle.multipliers[planes])

    def _vector_size(self) -> int:
        return self.scores.size if self.by_scores else self.risk.n_weights

    def _improve(self, state: AnyPlanesState, weights: Floats) -> None:
        """Update w_b, given the weights w_t. The scores of w_t are in `self.scores`."""
        primal = self._objective(weights, self.scores)
        if not primal >= state.primal:
            state.scores[:] = self.scores
            state.weights, state.primal = weights, primal

    def _finished(self, bound: float, weights: Floats) -> Status | None:
        """Return the status if a stopping rule of the method itself ends the run, otherwise None."""
        return None

    def _cut(self, state: AnyPlanesState, bound: float, weights: Floats) -> None:
        """Cut a plane between w_b and w_t. If that plane would gain too little, cut it at w_t."""
        last = Cut(state.cut_normal, 0.0, state.cut_choices, state.cut_choices, 0)
        cut = self.risk.cut(state.scores, self.scores, self.cutting_share, last)
        state.rows_read += cut.rows_read
        gain = cut.level - _multiply(read_only(cut.normal), read_only(weights)) - self._promised(bound, weights)
        if gain <= LEAST_GAIN * (state.primal - bound):
            cut = self.risk.cut(self.scores, self.scores, 1.0, cut)
            state.rows_read += cut.rows_read
        self._add_plane(state, cut)

    def _objective(self, weights: Floats, scores: Floats) -> float:
        return 0.5 * sum_squares(read_only(weights)) + self.risk.loss(scores)

    def _promised(self, bound: float, weights: Floats) -> float:
        """Return the maximum of the planes at w_t, which is a lower bound of the loss at w_t."""
        return bound - 0.5 * sum_squares(read_only(weights))

    def _add_plane(self, state: AnyPlanesState, cut: Cut) -> None:
        if self.by_scores:
            scores = self.risk.empty_scores()
            self.risk.find_scores(cut.normal, scores)
            state.rows_read += self.problem.data.n_rows
            partner = self.risk.dual_point(cut.marks[None], np.zeros(1, dtype=np.intp), np.ones(1))
            assert partner is not None, "planes are stored by their scores only if they have dual points"
            state.bundle.add(scores.reshape(-1), cut.level, partner.reshape(-1), attached=cut.marks)
        else:
            state.bundle.add(cut.normal, cut.level, attached=cut.marks)
        state.cut_normal, state.cut_choices = cut.normal, cut.choices

    def _is_of_this_problem(self, earlier: AnyPlanesState, at_zero: Cut) -> bool:
        """Return whether the state `earlier` has planes of this problem. Raise InvalidOptions if its features or
        classes differ."""
        if earlier.weights.shape != at_zero.normal.shape or not np.isfinite(earlier.weights).all():
            raise InvalidOptions(
                "warm_start", f"is not a state of {self.name} on data with these features and classes; leave it out"
            )
        return (
            np.array_equal(earlier.origin, at_zero.normal)
            and earlier.bundle.vectors.shape[1:] == (self._vector_size(),)
            and earlier.bundle.attached.dtype == np.dtype(self.risk.marks[1])
            and earlier.scores.shape == self.scores.shape
        )


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _multiply(a: NDArray[Any], b: NDArray[Any]) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total
