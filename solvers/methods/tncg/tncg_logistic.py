"""`tncg_logistic`: truncated Newton by preconditioned conjugate gradients for the logistic loss and data of any width.

    P(w) = 1/2 |w|^2 + sum_i C_i log(1 + exp(s_i)),    s_i = -y_i h_i . w

With the share r_i = 1 / (1 + exp(-s_i)), alpha_i = C_i r_i is a feasible dual point. Its gap at w is 1/2 |g|^2, where g
is the gradient, so it costs nothing extra. H = 1 + sum_i C_i r_i (1 - r_i) h_i h_i'; a product with H costs one pass
over the rows (Lin, Weng, Keerthi 2008).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.linalg.softplus import sigmoid_and_softplus
from solvers.linalg.types import Array, Floats
from solvers.method import Point, Start
from solvers.methods._shared.logistic_line import logistic_change, logistic_derivatives
from solvers.methods.tncg.conjugate_gradients import ConjugateGradients
from solvers.methods.tncg.line import LONGEST, STEEP, Line
from solvers.methods.tncg.newton_cg import FIRST_PRODUCTS, NewtonCg, NewtonCgState, dot
from solvers.methods.tncg.row_sums import RowProducts
from solvers.problem.problems import BinaryProblem

__all__ = ["TncgLogistic"]


@dataclass(slots=True)
class TncgLogisticState(NewtonCgState):
    alpha: Floats  # dual point of w, one per row; 0 for rows not in use
    curvatures: Floats  # second derivatives of the rows' losses, one per row; 0 for rows not in use


class TncgLogistic(NewtonCg[BinaryProblem, TncgLogisticState]):
    name = "tncg_logistic"
    tasks = ("binary",)
    losses = ("logistic",)
    state_type = TncgLogisticState
    footprint = Footprint(row=18.0, feature=24.0, kept_row=5.0, kept_feature=9.0)
    pace = Pace(
        least=20,
        hardness=0.35,
        precision=0.077,
        entry_seconds=1.4e-9,
        row_seconds=3e-8,
        divided=0.7,
    )
    paper = "Lin, Weng, Keerthi (2008): Trust region Newton method for logistic regression"
    notes = "For sparse data with many features, and for large C; results are bit-identical for any number of threads."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.products = RowProducts(problem)

    def extract(self, state: TncgLogisticState) -> Point:
        w = state.w
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), state.alpha.copy())

    def _new_state(self) -> TncgLogisticState:
        n, size = self.problem.data.n_rows, self.problem.data.n_features + 1
        return TncgLogisticState(
            steps=0,
            rows_read=0,
            newton_steps=0,
            w=np.zeros(size),
            scores=np.zeros(n),
            gradient=np.zeros(size),
            primal=0.0,
            half_gg=0.0,
            apart=0.0,
            stride=self._first_stride(),
            most_products=FIRST_PRODUCTS,
            total_cost=self.problem.total_cost,
            cg=ConjugateGradients.started(np.zeros(size), np.ones(size)),
            alpha=np.zeros(n),
            curvatures=np.zeros(n),
        )

    def _scores(self, state: TncgLogisticState, w: Floats) -> Floats:
        rows, slack = self._rows(state), np.zeros(self.problem.data.n_rows)
        self.products.scores(w, rows, slack)
        slack *= -self.problem.signs
        state.rows_read += rows.size
        return slack

    def _arrive(self, state: TncgLogisticState) -> None:
        """Compute alpha, the gradient and the diagonal of H."""
        rows, stride = self._rows(state), state.stride
        slack, costs = self._used(state.scores, stride), self._used_costs(stride)
        shares, losses = np.empty(rows.size), np.empty(rows.size)
        sigmoid_and_softplus(slack, shares, losses)
        state.alpha[:], state.curvatures[:] = 0.0, 0.0
        state.alpha[::stride] = costs * shares
        state.curvatures[::stride] = costs * shares * (1.0 - shares)
        gradient, M = state.w.copy(), np.ones_like(state.w)
        self.products.sums(-self.problem.signs * state.alpha, state.curvatures, rows, gradient, M)
        state.rows_read += rows.size
        self._begin_newton_step(state, gradient, M, loss=dot(costs, losses), apart=0.0)

    def _add_product(self, state: TncgLogisticState, v: Floats, out: Floats) -> None:
        self.products.product(state.curvatures, 1.0, self._rows(state), v, out)

    def _choose_length(self, state: TncgLogisticState, after: Floats, line: Line) -> float:
        ends = self._used(state.scores, state.stride), self._used(after, state.stride)
        return _choose_length(*ends, self._used_costs(state.stride), line)

    def _used(self, numbers: Floats, stride: int) -> Floats:
        """Return the elements of `numbers`, which has one per row, for the rows in use."""
        return read_only(np.ascontiguousarray(numbers[::stride]))

    def _used_costs(self, stride: int) -> Floats:
        costs = self.problem.costs
        return costs if stride == 1 else read_only(costs[::stride] * float(stride))

    def _set_weights(self, state: TncgLogisticState, start: Start) -> None:
        state.w[:-1] = start.coef
        if self.problem.bias_feature:
            state.w[-1] = start.intercept / self.problem.bias_feature

    def _repeats(self, earlier: TncgLogisticState) -> bool:
        alpha, gradient = earlier.alpha, earlier.w.copy()
        if alpha.shape != (self.problem.data.n_rows,) or earlier.curvatures.shape != alpha.shape:
            return False
        rows = self._rows(earlier)
        self.products.sums(-self.problem.signs * alpha, np.zeros(alpha.size), rows, gradient, np.empty_like(gradient))
        earlier.rows_read = rows.size
        return np.array_equal(gradient, earlier.gradient)

    @contextmanager
    def _using_threads(self) -> Iterator[None]:
        with self.products.threads(self.threads):
            yield


# --- the kernel -------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _choose_length(before: Array, after: Array, costs: Array, line: Line) -> float:
    """Choose the step length: 1 if P decreases about as predicted, otherwise the minimiser of P along the step."""
    slope, _ = logistic_derivatives(before, after, costs, 1.0)
    slope += line.ws + line.ss
    if line.is_drowned:
        decrease = -0.5 * (line.slope + slope)
    else:
        decrease = -(line.ws + 0.5 * line.ss + logistic_change(before, after, costs))
    falls = slope < STEEP * line.slope and not line.is_least
    if decrease > line.least_decrease and not falls:
        return 1.0
    low, high = (1.0, LONGEST) if slope < 0.0 else (0.0, 1.0)
    t = 0.5 * (low + high)
    for _ in range(60):
        slope, bend = logistic_derivatives(before, after, costs, t)
        slope, bend = slope + line.ws + t * line.ss, bend + line.ss
        if slope > 0.0:
            high = t
        else:
            low = t
        following = t - slope / bend
        if not (low < following < high):
            following = 0.5 * (low + high)
        if not abs(following - t) > 1e-3 * t:
            break
        t = following
    return t
