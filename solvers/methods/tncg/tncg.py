"""`tncg`: truncated Newton by preconditioned conjugate gradients, for both hinge losses and data of any width.

Squared hinge is minimised as it is. Hinge is smoothed around centres, which are the dual variables of the last
smoothing. This is the proximal method of multipliers (Rockafellar 1976) with Newton's method inside. Both losses have
the form

    P(w) = 1/2 |w|^2 + sum_i max over 0 <= a <= U_i of  a xi_i - (a - c_i)^2 / (2 k_i),    xi_i = 1 - y_i h_i . w

with k_i = 2 C_i, U_i infinite, c_i = 0 for squared hinge and k_i = C_i sharpness, U_i = C_i, c_i = the last alpha_i
for hinge. The maximum is attained at alpha_i = clip(c_i + k_i xi_i, 0, U_i), which is also the derivative of the term.
These alpha_i are a feasible dual point. With the gradient g, its gap for the true loss is

    1/2 |g|^2 + sum_i (U_i - alpha_i) max(0, xi_i) + alpha_i max(0, -xi_i)      (squared hinge: no sum),

so each point has a tight bound at no extra cost. H = 1 + sum over free rows (0 < alpha_i < U_i) of k_i h_i h_i'; a
product with H reads only the free rows.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.linalg.types import Floats
from solvers.method import Point, Start
from solvers.methods.tncg.conjugate_gradients import ConjugateGradients
from solvers.methods.tncg.hinge_terms import HingeTerms, choose_length, slacks_of_scores, weigh_rows
from solvers.methods.tncg.line import Line
from solvers.methods.tncg.newton_cg import FIRST_PRODUCTS, NewtonCg, NewtonCgState
from solvers.methods.tncg.row_sums import RowProducts
from solvers.problem.problems import BinaryProblem

__all__ = ["TruncatedNewton"]


FIRST_SHARPNESS = 0.5
"""First sharpness of hinge. At 0.5 every row is free at w = 0. Larger: fewer smoothing steps, fewer free rows. Set by
hand; no measurement is recorded."""
MOST_SHARPNESS = 1e5
"""Largest sharpness of hinge. Moving the centres closes the rest of the gap. Larger: H is worse conditioned, and alpha
is no more precise. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class TncgState(NewtonCgState):
    alpha: Floats  # dual point of w, one per row; 0 for rows not in use
    free: NDArray[np.int64]  # free rows: 0 < alpha < U
    centres: Floats  # hinge: the alpha of the last smoothing
    sharpness: float  # second derivative of a free row's term, as a multiple of its cost


class TruncatedNewton(NewtonCg[BinaryProblem, TncgState]):
    name = "tncg"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    state_type = TncgState
    footprint = Footprint(row=16.0, feature=24.0, kept_row=5.0, kept_feature=9.0)
    pace = Pace(
        least=44,
        hardness=0.185,
        precision=0.077,
        tallness=-0.21,
        squared=0.51,
        entry_seconds=1.4e-9,
        row_seconds=1e-7,
        divided=0.7,
    )
    paper = "Keerthi, DeCoste (2005): A modified finite Newton method; Hsia, Chiang, Lin (2018): Preconditioned CG"
    notes = (
        "For large C and high precision with more rows than features, where coordinate descent is slow; "
        "results are bit-identical for any number of threads."
    )

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.products = RowProducts(problem)
        self.squared = problem.loss.is_squared

    def extract(self, state: TncgState) -> Point:
        w = state.w
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), state.alpha.copy())

    def _new_state(self) -> TncgState:
        n, size = self.problem.data.n_rows, self.problem.data.n_features + 1
        return TncgState(
            steps=0,
            rows_read=0,
            newton_steps=0,
            w=np.zeros(size),
            scores=np.ones(n),
            gradient=np.zeros(size),
            primal=0.0,
            half_gg=0.0,
            apart=0.0,
            stride=self._first_stride(),
            most_products=FIRST_PRODUCTS,
            total_cost=self.problem.total_cost,
            cg=ConjugateGradients.started(np.zeros(size), np.ones(size)),
            alpha=np.zeros(n),
            free=np.zeros(0, np.int64),
            centres=np.zeros(n),
            sharpness=2.0 if self.squared else FIRST_SHARPNESS,
        )

    def _scores(self, state: TncgState, w: Floats) -> Floats:
        rows, slack = self._rows(state), np.zeros(self.problem.data.n_rows)
        self.products.scores(w, rows, slack)
        slacks_of_scores(self.problem.signs, slack)
        state.rows_read += rows.size
        return slack

    def _arrive(self, state: TncgState) -> None:
        """Compute alpha, the gradient and the diagonal of H."""
        n, w = self.problem.data.n_rows, state.w
        signed, free = np.zeros(n), np.empty(n, np.int64)
        loss, apart, count = weigh_rows(self._terms(state), state.scores, state.alpha, signed, free)
        state.free = free[:count].copy()
        gradient, M, curvatures, pulling = w.copy(), np.ones_like(w), np.zeros(n), np.flatnonzero(signed)
        curvatures[state.free] = state.sharpness * state.stride * self.problem.costs[state.free]
        self.products.sums(signed, curvatures, pulling, gradient, M)
        state.rows_read += pulling.size
        self._begin_newton_step(state, gradient, M, loss=loss, apart=apart)

    def _add_product(self, state: TncgState, v: Floats, out: Floats) -> None:
        self.products.product(self.problem.costs, state.sharpness * state.stride, state.free, v, out)

    def _rows_of_product(self, state: TncgState) -> int:
        return state.free.size

    def _choose_length(self, state: TncgState, after: Floats, line: Line) -> float:
        return choose_length(self._terms(state), state.scores, after, line)

    def _change_smoothing(self, state: TncgState, factor: float) -> bool:
        """Hinge: make the smoothing sharper by the factor, and move the centres to alpha."""
        sharpness = min(factor * state.sharpness, max(MOST_SHARPNESS, state.sharpness))
        centres = state.alpha if state.stride == 1 else state.centres
        if self.squared or (sharpness == state.sharpness and np.array_equal(centres, state.centres)):
            return False
        state.sharpness, state.centres = sharpness, centres.copy()
        self._arrive(state)
        return True

    def _terms(self, state: TncgState) -> HingeTerms:
        rows = self.problem.costs, self.problem.signs, state.centres
        return HingeTerms(*rows, state.stride, state.sharpness, self.squared)

    def _set_weights(self, state: TncgState, start: Start) -> None:
        state.w[:-1] = start.coef
        if self.problem.bias_feature:
            state.w[-1] = start.intercept / self.problem.bias_feature

    def _repeats(self, earlier: TncgState) -> bool:
        alpha, gradient = earlier.alpha, earlier.w.copy()
        if alpha.shape != (self.problem.data.n_rows,):
            return False
        signed, pulling = -self.problem.signs * alpha, np.flatnonzero(alpha)
        self.products.sums(signed, np.zeros(alpha.size), pulling, gradient, np.empty_like(gradient))
        earlier.rows_read = pulling.size
        return np.array_equal(gradient, earlier.gradient)

    @contextmanager
    def _using_threads(self) -> Iterator[None]:
        with self.products.threads(self.threads):
            yield
