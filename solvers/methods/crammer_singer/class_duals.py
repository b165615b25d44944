"""Dual points of the joint multi-class problem: their weights, their projection into the domain, and their faces.

A dual point A has one variable per row and class, with A_i^m <= C_i [m = y_i] and sum_m A_i^m = 0. Its weights are
W(A) = sum_i h_i A_i', where h_i is x_i with the bias feature. W is stored by feature: its shape is (d + 1, k).
"""

import numpy as np
from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array, Floats
from solvers.methods._shared.dual_face import Face
from solvers.problem.problems import MulticlassProblem

__all__ = ["ClassDuals", "SharesFace"]


_ROUNDING = 1e-13
"""Relative error up to which the shares of a row count as equal to its cost. Larger: more variables count as being at
their bound. The value is above the rounding error of a sum over the classes."""


class ClassDuals:
    """The dual points of one problem."""

    def __init__(self, problem: MulticlassProblem) -> None:
        self.problem = problem
        self._rows = problem.data.flat()
        self._codes = problem.codes[:, None]

    def weights_of(self, A: Floats, bias_feature: float) -> Floats:
        """Return W(A). Costs one pass."""
        W = np.zeros((self.problem.data.n_features + 1, A.shape[1]))
        _sum_rows(self._rows, bias_feature, read_only(A), W)
        return W

    def scores(self, W: Floats, bias_feature: float) -> Floats:
        """Return h_i . w_m for every row and class. Costs one pass."""
        out = np.empty((self.problem.data.n_rows, W.shape[1]))
        _score_rows(self._rows, bias_feature, read_only(W), out)
        return out

    def own(self) -> Floats:
        """Return the matrix [m = y_i]: 1 at each row's own class, else 0."""
        out = np.zeros((self.problem.data.n_rows, self.problem.classes.size))
        np.put_along_axis(out, self._codes, 1.0, axis=1)
        return out

    def suggested(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Return a dual point built from given weights by the optimality conditions, and its weights. Costs two passes.

        The whole cost of a row goes to the other class with the highest score. The point is then scaled by the factor
        that maximises the dual, so its value is never below that of zero.
        """
        costs = self.problem.costs
        bias = np.zeros_like(intercept) if self.problem.spec.bias == "none" else intercept
        rivals = (self.scores(np.vstack([coef.T, bias]), 1.0) - self.own()).argmax(axis=1)
        A = costs[:, None] * self.own()
        A[np.arange(rivals.size), rivals] -= costs
        W = self.weights_of(A, self.problem.bias_feature)
        gain, quadratic = float(np.maximum(A, 0.0).sum()), float((W * W).sum())
        length = min(1.0, gain / quadratic) if quadratic > 0.0 else 1.0
        return A * length, W * length

    def feasible(self, A: Floats) -> Floats:
        """Project A into the domain: the shares of a row's other classes are >= 0 and sum to at most its cost."""
        costs = self.problem.costs
        shares = np.maximum(-A, 0.0)
        np.put_along_axis(shares, self._codes, 0.0, axis=1)
        totals = shares.sum(axis=1)
        is_full = totals > (1.0 - _ROUNDING) * costs
        factors = np.divide(costs, totals, out=np.ones_like(totals), where=is_full & (totals > 0.0))
        moved = -shares * factors[:, None]
        np.put_along_axis(moved, self._codes, np.where(is_full, costs, totals)[:, None], axis=1)
        return np.asarray(moved)


class SharesFace(Face):
    """The face of variables below their bounds C_i [m = y_i]. The variables of a row always sum to 0.

    A free bias (class_bias.py) is a feature of value 1 / sqrt(pull), and the centre is added to every score.
    """

    diagonal = np.zeros(1)

    def __init__(self, duals: ClassDuals, bias_feature: float, centre: Floats) -> None:
        self.duals = duals
        self.bias_feature = bias_feature
        own = duals.own()
        self.linear = own - centre
        self.bounds = duals.problem.costs[:, None] * own
        self.free_at(np.zeros_like(self.bounds))

    def free_at(self, x: Floats) -> None:
        self.free = (self.bounds > x) & (self.duals.problem.costs > 0.0)[:, None]
        self.counts = np.maximum(self.free.sum(axis=1, keepdims=True), 1)

    def weights_of(self, x: Floats) -> Floats:
        return self.duals.weights_of(x, self.bias_feature)

    def products(self, w: Floats) -> Floats:
        return self.duals.scores(w, self.bias_feature)

    def along(self, v: Floats) -> Floats:
        kept = np.where(self.free, v, 0.0)
        return np.where(self.free, kept - kept.sum(axis=1, keepdims=True) / self.counts, 0.0)

    def room(self, x: Floats, direction: Floats) -> Floats:
        return np.divide(self.bounds - x, direction, out=np.full_like(x, np.inf), where=direction > 0.0)

    def hold(self, x: Floats, direction: Floats, place: int) -> None:
        x.flat[place] = self.bounds.flat[place]
        self.free.flat[place] = False
        self.counts = np.maximum(self.free.sum(axis=1, keepdims=True), 1)

    def projected(self, x: Floats) -> Floats:
        return self.duals.feasible(x)


# --- kernels. For dense data, columns and starts are empty ------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_rows(rows: FlatRows, bias_feature: float, A: Array, out: Array) -> None:
    """Add sum_i h_i A_i' to out."""
    values, columns, starts = rows
    dense, d, k = starts.size == 0, out.shape[0] - 1, out.shape[1]
    for i in range(A.shape[0]):
        a = A[i]
        if not a.any():
            continue
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        for e in range(first, past):
            x = values[e]
            if x != 0.0:
                weights = out[np.uint64(e - first) if dense else columns[e]]
                for m in range(k):
                    weights[m] += x * a[m]
        for m in range(k):
            out[d, m] += bias_feature * a[m]


@njit(cache=True, nogil=True)
def _score_rows(rows: FlatRows, bias_feature: float, W: Array, out: Array) -> None:
    """Write h_i . W[:, m] into out[i, m]."""
    values, columns, starts = rows
    dense, d, k = starts.size == 0, W.shape[0] - 1, W.shape[1]
    for i in range(out.shape[0]):
        scores = out[i]
        for m in range(k):
            scores[m] = bias_feature * W[d, m]
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        for e in range(first, past):
            x = values[e]
            if x != 0.0:
                weights = W[np.uint64(e - first) if dense else columns[e]]
                for m in range(k):
                    scores[m] += x * weights[m]
