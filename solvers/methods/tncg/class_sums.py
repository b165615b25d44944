"""Sums over chosen rows for several weight vectors, in one pass over the rows, and the softmax of the rows.

Weights are a table with one row per feature and one column per class, so that an entry of X finds the weights of all
classes in adjacent memory.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.row import FlatRows
from solvers.linalg.softplus import exp_of_minus
from solvers.linalg.types import Array, Floats
from solvers.methods.tncg.line import LONGEST, STEEP, Line
from solvers.methods.tncg.row_sums import RowProducts
from solvers.problem.problems import MulticlassProblem

__all__ = ["ClassProducts", "SoftmaxRows", "choose_softmax_length", "weigh_softmax"]


class SoftmaxRows(NamedTuple):
    """The rows in use: every stride-th row."""

    codes: Array
    """The class of each row, as an index."""
    costs: Array
    stride: int
    """1: all rows. Otherwise costs are multiplied by the stride."""


class ClassProducts(RowProducts):
    """Sums over the rows of one problem. Tables have one row per row of X and one column per class."""

    def __init__(self, problem: MulticlassProblem) -> None:
        super().__init__(problem, vectors=problem.classes.size)
        self._shape = problem.data.n_features + 1, problem.classes.size

    def class_scores(self, W: Floats, rows: Array, out: Floats) -> None:
        """Write h_i . w_m into out[i, m]."""
        self._read(rows, lambda part, _: _score_classes(self._flat, self._bias, part, W, out))

    def class_sums(self, weights: Floats, curvatures: Floats, rows: Array, out: Floats, squares: Floats) -> None:
        """Add sum_i weights_im h_i to out[:, m] and sum_i curvatures_im h_i^2 to squares[:, m]."""

        def read(part: Array, total: Array) -> None:
            sums, of_squares = total[: self._size].reshape(self._shape), total[self._size :].reshape(self._shape)
            _sum_classes(self._flat, self._bias, part, weights, curvatures, sums, of_squares)

        self._read(rows, read)
        self._gather(out.reshape(-1), squares.reshape(-1))

    def class_product(self, terms: SoftmaxRows, p: Floats, rows: Array, V: Floats, out: Floats) -> None:
        """Add the rows' part of H V to out: sum_i C_i h_i z_i' with z_i = p_i (V'h_i - p_i . V'h_i)."""

        def read(part: Array, total: Array) -> None:
            _multiply_classes(self._flat, self._bias, part, terms, p, V, total[: self._size].reshape(self._shape))

        self._read(rows, read)
        self._gather(out.reshape(-1))


# --- kernels. f: scores of a row; p: probabilities; C: cost -----------------------------------------------------------

_ADD = {"contract"}


@njit(cache=True, nogil=True, fastmath=_ADD)
def _score_row(flat: FlatRows, bias: float, i: int, W: Array, out: Array) -> None:
    values, columns, starts = flat.values, flat.columns, flat.starts
    d, k = W.shape[0] - 1, W.shape[1]
    for m in range(k):
        out[m] = bias * W[d, m]
    if starts.size == 0:
        for j in range(d):
            x = values[i * d + j]
            for m in range(k):
                out[m] += x * W[j, m]
    else:
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x, column = values[e], np.uint64(columns[e])
            for m in range(k):
                out[m] += x * W[column, m]


@njit(cache=True, nogil=True, fastmath=_ADD)
def _add_row(flat: FlatRows, bias: float, i: int, weights: Array, out: Array) -> None:
    values, columns, starts = flat.values, flat.columns, flat.starts
    d, k = out.shape[0] - 1, out.shape[1]
    for m in range(k):
        out[d, m] += bias * weights[m]
    if starts.size == 0:
        for j in range(d):
            x = values[i * d + j]
            for m in range(k):
                out[j, m] += x * weights[m]
    else:
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x, column = values[e], np.uint64(columns[e])
            for m in range(k):
                out[column, m] += x * weights[m]


@njit(cache=True, nogil=True, fastmath=_ADD)
def _add_squared_row(flat: FlatRows, bias: float, i: int, weights: Array, out: Array) -> None:
    values, columns, starts = flat.values, flat.columns, flat.starts
    d, k = out.shape[0] - 1, out.shape[1]
    for m in range(k):
        out[d, m] += bias * bias * weights[m]
    if starts.size == 0:
        for j in range(d):
            x = values[i * d + j]
            for m in range(k):
                out[j, m] += (x * x) * weights[m]
    else:
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x, column = values[e], np.uint64(columns[e])
            for m in range(k):
                out[column, m] += (x * x) * weights[m]


@njit(cache=True, nogil=True)
def _score_classes(flat: FlatRows, bias: float, rows: Array, W: Array, out: Array) -> None:
    for r in range(rows.size):
        _score_row(flat, bias, rows[r], W, out[rows[r]])


@njit(cache=True, nogil=True)
def _sum_classes(
    flat: FlatRows, bias: float, rows: Array, weights: Array, curvatures: Array, out: Array, squares: Array
) -> None:
    for r in range(rows.size):
        i = rows[r]
        _add_row(flat, bias, i, weights[i], out)
        _add_squared_row(flat, bias, i, curvatures[i], squares)


@njit(cache=True, nogil=True, fastmath=_ADD)
def _multiply_classes(
    flat: FlatRows, bias: float, rows: Array, terms: SoftmaxRows, p: Array, V: Array, out: Array
) -> None:
    k = V.shape[1]
    z = np.empty(k)
    for r in range(rows.size):
        i = rows[r]
        C = terms.costs[i] * terms.stride
        if C == 0.0:
            continue
        _score_row(flat, bias, i, V, z)
        mean = 0.0
        for m in range(k):
            mean += p[i, m] * z[m]
        for m in range(k):
            z[m] = C * p[i, m] * (z[m] - mean)
        _add_row(flat, bias, i, z, out)


@njit(cache=True, nogil=True, fastmath=_ADD, error_model="numpy")
def _softmax(f: Array, own: int, p: Array) -> float:
    """Write the probabilities of a row to p; return its loss log sum_m exp(f_m) - f_own."""
    top = f[0]
    for m in range(1, f.size):
        top = max(top, f[m])
    total = 0.0
    for m in range(f.size):
        p[m] = exp_of_minus(top - f[m])
        total += p[m]
    for m in range(f.size):
        p[m] /= total
    return float((top - f[own]) + np.log(total) + 0.0 * (total + f[own]))


@njit(cache=True, nogil=True, fastmath=_ADD, error_model="numpy")
def weigh_softmax(terms: SoftmaxRows, scores: Array, p: Array, weights: Array, curvatures: Array) -> float:
    """Write p, weights = C (p - [own class]) and curvatures = C p (1 - p) of the rows in use; return the losses."""
    loss = 0.0
    for i in range(0, terms.costs.size, terms.stride):
        C, own = terms.costs[i] * terms.stride, terms.codes[i]
        loss += C * _softmax(scores[i], own, p[i])
        for m in range(p.shape[1]):
            weights[i, m] = C * p[i, m]
            curvatures[i, m] = C * p[i, m] * (1.0 - p[i, m])
        weights[i, own] -= C
    return loss


@njit(cache=True, nogil=True, fastmath=_ADD, error_model="numpy")
def _derivatives(terms: SoftmaxRows, before: Array, after: Array, t: float) -> tuple[float, float]:
    """Return the first and second derivative, at t, of the sum of losses along the line between the scores."""
    k = before.shape[1]
    f, p = np.empty(k), np.empty(k)
    slope, bend = 0.0, 0.0
    for i in range(0, terms.costs.size, terms.stride):
        C, own = terms.costs[i] * terms.stride, terms.codes[i]
        for m in range(k):
            f[m] = before[i, m] + t * (after[i, m] - before[i, m])
        _softmax(f, own, p)
        mean, square = 0.0, 0.0
        for m in range(k):
            change = after[i, m] - before[i, m]
            mean += p[m] * change
            square += p[m] * change * change
        slope += C * (mean - (after[i, own] - before[i, own]))
        bend += C * max(square - mean * mean, 0.0)
    return slope, bend


@njit(cache=True, nogil=True, fastmath=_ADD, error_model="numpy")
def _change(terms: SoftmaxRows, before: Array, after: Array) -> float:
    """Return the sum of losses after the step minus the sum before. Subtracting row by row limits rounding errors."""
    p, total = np.empty(before.shape[1]), 0.0
    for i in range(0, terms.costs.size, terms.stride):
        C, own = terms.costs[i] * terms.stride, terms.codes[i]
        total += C * (_softmax(after[i], own, p) - _softmax(before[i], own, p))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def choose_softmax_length(terms: SoftmaxRows, before: Array, after: Array, line: Line) -> float:
    """Choose the step length: 1 if P decreases about as predicted, otherwise the minimiser of P along the step."""
    slope, _ = _derivatives(terms, before, after, 1.0)
    slope += line.ws + line.ss
    if line.is_drowned:
        decrease = -0.5 * (line.slope + slope)
    else:
        decrease = -(line.ws + 0.5 * line.ss + _change(terms, before, after))
    falls = slope < STEEP * line.slope and not line.is_least
    if decrease > line.least_decrease and not falls:
        return 1.0
    low, high = (1.0, LONGEST) if slope < 0.0 else (0.0, 1.0)
    t = 0.5 * (low + high)
    for _ in range(60):
        slope, bend = _derivatives(terms, before, after, t)
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
