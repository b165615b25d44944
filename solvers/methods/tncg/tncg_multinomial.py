"""`tncg_multinomial`: truncated Newton by preconditioned conjugate gradients for all classes jointly, logistic loss.

    P(W) = 1/2 |W|^2 + sum_i C_i (log sum_m exp(f_im) - f_iyi),    f_im = h_i . w_m

With the probabilities p_i^m = exp(f_im) / sum_l exp(f_il), A_i^m = C_i ([m = y_i] - p_i^m) is a feasible dual point.
Its gap at W is 1/2 |G|^2, where G is the gradient, so it costs nothing extra. A product of H with a direction V reads
each row once: V + sum_i C_i h_i z_i' with z_i^m = p_i^m (h_i . v_m - sum_l p_i^l h_i . v_l) (Lin, Weng, Keerthi 2008,
section 8).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.linalg.types import Floats
from solvers.method import Point, Start
from solvers.methods.tncg.class_sums import ClassProducts, SoftmaxRows, choose_softmax_length, weigh_softmax
from solvers.methods.tncg.conjugate_gradients import ConjugateGradients
from solvers.methods.tncg.line import Line
from solvers.methods.tncg.newton_cg import FIRST_PRODUCTS, NewtonCg, NewtonCgState
from solvers.problem.problems import MulticlassProblem

__all__ = ["TncgMultinomial"]


@dataclass(slots=True)
class TncgMultinomialState(NewtonCgState):
    p: Floats  # probabilities of the classes at w, one row per row of X; 0 for rows not in use


class TncgMultinomial(NewtonCg[MulticlassProblem, TncgMultinomialState]):
    name = "tncg_multinomial"
    tasks = ("multiclass",)
    losses = ("logistic",)
    state_type = TncgMultinomialState
    footprint = Footprint(
        row=17.6, feature=15.0, row_and_class=14.0, feature_and_class=13.0, kept_row=2.0, kept_feature=8.0
    )
    pace = Pace(least=20, hardness=0.185, precision=0.1, entry_seconds=2.5e-9, row_seconds=3e-7, divided=0.7)
    paper = "Lin, Weng, Keerthi (2008): Trust region Newton method for logistic regression"
    notes = "All classes jointly: their probabilities sum to 1. Results are bit-identical for any number of threads."

    def __init__(self, problem: MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.products = ClassProducts(problem)
        self.shape = problem.data.n_features + 1, problem.classes.size
        """Shape of the weights."""

    def extract(self, state: TncgMultinomialState) -> Point:
        coef = np.ascontiguousarray(state.w[:-1].T)
        alpha = -self._weights(state.p, state.stride)
        return Point(coef, self.problem.bias_feature * state.w[-1], alpha)

    def _new_state(self) -> TncgMultinomialState:
        n, k = self.problem.data.n_rows, self.shape[1]
        return TncgMultinomialState(
            steps=0,
            rows_read=0,
            newton_steps=0,
            w=np.zeros(self.shape),
            scores=np.zeros((n, k)),
            gradient=np.zeros(self.shape),
            primal=0.0,
            half_gg=0.0,
            apart=0.0,
            stride=self._first_stride(),
            most_products=FIRST_PRODUCTS,
            total_cost=self.problem.total_cost,
            cg=ConjugateGradients.started(np.zeros(self.shape), np.ones(self.shape)),
            p=np.zeros((n, k)),
        )

    def _scores(self, state: TncgMultinomialState, w: Floats) -> Floats:
        rows, scores = self._rows(state), np.zeros((self.problem.data.n_rows, self.shape[1]))
        self.products.class_scores(w, rows, scores)
        state.rows_read += rows.size
        return scores

    def _arrive(self, state: TncgMultinomialState) -> None:
        """Compute the probabilities, the gradient and the diagonal of H."""
        rows, gradient, M = self._rows(state), state.w.copy(), np.ones(self.shape)
        weights, curvatures = np.zeros_like(state.scores), np.zeros_like(state.scores)
        state.p[:] = 0.0
        loss = weigh_softmax(self._terms(state), state.scores, state.p, weights, curvatures)
        self.products.class_sums(weights, curvatures, rows, gradient, M)
        state.rows_read += rows.size
        self._begin_newton_step(state, gradient, M, loss=loss, apart=0.0)

    def _add_product(self, state: TncgMultinomialState, v: Floats, out: Floats) -> None:
        self.products.class_product(self._terms(state), state.p, self._rows(state), v, out)

    def _choose_length(self, state: TncgMultinomialState, after: Floats, line: Line) -> float:
        return choose_softmax_length(self._terms(state), state.scores, after, line)

    def _terms(self, state: TncgMultinomialState) -> SoftmaxRows:
        return SoftmaxRows(self.problem.codes, self.problem.costs, state.stride)

    def _weights(self, p: Floats, stride: int) -> Floats:
        """Return C_i (p_i^m - [m = y_i]) of the rows in use, as the kernel computes it; 0 for the others."""
        weights, rows = np.zeros_like(p), np.arange(0, p.shape[0], stride)
        costs = self.problem.costs[rows] * float(stride)
        weights[rows] = costs[:, None] * p[rows]
        weights[rows, self.problem.codes[rows]] -= costs
        return weights

    def _set_weights(self, state: TncgMultinomialState, start: Start) -> None:
        assert start.coef is not None
        state.w[:-1] = start.coef.T
        if self.problem.bias_feature:
            state.w[-1] = np.asarray(start.intercept) / self.problem.bias_feature

    def _repeats(self, earlier: TncgMultinomialState) -> bool:
        if earlier.p.shape != earlier.scores.shape:
            return False
        rows, gradient = self._rows(earlier), earlier.w.copy()
        weights = self._weights(earlier.p, earlier.stride)
        self.products.class_sums(weights, np.zeros_like(weights), rows, gradient, np.empty_like(gradient))
        earlier.rows_read = rows.size
        return np.array_equal(gradient, earlier.gradient)

    @contextmanager
    def _using_threads(self) -> Iterator[None]:
        with self.products.threads(self.threads):
            yield
