"""Estimates from a sample of the rows: the current gap, and the best bias.

An epoch sums the gap row by row, each term as it was at the visit of its row. At the end of the epoch these terms are
half an epoch old on average. Reading a sample of the rows again gives an estimate of the current gap, at a small
fraction of the cost of a certificate. Symbols are those of dual_problem.py.
"""

import numpy as np
from numba import njit

from solvers.data.samples import row_of
from solvers.linalg.prefetch import ask_ahead, prefetch, prefetch_row
from solvers.linalg.row import FlatRows, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms, gap_term

__all__ = ["are_even", "best_bias", "gap_of", "likely_gap", "sample_size", "sampled_gap"]


_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_FAR, _NEAR = 8, 3  # prefetch distance, in rows: of a row's numbers, then of its entries
_BISECTIONS = 20
"""Bisections of the interval that contains the best bias: they narrow it to 1e-6 of its length. Larger: a more precise
bias. Set by hand; no measurement is recorded."""
_FEWEST, _MOST, _SHARE = 512, 4096, 32
"""Rows in a sample: one in _SHARE, at least _FEWEST, at most _MOST. More rows: a better estimate, more reads. Set by
hand; no measurement is recorded."""
_ENOUGH = 24
"""Least effective number of terms in a sample: the number of equal terms that would vary as much. A sample with fewer
can miss the few large terms. Larger: samples are used less often. Set by hand; no measurement is recorded."""
_CAUTION = 2.0
"""Standard errors added to the sampled gap. Larger: fewer failed certificates (each costs half an epoch), later stops.
Set by hand; no measurement is recorded."""


@njit(cache=True, nogil=True)
def are_even(terms: float, squares: float, count: int, n: int) -> bool:
    """Return whether `count` terms with this sum and sum of squares are similar enough to be estimated from a sample of
    n rows."""
    return terms * terms * sample_size(n) >= _ENOUGH * squares * count


@njit(cache=True, nogil=True)
def sampled_gap(terms: DualTerms, point: DualPoint, seed: int) -> float:
    """Estimate the sum of all rows' terms of the gap from a sample that depends on the seed."""
    n = point.alpha.size
    size = sample_size(n)
    rows = np.empty(size, dtype=np.int64)
    for m in range(size):
        rows[m] = row_of(m, n // size, seed)
    return likely_gap(terms, point, rows)


@njit(cache=True, nogil=True)
def likely_gap(terms: DualTerms, point: DualPoint, rows: Array) -> float:
    """Estimate the sum of all rows' terms of the gap from these rows."""
    n, size = point.alpha.size, rows.size
    total, squares = gap_of(terms, point, rows)
    spread = max(0.0, squares - total * total / size) * (1.0 - size / n)
    return float((total + _CAUTION * np.sqrt(spread)) * n / size)


@njit(cache=True, nogil=True)
def gap_of(terms: DualTerms, point: DualPoint, rows: Array) -> tuple[float, float]:
    """Return the sum of these rows' terms of the gap, and the sum of their squares."""
    values, columns, starts = terms.rows
    constants, alpha, w, b = terms.constants, point.alpha, point.w, point.balance[0]
    total, squares = 0.0, 0.0
    for s in range(rows.size):
        if s + _FAR < rows.size:
            ahead = rows[s + _FAR]
            prefetch(alpha, ahead)
            prefetch(constants, 4 * ahead)
            if starts.size > 0:
                prefetch(starts, ahead)
        if s + _NEAR < rows.size:
            i, d = rows[s + _NEAR], w.size - 1
            first = i * d if starts.size == 0 else starts[i]
            prefetch_row(values, columns, first, first + d if starts.size == 0 else starts[i + 1])
        i = rows[s]
        y, C, D, a = constants[i, 0], constants[i, 1], constants[i, 2], alpha[i]
        margin = y * (_score_of(terms.rows, i, w) + b)
        term = gap_term(margin, margin - 1.0 + D * a, a, C, D) if C > 0.0 else 0.0
        total += term
        squares += term * term
    return total, squares


@njit(cache=True, nogil=True)
def sample_size(n: int) -> int:
    """Return the number of rows that `sampled_gap` reads if there are n."""
    size = max(_FEWEST, min(_MOST, n // _SHARE))
    return n if n < 2 * size else size


@njit(cache=True, nogil=True)
def best_bias(terms: DualTerms, w: Array, rows: Array) -> float:
    """Return the intercept that minimises P for this w, estimated from these rows by bisection of the derivative."""
    constants, bias_feature = terms.constants, terms.bias_feature
    up, down, of_rows = 0.0, 0.0, np.full(2, 1e-300)
    for i in range(constants.shape[0]):  # two scalars, because sums in an array would wait for each other
        up += constants[i, 1] * (constants[i, 0] > 0.0)
        down += constants[i, 1] * (constants[i, 0] <= 0.0)
    signs, slacks, weights, farthest = np.empty(rows.size), np.empty(rows.size), np.empty(rows.size), 0.0
    for s in range(rows.size):
        if terms.rows.starts.size > 0:
            ask_ahead(terms.rows.values, terms.rows.columns, terms.rows.starts, rows, s)
        i = rows[s]
        score = _score_of(terms.rows, i, w)
        farthest = max(farthest, abs(score))
        signs[s], slacks[s] = constants[i, 0], 1.0 - constants[i, 0] * score
        of_rows[int(signs[s] > 0.0)] += constants[i, 1]
    for s in range(rows.size):
        of_class = up if signs[s] > 0.0 else down
        weights[s] = constants[rows[s], 1] * of_class / of_rows[int(signs[s] > 0.0)]
    is_squared = rows.size > 0 and constants[rows[0], 2] > 0.0
    low, high = -1.0 - farthest, 1.0 + farthest
    for _ in range(_BISECTIONS):
        b = 0.5 * (low + high)
        if b / (bias_feature * bias_feature) > _push(signs, slacks, weights, b, is_squared):
            high = b
        else:
            low = b
    return 0.5 * (low + high)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _push(signs: Array, slacks: Array, weights: Array, b: float, is_squared: bool) -> float:
    """Return minus the derivative of the losses with respect to b, given the slacks at b = 0."""
    total = 0.0
    if is_squared:
        for s in range(signs.size):
            total += 2.0 * weights[s] * signs[s] * max(slacks[s] - signs[s] * b, 0.0)
    else:
        for s in range(signs.size):
            total += weights[s] * signs[s] if slacks[s] - signs[s] * b > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True)
def _score_of(rows: FlatRows, i: int, w: Array) -> float:
    """Return x_i . w without the last entry of w, the weight of the bias."""
    if rows.starts.size == 0:
        d = w.size - 1
        return dot_dense(rows.values[i * d : (i + 1) * d], w)
    return dot_sparse(rows.values, rows.columns, np.uint64(rows.starts[i]), np.uint64(rows.starts[i + 1]), w)
