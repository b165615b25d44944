"""Kernels that compute a weighted Gram matrix of rows from their stored entries."""

import numpy as np
from numba import njit

from solvers.linalg.tiles import HIGH, WIDE, multiply_tile, panels_of
from solvers.linalg.types import Array, Floats

__all__ = ["add_gram_csr", "add_gram_rows", "gram_room"]


GRAM_ROWS = 120
"""Number of rows that are copied together for one block of a Gram matrix. At 120 rows, two panels fill most of the
first-level cache. Larger: fewer blocks, more cache misses. Set by hand; no measurement is recorded."""


def gram_room(k: int, *, is_gathered: bool = True) -> tuple[Floats, Floats]:
    """Return the work space into which `add_gram_rows` copies rows, for a matrix of order k."""
    shape = panels_of(k), GRAM_ROWS if is_gathered else 0, WIDE
    return np.zeros(shape), np.zeros(shape)


@njit(cache=True, nogil=True)
def add_gram_csr(values: Array, columns: Array, starts: Array, v: Array, constant: float, out: Array) -> None:
    for i in range(starts.size - 1):
        if v[i] != 0.0:
            _add_pairs(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), v[i], constant, out)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_pairs(
    values: Array, columns: Array, first: np.uint64, past: np.uint64, weight: float, constant: float, out: Array
) -> None:
    """Add the product of each pair of a row's entries. Ascending columns, the usual case, need no comparison per pair.

    Indices are unsigned and no slices are made, because slices and tests for negative indices took two thirds of the
    time.
    """
    d = np.uint64(out.shape[0] - 1)
    out[d, d] += weight * constant * constant
    rises = True
    for e in range(first + np.uint64(1), past):
        rises &= columns[e] > columns[e - np.uint64(1)]
    for e in range(first, past):
        scaled, j = weight * values[e], np.uint64(columns[e])
        out[j, d] += scaled * constant
        if rises:
            for other in range(e, past):
                out[j, np.uint64(columns[other])] += scaled * values[other]
        else:
            for other in range(e, past):
                k = np.uint64(columns[other])
                out[min(j, k), max(j, k)] += scaled * values[other]


@njit(cache=True, nogil=True)
def add_gram_rows(
    values: Array, columns: Array, starts: Array, rows: Array, v: Array, constant: float, plain: Array, weighted: Array,
    out: Array,
) -> None:  # fmt: skip
    """Add the Gram matrix of these rows, each with its weight v, for dense and for sparse data.

    Rows are copied into `plain` and `weighted`, which are panels (tiles.py) of GRAM_ROWS rows. For very sparse rows
    both are empty: each pair of entries is then added on its own.
    """
    room = plain.shape[1]
    for first in range(0, rows.size if room > 0 else 0, max(1, room)):
        past = min(first + room, rows.size)
        if starts.size == 0:
            _gather_dense(values, rows[first:past], v[first:past], constant, out.shape[0] - 1, plain, weighted)
        else:
            sparse = values, columns, starts
            _gather_sparse(*sparse, rows[first:past], v[first:past], constant, out.shape[0] - 1, plain, weighted)
        _add_tiles(weighted, plain, past - first, out)
    if room > 0:
        return
    for m in range(rows.size):
        begin, end = np.uint64(starts[rows[m]]), np.uint64(starts[rows[m] + 1])
        _add_pairs(values, columns, begin, end, v[m], constant, out)


@njit(cache=True, nogil=True)
def _gather_dense(
    values: Array, rows: Array, v: Array, constant: float, d: int, plain: Array, weighted: Array
) -> None:  # fmt: skip
    """Copy the rows, each followed by the constant, into `plain`; copy them multiplied by v into `weighted`."""
    last, rest = d // WIDE, d % WIDE
    for r in range(rows.size):
        first, weight = rows[r] * d, v[r]
        for panel in range(last):
            for c in range(WIDE):
                x = values[first + panel * WIDE + c]
                plain[panel, r, c] = x
                weighted[panel, r, c] = weight * x
        for c in range(rest):
            plain[last, r, c] = values[first + last * WIDE + c]
            weighted[last, r, c] = weight * plain[last, r, c]
        plain[last, r, rest] = constant
        weighted[last, r, rest] = weight * constant


@njit(cache=True, nogil=True)
def _gather_sparse(
    values: Array, columns: Array, starts: Array, rows: Array, v: Array, constant: float, d: int, plain: Array,
    weighted: Array,
) -> None:  # fmt: skip
    plain[:, : rows.size] = 0.0
    wide = np.uint64(WIDE)  # unsigned, because numba tests signed indices for negative values
    for r in range(rows.size):
        for e in range(np.uint64(starts[rows[r]]), np.uint64(starts[rows[r] + 1])):
            column = np.uint64(columns[e])
            plain[column // wide, r, column % wide] = values[e]
        plain[d // WIDE, r, d % WIDE] = constant
    for panel in range(plain.shape[0]):
        for r in range(rows.size):
            for c in range(WIDE):
                weighted[panel, r, c] = v[r] * plain[panel, r, c]


@njit(cache=True, nogil=True)
def _add_tiles(left: Array, right: Array, filled: int, out: Array) -> None:
    """Add the upper triangle of left' right, summed over the copied rows, to out."""
    k, a_panel = out.shape[0], left.shape[1] * WIDE
    all_left, all_right, tile = left.reshape(-1), right.reshape(-1), np.empty(HIGH * WIDE)
    for b in range(right.shape[0]):
        for a in range(0, min((b + 1) * WIDE, k), HIGH):
            multiply_tile(all_left, a // WIDE * a_panel + a % WIDE, all_right, b * a_panel, filled, tile)
            is_whole = (b + 1) * WIDE <= k
            for m in range(min(HIGH, k - a)):
                row = out[a + m]
                if is_whole:  # WIDE is known to the compiler, which then unrolls the loop
                    for c in range(WIDE):
                        row[b * WIDE + c] += tile[m * WIDE + c]
                else:
                    for c in range(k - b * WIDE):
                        row[b * WIDE + c] += tile[m * WIDE + c]
