"""What some of the rows tell dual coordinate descent about all: the best bias, and the gap as it is now.

The gap that an epoch adds up row by row is one of the past: by its end each row's term was seen, on average, half an
epoch ago. Some rows looked at again tell what it has become, for a small part of what a certificate costs. Symbols are
those of epoch.py.
"""

import numpy as np
from numba import njit

from solvers.data.samples import row_of
from solvers.linalg.prefetch import ask_ahead, prefetch, prefetch_row
from solvers.linalg.row import dot_dense, dot_sparse
from solvers.linalg.types import Array

__all__ = ["are_even", "best_bias", "gap_of", "gap_term", "likely_gap", "sample_size", "sampled_gap"]


_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_FAR, _NEAR = 8, 3  # how many rows ahead row numbers, then row contents, are prefetched
_BISECTIONS = 20
_FEWEST, _MOST, _SHARE = 512, 4096, 32
"""Rows whose terms stand for the gap: one in so many, within these bounds."""
_ENOUGH = 24
"""Rows of equal terms that a sample has to hold: of few large ones among many it says nothing."""
_CAUTION = 2.0
"""Standard errors by which the gap may be more than its sample says: a certificate that fails costs half an epoch."""


@njit(cache=True, nogil=True)
def are_even(terms: float, squares: float, count: int, n: int) -> bool:
    """Whether so many rows' terms, with this sum and sum of squares, are of a kind that a sample of n rows tells of."""
    return terms * terms * sample_size(n) >= _ENOUGH * squares * count


@njit(cache=True, nogil=True)
def sampled_gap(
    values: Array, columns: Array, starts: Array, constants: Array, b: float, w: Array, alpha: Array, seed: int
) -> float:
    """The sum of all rows' terms of the gap, as some of them suggest; other ones for each seed."""
    n = alpha.size
    size = sample_size(n)
    rows = np.empty(size, dtype=np.int64)
    for m in range(size):
        rows[m] = row_of(m, n // size, seed)
    return likely_gap(values, columns, starts, constants, b, w, alpha, rows)


@njit(cache=True, nogil=True)
def likely_gap(
    values: Array, columns: Array, starts: Array, constants: Array, b: float, w: Array, alpha: Array, rows: Array
) -> float:
    """The sum of all rows' terms of the gap, if these stand for all."""
    n, size = alpha.size, rows.size
    total, squares = gap_of(values, columns, starts, constants, b, w, alpha, rows)
    spread = max(0.0, squares - total * total / size) * (1.0 - size / n)
    return float((total + _CAUTION * np.sqrt(spread)) * n / size)


@njit(cache=True, nogil=True)
def gap_of(
    values: Array, columns: Array, starts: Array, constants: Array, b: float, w: Array, alpha: Array, rows: Array
) -> tuple[float, float]:
    """The sum of these rows' terms of the gap, and that of their squares."""
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
        margin = y * (_score_of(values, columns, starts, i, w) + b)
        term = gap_term(margin, margin - 1.0 + D * a, a, C, D) if C > 0.0 else 0.0
        total += term
        squares += term * term
    return total, squares


@njit(cache=True, nogil=True)
def sample_size(n: int) -> int:
    """Of so many rows, how many `sampled_gap` asks."""
    size = max(_FEWEST, min(_MOST, n // _SHARE))
    return n if n < 2 * size else size


@njit(cache=True, nogil=True)
def best_bias(
    values: Array, columns: Array, starts: Array, constants: Array, bias_feature: float, w: Array, rows: Array
) -> float:
    """The b that is best beside w if these rows stand for all of their class: where the slope in b changes its sign."""
    up, down, of_rows = 0.0, 0.0, np.full(2, 1e-300)
    for i in range(constants.shape[0]):  # into an array, each sum would wait for the last
        up += constants[i, 1] * (constants[i, 0] > 0.0)
        down += constants[i, 1] * (constants[i, 0] <= 0.0)
    signs, slacks, weights, farthest = np.empty(rows.size), np.empty(rows.size), np.empty(rows.size), 0.0
    for s in range(rows.size):
        if starts.size > 0:
            ask_ahead(values, columns, starts, rows, s)
        i = rows[s]
        score = _score_of(values, columns, starts, i, w)
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
    """What the losses would move b by, at b, given the slacks at b = 0."""
    total = 0.0
    if is_squared:
        for s in range(signs.size):
            total += 2.0 * weights[s] * signs[s] * max(slacks[s] - signs[s] * b, 0.0)
    else:
        for s in range(signs.size):
            total += weights[s] * signs[s] if slacks[s] - signs[s] * b > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True)
def _score_of(values: Array, columns: Array, starts: Array, i: int, w: Array) -> float:
    """x_i . w, where w has the bias's weight at its end."""
    if starts.size == 0:
        d = w.size - 1
        return dot_dense(values[i * d : (i + 1) * d], w)
    return dot_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), w)


@njit(cache=True, nogil=True)
def gap_term(margin: float, g: float, a: float, C: float, D: float) -> float:
    """This row's term of the gap: C xi^p + conj(alpha) - alpha (1 - margin)."""
    if D > 0.0:
        return g * g * C if margin < 1.0 else a * (0.5 * D * a + margin - 1.0)
    return (C - a) * (1.0 - margin) if margin < 1.0 else a * (margin - 1.0)
