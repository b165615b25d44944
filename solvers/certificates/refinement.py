"""Computes a better dual point for a method that has none: a few passes of ascent on the dual of a binary problem.

The dual point derived from the margins gives a weak bound unless the weights are nearly optimal. It is a good starting
point for ascent on the dual. With D_i = 1 / (2 C_i) for squared hinge and 0 for hinge, each pass increases

    D(alpha) = sum_i (alpha_i - 1/2 D_i alpha_i^2) - 1/2 |w(alpha)|^2,    0 <= alpha_i (<= C_i for hinge),

by one exact step per row (bias none or regularised) or per pair of rows (bias free: sum_i alpha_i y_i does not change).
Only the bound changes, not the method's weights.
"""

import numpy as np
from numba import njit

from solvers.certificates import feasible_dual_point
from solvers.data.rows import CsrRows, DenseRows, read_only
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import BinaryProblem

__all__ = ["DualRefinement"]


PASSES = 8
"""Passes over the data in each refinement. With a free bias each of them reads the rows twice, the first time to choose
pairs. Larger: tighter bounds, more time. Set by hand; no measurement is recorded."""
TRIAL_PASSES = 2
"""Passes of ascent from the new margins before the result is compared with the best dual point so far. If its value is
lower, ascent continues from the best point instead. Larger: more time on bad starts. Set by hand; no measurement is
recorded."""
WIDTH = 0.1
"""Half-width of the interval around the kink of hinge that is smoothed for the first dual point, as a fraction of the
margin. Larger: more rows start between their bounds. Set by hand; no measurement is recorded."""


class DualRefinement:
    """Keeps the best dual point so far and improves it with each call."""

    def __init__(self, problem: BinaryProblem) -> None:
        self.problem = problem
        counted = problem.costs > 0.0
        self._upper = problem.loss.dual_top(problem.costs)
        diagonal = problem.loss.dual_diagonal(problem.costs)
        norms = problem.data.squared_norms() + problem.bias_feature**2
        self._constants = read_only(np.stack([problem.signs, self._upper, diagonal, norms + diagonal], axis=1))
        self._counted = np.flatnonzero(counted)
        self._best = 0.0, np.zeros_like(problem.costs), np.zeros(problem.data.n_features + 1)
        """D(alpha), alpha and w(alpha)."""
        self._passes_done = 0

    @classmethod
    def fits(cls, problem: BinaryProblem) -> bool:
        """Return whether the dual is quadratic (hinge and squared hinge) and rows can be read one by one."""
        return problem.loss.has_quadratic_dual and isinstance(problem.data, CsrRows | DenseRows)

    def refined(self, coef: Floats, intercept: float) -> Floats:
        """Improve the best dual point and return it. Ascent starts from the margins of these weights or from the best
        point so far."""
        with np.errstate(over="ignore", invalid="ignore"):  # a value that overflows is never the best
            self._ascend_from(self._suggested(coef, intercept))
            if self._best[0] <= 0.0:
                # These weights are a worse start than zero.
                self._ascend_from(np.zeros_like(self._best[1]))
        return self._best[1]

    def _ascend_from(self, alpha: Floats) -> None:
        ascend = self._visit_pairs if self.problem.spec.bias == "free" else self._visit_rows
        w = self.problem.weights_of(alpha)
        for number in range(PASSES):
            if number == TRIAL_PASSES and self._best[0] > max(0.0, self._value(alpha, w)):
                alpha, w = self._best[1].copy(), self._best[2].copy()
            ascend(alpha, w)
        w = self.problem.weights_of(alpha)
        value = self._value(alpha, w)
        if value > self._best[0]:
            self._best = value, alpha, w

    def _suggested(self, coef: Floats, intercept: float) -> Floats:
        """Return the alpha that the optimality conditions imply for these margins.

        For hinge, the kink is smoothed by WIDTH on both sides. The dual value of this point is low, but ascent from it
        reaches a higher value than ascent from a scaled alpha.
        """
        problem = self.problem
        scores = np.empty(problem.data.n_rows)
        problem.data.margins(coef, scores)
        slack = 1.0 - problem.signs * (scores + intercept)
        if not problem.loss.is_capped:
            return feasible_dual_point(problem, problem.loss.derivative(slack, problem.costs))
        return feasible_dual_point(problem, problem.costs * np.clip(0.5 + 0.5 * slack / WIDTH, 0.0, 1.0))

    def _value(self, alpha: Floats, w: Floats) -> float:
        return float((alpha * (1.0 - 0.5 * self._constants[:, 2] * alpha)).sum() - 0.5 * (w * w).sum())

    def _visit_rows(self, alpha: Floats, w: Floats) -> None:
        """Make one pass in random order; changes alpha and w."""
        self._passes_done += 1
        order = np.random.default_rng(self._passes_done).permutation(self._counted)
        flat = self.problem.data.flat()
        _step_rows(*flat, self._constants, self.problem.bias_feature, order, alpha, w)

    def _visit_pairs(self, alpha: Floats, w: Floats) -> None:
        """Make one pass over pairs: the row that gains most by raising y_i alpha_i is paired with the row that gains
        most by lowering it, then the second of each kind, and so on."""
        signs, upper, diagonal, _ = self._constants.T
        scores = np.empty(signs.size)
        self.problem.data.margins(w[:-1], scores)
        gains = signs * (1.0 - diagonal * alpha) - scores
        can_grow, can_shrink = alpha < upper, alpha > 0.0
        rising = np.flatnonzero(np.where(signs > 0.0, can_grow, can_shrink))
        falling = np.flatnonzero(np.where(signs > 0.0, can_shrink, can_grow))
        pairs = min(rising.size, falling.size)
        rising = rising[np.argsort(-gains[rising], kind="stable")][:pairs]
        falling = falling[np.argsort(gains[falling], kind="stable")][:pairs]
        useful = int(np.count_nonzero(gains[rising] > gains[falling]))
        flat, work = self.problem.data.flat(), np.zeros(w.size - 1)
        _step_pairs(*flat, self._constants, rising[:useful], falling[:useful], alpha, w, work)


# --- kernels. constants: y, upper bound, D_i and |x_i|^2 + D_i of each row; a: alpha_i; dense data: starts is empty --

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True)
def _step_rows(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    order: Array,
    alpha: Array,
    w: Array,
) -> None:
    """Take an exact step for each row, in this order."""
    d = w.size - 1
    for i in order:
        y, upper, D, curvature = constants[i, 0], constants[i, 1], constants[i, 2], constants[i, 3]
        row, at = _row(values, columns, starts, d, i)
        a = alpha[i]
        gain = 1.0 - D * a - y * (_dot(row, at, w) + bias_feature * w[d])
        step = gain / curvature if curvature > 0.0 else np.sign(gain) * upper
        moved = min(max(a + step, 0.0), upper)
        if moved != a:
            alpha[i] = moved
            _add(row, at, y * (moved - a), w)
            w[d] += y * (moved - a) * bias_feature


@njit(cache=True, nogil=True)
def _step_pairs(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    rising: Array,
    falling: Array,
    alpha: Array,
    w: Array,
    work: Array,
) -> None:
    """Take an exact step for each pair (rising[k], falling[k]): y_i alpha_i rises for the first row and falls by the
    same amount for the second.

    `work` must contain only zeros. It contains only zeros again when the function returns.
    """
    d = w.size - 1
    for k in range(rising.size):
        i, j = rising[k], falling[k]
        y_i, y_j = constants[i, 0], constants[j, 0]
        row_i, at_i = _row(values, columns, starts, d, i)
        row_j, at_j = _row(values, columns, starts, d, j)
        gain = y_i * (1.0 - constants[i, 2] * alpha[i]) - _dot(row_i, at_i, w)
        gain -= y_j * (1.0 - constants[j, 2] * alpha[j]) - _dot(row_j, at_j, w)
        room_i = constants[i, 1] - alpha[i] if y_i > 0.0 else alpha[i]
        room_j = alpha[j] if y_j > 0.0 else constants[j, 1] - alpha[j]
        room = min(room_i, room_j)
        if gain <= 0.0 or room <= 0.0:
            continue
        _add(row_i, at_i, 1.0, work)
        curvature = constants[i, 3] + constants[j, 3] - 2.0 * _dot(row_j, at_j, work)
        for e in range(row_i.size):
            work[e if at_i.size == 0 else at_i[e]] = 0.0
        step = room if curvature <= 0.0 or gain >= room * curvature else gain / curvature
        if not step < np.inf:
            continue
        alpha[i] = max(0.0, alpha[i] + y_i * step)
        alpha[j] = max(0.0, alpha[j] - y_j * step)
        if step == room_i:
            alpha[i] = constants[i, 1] if y_i > 0.0 else 0.0
        if step == room_j:
            alpha[j] = 0.0 if y_j > 0.0 else constants[j, 1]
        _add(row_i, at_i, step, w)
        _add(row_j, at_j, -step, w)


@njit(cache=True, nogil=True)
def _row(values: Array, columns: Array, starts: Array, d: int, i: int) -> tuple[Array, Array]:
    if starts.size == 0:
        return values[i * d : (i + 1) * d], columns
    return values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i + 1]]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dot(row: Array, at: Array, w: Array) -> float:
    total = 0.0
    if at.size == 0:
        for e in range(row.size):
            total += row[e] * w[e]
    else:
        for e in range(row.size):
            total += row[e] * w[at[e]]
    return total


@njit(cache=True, nogil=True)
def _add(row: Array, at: Array, multiplier: float, w: Array) -> None:
    if at.size == 0:
        for e in range(row.size):
            w[e] += multiplier * row[e]
    else:
        for e in range(row.size):
            w[at[e]] += multiplier * row[e]
