"""Solves with a symmetric positive definite matrix of the order of the features, on one thread.

LAPACK would do, but not its threads: where another process has the second core, waiting for them made a
factorisation of order 200 a thousand times slower. Here a run also gives the same bits for any number of threads.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .rows import Floats

__all__ = ["cholesky_factor", "cholesky_solve", "factor_in_place", "solve_in_place"]

Array = NDArray[Any]

BLOCK = 12
"""Columns of the factor that are finished at once: whole tiles of 3 x 3, and few: what tiles do not do is slow."""


def cholesky_factor(upper: Floats, ridge: float) -> Floats:
    """The lower triangular L with LL' = upper + ridge I, of a matrix of which the upper triangle is given.

    L has spare rows and columns after the matrix's own, where it is the identity.
    """
    k = upper.shape[0]
    padded = -(-k // BLOCK) * BLOCK
    factor = np.zeros((padded, padded))
    _fill_lower(upper, ridge, factor)
    if not factor_in_place(factor, BLOCK):
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return factor


def cholesky_solve(factor: Floats, rhs: Floats) -> Floats:
    """x with LL'x = rhs."""
    x = np.zeros(factor.shape[0])
    x[: rhs.size] = rhs
    solve_in_place(factor, x)
    return x[: rhs.size]


# --- kernels. L: the matrix, overwritten by its factor block of columns by block of columns ---------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def _fill_lower(upper: Array, ridge: float, L: Array) -> None:
    k = upper.shape[0]
    for i in range(k):
        for j in range(i):
            L[i, j] = upper[j, i]
        L[i, i] = upper[i, i] + ridge
    for i in range(k, L.shape[0]):
        L[i, i] = 1.0


@njit(cache=True, nogil=True)
def factor_in_place(L: Array, block: int) -> bool:
    order = L.shape[0]
    for first in range(0, order, block):
        past = first + block
        # What the finished columns contribute to these.
        for i in range(first, order, 3):
            for j in range(first, min(past, i + 3), 3):
                _subtract_tile(L, i, j, first)
        for j in range(first, past):
            pivot = L[j, j] - _dot(L[j, first:j], L[j, first:j])
            if not pivot > 0.0:
                return False
            L[j, j] = np.sqrt(pivot)
            for i in range(j + 1, past):
                L[i, j] = (L[i, j] - _dot(L[i, first:j], L[j, first:j])) / L[j, j]
        _finish_columns(L, first, past)
    return True


@njit(cache=True, nogil=True, fastmath={"contract"})
def _finish_columns(L: Array, first: int, past: int) -> None:
    """Columns `first` to `past` below the block on the diagonal, which is done: each is one long vector here."""
    below = np.empty((past - first, L.shape[0] - past))
    for i in range(below.shape[1]):
        for j in range(below.shape[0]):
            below[j, i] = L[past + i, first + j]
    for j in range(below.shape[0]):
        column = below[j]
        for k in range(j):
            share, done = L[first + j, first + k], below[k]
            for i in range(column.size):
                column[i] -= share * done[i]
        pivot = L[first + j, first + j]
        for i in range(column.size):
            column[i] /= pivot
    for i in range(below.shape[1]):
        for j in range(below.shape[0]):
            L[past + i, first + j] = below[j, i]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _subtract_tile(L: Array, i: int, j: int, columns: int) -> None:
    """Entries i to i + 2, j to j + 2: nine sums and their operands fit into 16 registers."""
    a0, a1, a2 = L[i, :columns], L[i + 1, :columns], L[i + 2, :columns]
    b0, b1, b2 = L[j, :columns], L[j + 1, :columns], L[j + 2, :columns]
    s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = 0.0
    for k in range(columns):
        x0, x1, x2, y0, y1, y2 = a0[k], a1[k], a2[k], b0[k], b1[k], b2[k]
        s00, s01, s02 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2
        s10, s11, s12 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2
        s20, s21, s22 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2
    tile = ((s00, s01, s02), (s10, s11, s12), (s20, s21, s22))
    for row in range(3):
        for column in range(3):
            L[i + row, j + column] -= tile[row][column]


@njit(cache=True, nogil=True)
def solve_in_place(L: Array, x: Array) -> None:
    order = L.shape[0]
    for i in range(order):
        x[i] = (x[i] - _dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(order - 1, -1, -1):
        x[i] /= L[i, i]
        solved = x[i]
        row = L[i]
        for j in range(i):
            x[j] -= solved * row[j]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dot(left: Array, right: Array) -> float:
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total
