"""Cholesky factorisation and solves for matrices of features x features, on one thread.

LAPACK is not used, because it starts threads. With another process on the second core, waiting for these threads made a
factorisation of order 200 a thousand times slower. On one thread, results are also bit-identical on every run.

A matrix and its factor are lower triangles, stored in panels of WIDE rows (tiles.py) as [panel, column, row of the
panel]. Entries above the diagonal in a panel's last columns are undefined. Rows and columns beyond the order of the
matrix are those of the identity.
"""

import numpy as np
from numba import njit

from solvers.linalg.tiles import HIGH, WIDE, multiply_tile, panels_of
from solvers.linalg.types import Array, Floats

__all__ = ["cholesky_factor", "cholesky_solve", "factor_in_place", "solve_in_place"]


def cholesky_factor(upper: Floats, ridge: float) -> Floats:
    """Return the lower triangular L with LL' = upper + ridge I; only the upper triangle of `upper` is read."""
    panels = panels_of(upper.shape[0])
    factor = np.zeros((panels, panels * WIDE, WIDE))
    _fill(upper, ridge, factor)
    if not factor_in_place(factor):
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return factor


def cholesky_solve(factor: Floats, rhs: Floats) -> Floats:
    """Return x with LL'x = rhs."""
    x = np.zeros(factor.shape[1])
    x[: rhs.size] = rhs
    solve_in_place(factor, x)
    return x[: rhs.size]


# --- kernels. L: the matrix, overwritten by its factor panel of columns by panel of columns ---------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_STEPS = 120  # columns of two panels that are multiplied at a time; more would not fit into the first-level cache


@njit(cache=True, nogil=True)
def _fill(upper: Array, ridge: float, L: Array) -> None:
    k = upper.shape[0]
    for j in range(k):
        for i in range(j, k):
            L[i // WIDE, j, i % WIDE] = upper[j, i]
        L[j // WIDE, j, j % WIDE] += ridge
    for j in range(k, L.shape[1]):
        L[j // WIDE, j, j % WIDE] = 1.0


@njit(cache=True, nogil=True)
def factor_in_place(L: Array) -> bool:
    """Overwrite the matrix with its factor; return False if it is not positive definite."""
    tile, inverses = np.empty(HIGH * WIDE), np.empty(WIDE)
    for j in range(L.shape[0]):
        for i in range(j, L.shape[0]):
            _subtract_finished(L, i, j, tile)
            if not _finish(L, i, j, tile, inverses):
                return False
    return True


@njit(cache=True, nogil=True)
def _subtract_finished(L: Array, i: int, j: int, tile: Array) -> None:
    """Subtract the contribution of all columns before panel j from panel i's entries in the columns of panel j."""
    flat, a_panel = L.reshape(-1), L.shape[1] * WIDE
    for first in range(0, j * WIDE, _STEPS):
        steps, begin = min(_STEPS, j * WIDE - first), first * WIDE
        for c in range(0, WIDE, HIGH):
            multiply_tile(flat, j * a_panel + begin + c, flat, i * a_panel + begin, steps, tile)
            _subtract(tile, flat, i * a_panel + (j * WIDE + c) * WIDE)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _finish(L: Array, i: int, j: int, tile: Array, inverses: Array) -> bool:
    """Compute panel i's entries of the factor in the columns of panel j, a few columns at a time; return False if a
    pivot is not positive. On the diagonal (i = j) also compute the inverses of the pivots."""
    flat, a_panel = L.reshape(-1), L.shape[1] * WIDE
    own, at = j * a_panel + j * WIDE * WIDE, i * a_panel + j * WIDE * WIDE
    for first in range(0, WIDE, HIGH):
        multiply_tile(flat, own + first, flat, at, first, tile)
        _subtract(tile, flat, at + first * WIDE)
        for c in range(first, first + HIGH):
            column = flat[at + c * WIDE : at + (c + 1) * WIDE]
            if i == j:
                if not column[c] > 0.0:
                    return False
                inverses[c] = 1.0 / np.sqrt(column[c])
            inverse = inverses[c]
            for row in range(WIDE):
                column[row] *= inverse
            for other in range(c + 1, first + HIGH):
                share, place = flat[own + c * WIDE + other], at + other * WIDE
                for row in range(WIDE):
                    flat[place + row] -= share * column[row]
    return True


@njit(cache=True, nogil=True)
def _subtract(tile: Array, flat: Array, place: int) -> None:
    for m in range(HIGH * WIDE):
        flat[place + m] -= tile[m]


@njit(cache=True, nogil=True)
def solve_in_place(L: Array, x: Array) -> None:
    panels = L.shape[0]
    for i in range(panels):
        first = i * WIDE
        part = x[first : first + WIDE]
        _subtract_columns(L[i], x[:first], part)
        for c in range(WIDE):
            part[c] /= L[i, first + c, c]
            for row in range(c + 1, WIDE):
                part[row] -= L[i, first + c, row] * part[c]
    for i in range(panels - 1, -1, -1):
        first = i * WIDE
        part = x[first : first + WIDE]
        for c in range(WIDE - 1, -1, -1):
            for row in range(c + 1, WIDE):
                part[c] -= L[i, first + c, row] * part[row]
            part[c] /= L[i, first + c, c]
        _subtract_rows(L[i], part, x[:first])


@njit(cache=True, nogil=True, fastmath={"contract"})
def _subtract_columns(panel: Array, x: Array, out: Array) -> None:
    for j in range(x.size):
        share, column = x[j], panel[j]
        for row in range(WIDE):
            out[row] -= share * column[row]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _subtract_rows(panel: Array, part: Array, out: Array) -> None:
    for j in range(out.size):
        column, total = panel[j], 0.0
        for row in range(WIDE):
            total += column[row] * part[row]
        out[j] -= total
