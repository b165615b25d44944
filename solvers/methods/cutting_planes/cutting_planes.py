"""The cutting-plane algorithm (003 Alg. 1), of which `cpa`, `bmrm` and the two `oca` methods are variants.

Each iteration solves the reduced problem over the planes so far (bundle.py), which gives w_t and a bound of the
optimum, reads the data once for the scores of w_t, moves the best point so far, w_b, and cuts a new plane (risks.py),
which reads the rows that changed since the last plane or those that the new one counts.

Here w_b is the w_t of least objective, and planes are cut at w_t. The optimised form overrides both (oca.py).

Where rows are far fewer than weights (text), the bundle holds the scores of all rows at a plane's normal instead of the
normal: products of planes and the scores of w_t then cost by the rows, and w_t itself is summed from the rows by its
alpha. The one read of the data is then that for the scores at a new normal.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.cost import Footprint, is_shorter_by_scores
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Point, Progress, Start
from solvers.methods.cutting_planes.bundle import Bundle, empty_bundle, sum_squares
from solvers.methods.cutting_planes.risks import Cut, risk_of
from solvers.problem.problems import BinaryProblem, MulticlassProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["CuttingPlanes"]

LEAST_GAIN = 1e-6
"""A plane that rises above the others by less than this share of the gap at w_t leaves w_t where it is. Rows exactly on
the margin can lead to such planes for ever; one cut at w_t itself always moves it."""


class CuttingPlanes(Method[BinaryProblem | MulticlassProblem, Any]):
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
    """Where planes are cut: so far from w_b towards w_t."""

    def __init__(self, problem: BinaryProblem | MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.risk = risk_of(problem)
        self.scores = self.risk.empty_scores()
        """Of w_t: overwritten by every step."""
        data = problem.data
        shorter = is_shorter_by_scores(data.n_rows, data.n_features, data.stored_entries)
        self.by_scores = self.risk.has_dual_points and shorter
        """Whether the bundle holds scores in place of normals."""

    def init(self, seed: int, start: Start) -> State:
        risk = self.risk
        zero_scores = risk.empty_scores()
        at_zero = risk.cut(zero_scores, zero_scores, 0.0, None)
        state: State = {"iterations": 0, "rows_read": at_zero.rows_read, "origin": at_zero.normal}
        if start.state is not None and self._resume(state, start.state):
            return state
        weights = None
        if start.state is not None:
            weights = np.array(start.state["weights"], dtype=np.float64)
        elif start.coef is not None:
            weights = risk.weights_of(start)
        state |= empty_bundle(self._vector_size(), marks=risk.marks)
        state["weights"], state["scores"] = np.zeros(risk.n_weights), zero_scores
        self._add_plane(state, at_zero)
        if weights is not None:
            state["weights"] = weights
            risk.find_scores(weights, state["scores"])
            state["rows_read"] += self.problem.data.n_rows
            cut = risk.cut(state["scores"], state["scores"], 0.0, at_zero)
            state["rows_read"] += cut.rows_read
            self._add_plane(state, cut)
        state["primal"] = self._objective(state["weights"], state["scores"])
        return state

    @np.errstate(over="ignore", invalid="ignore")  # it is a status
    def step(self, state: State, target: float) -> Progress:
        bound, weights = self._solve(state)
        state["iterations"] += 1
        self._improve(state, weights)
        primal = state["primal"]
        finished = self._finished(bound, weights)
        if not math.isfinite(primal + bound):
            finished = Status.NONFINITE
        else:
            self._cut(state, bound, weights)
        estimate = max(0.0, primal - bound) / max(primal, self.problem.primal_floor)
        passes = state["rows_read"] // self.problem.data.n_rows
        return Progress(state["iterations"], passes, primal, bound, estimate, finished)

    def extract(self, state: State) -> Point:
        return self.risk.point(state["weights"], self._dual_point(state))

    def _solve(self, state: State) -> tuple[float, Floats]:
        """(D, w_t), and the scores of w_t in `self.scores`."""
        risk, n_rows = self.risk, self.problem.data.n_rows
        level, found = Bundle(state).combine(risk.idle_solves)
        if self.by_scores:
            self.scores[:] = found.reshape(self.scores.shape)
            alpha = self._dual_point(state)
            assert alpha is not None, "without dual points planes are not kept by their scores"
            weights = risk.combine(alpha)
            state["rows_read"] += int(np.count_nonzero(alpha.reshape(n_rows, -1).any(axis=1)))
        else:
            weights = found
            risk.find_scores(weights, self.scores)
            state["rows_read"] += n_rows
        return level - 0.5 * sum_squares(read_only(weights)), weights

    def _dual_point(self, state: State) -> Floats | None:
        bundle = Bundle(state)
        planes = bundle.active()
        return self.risk.dual_point(bundle.carried("marks"), planes, bundle.multipliers[planes])

    def _vector_size(self) -> int:
        return self.scores.size if self.by_scores else self.risk.n_weights

    def _improve(self, state: State, weights: Floats) -> None:
        """Move w_b with the help of w_t, whose weights are given and whose scores are `self.scores`."""
        primal = self._objective(weights, self.scores)
        if not primal >= state["primal"]:
            state["scores"][:] = self.scores
            state.update(weights=weights, primal=primal)

    def _finished(self, bound: float, weights: Floats) -> Status | None:
        """Whether a rule of the method's own ends the run."""
        return None

    def _cut(self, state: State, bound: float, weights: Floats) -> None:
        last = Cut(state["cut_normal"], 0.0, state["cut_choices"], state["cut_choices"], 0)
        cut = self.risk.cut(state["scores"], self.scores, self.cutting_share, last)
        state["rows_read"] += cut.rows_read
        gain = cut.level - _multiply(read_only(cut.normal), read_only(weights)) - self._promised(bound, weights)
        if gain <= LEAST_GAIN * (state["primal"] - bound):
            cut = self.risk.cut(self.scores, self.scores, 1.0, cut)
            state["rows_read"] += cut.rows_read
        self._add_plane(state, cut)

    def _objective(self, weights: Floats, scores: Floats) -> float:
        return 0.5 * sum_squares(read_only(weights)) + self.risk.loss(scores)

    def _promised(self, bound: float, weights: Floats) -> float:
        """The loss that the planes allow at w_t."""
        return bound - 0.5 * sum_squares(read_only(weights))

    def _add_plane(self, state: State, cut: Cut) -> None:
        if self.by_scores:
            scores = self.risk.empty_scores()
            self.risk.find_scores(cut.normal, scores)
            state["rows_read"] += self.problem.data.n_rows
            partner = self.risk.dual_point(cut.marks[None], np.zeros(1, dtype=np.intp), np.ones(1))
            assert partner is not None, "without dual points planes are not kept by their scores"
            Bundle(state).add(scores.reshape(-1), cut.level, partner.reshape(-1), marks=cut.marks)
        else:
            Bundle(state).add(cut.normal, cut.level, marks=cut.marks)
        state["cut_normal"], state["cut_choices"] = cut.normal, cut.choices

    def _resume(self, state: State, earlier: State) -> bool:
        """Take an earlier state over, to go on to the same bits; False if its planes are those of another problem."""
        weights = earlier.get("weights")
        if weights is None or np.shape(weights) != state["origin"].shape or not np.isfinite(weights).all():
            raise InvalidOptions("warm_start", f"is not a state of {self.name} on these features and classes")
        same = np.array_equal(earlier["origin"], state["origin"])
        same = same and np.shape(earlier["plane_vectors"])[1:] == (self._vector_size(),)
        if same and np.shape(earlier["scores"]) == self.scores.shape:
            kept = {name: value for name, value in earlier.items() if name not in state and name != "solver"}
            state |= {n: value.copy() if isinstance(value, np.ndarray) else value for n, value in kept.items()}
            return True
        return False


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _multiply(a: NDArray[Any], b: NDArray[Any]) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total
