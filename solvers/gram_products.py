"""The kernels of a weighted Gram matrix of rows, from their stored entries."""

from typing import Any

from numba import njit
from numpy.typing import NDArray

__all__ = ["GRAM_ROWS", "add_gram_csr", "add_gram_dense", "add_gram_rows"]

Array = NDArray[Any]

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
GRAM_ROWS = 120  # rows gathered for one block of a Gram matrix; no power of two, which would collide in the cache
_NEAR = 24  # columns of the matrix, whose GRAM_ROWS numbers each fill most of the nearest cache


@njit(cache=True, nogil=True)
def add_gram_csr(values: Array, columns: Array, starts: Array, v: Array, constant: float, out: Array) -> None:
    for i in range(starts.size - 1):
        if v[i] != 0.0:
            _add_pairs(values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i + 1]], v[i], constant, out)


@njit(cache=True, nogil=True)
def _add_pairs(row: Array, at: Array, weight: float, constant: float, out: Array) -> None:
    """Each pair of a row's entries; if their columns rise, as they nearly always do, without comparing them again."""
    d = out.shape[0] - 1
    out[d, d] += weight * constant * constant
    rises = True
    for k in range(1, at.size):
        rises &= at[k] > at[k - 1]
    for k in range(row.size):
        scaled = weight * row[k]
        out[at[k], d] += scaled * constant
        if rises:
            _add_scaled(row[k:], at[k:], scaled, out[at[k]])
        else:
            for other in range(k, row.size):
                out[min(at[k], at[other]), max(at[k], at[other])] += scaled * row[other]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_scaled(row: Array, at: Array, scaled: float, out: Array) -> None:
    for k in range(row.size):
        out[at[k]] += scaled * row[k]


@njit(cache=True, nogil=True)
def add_gram_dense(values: Array, v: Array, constant: float, plain: Array, weighted: Array, out: Array) -> None:
    """Gathers the rows of v_i != 0 block by block, as columns, into `plain` and times v_i into `weighted`."""
    n, d = values.shape
    filled = 0
    for i in range(n):
        if v[i] != 0.0:
            for j in range(d):
                plain[j, filled] = values[i, j]
                weighted[j, filled] = v[i] * plain[j, filled]
            plain[d, filled] = constant
            weighted[d, filled] = v[i] * constant
            filled += 1
        if filled == plain.shape[1] or (i == n - 1 and filled > 0):
            _add_tiles(weighted, plain, filled, out)
            filled = 0


@njit(cache=True, nogil=True)
def add_gram_rows(
    values: Array, columns: Array, starts: Array, rows: Array, v: Array, constant: float, plain: Array, weighted: Array,
    out: Array,
) -> None:  # fmt: skip
    """The same for these rows of either kind of data, each with its v; sparse ones that are gathered must not be too
    sparse. Without room in `plain` they are not: each pair of entries is then added by itself."""
    d, is_dense = out.shape[0] - 1, starts.size == 0
    for first in range(0, rows.size if plain.shape[1] > 0 else 0, max(1, plain.shape[1])):
        filled = min(plain.shape[1], rows.size - first)
        if not is_dense:
            plain[:] = 0.0
        for r in range(filled):
            i = rows[first + r]
            if is_dense:
                row = values[i * d : i * d + d]
                for j in range(d):
                    plain[j, r] = row[j]
            else:
                for e in range(starts[i], starts[i + 1]):
                    plain[columns[e], r] = values[e]
            plain[d, r] = constant
        for j in range(d + 1):
            for r in range(filled):
                weighted[j, r] = plain[j, r] * v[first + r]
        _add_tiles(weighted, plain, filled, out)
    if plain.shape[1] > 0:
        return
    for m in range(rows.size):
        first, past = starts[rows[m]], starts[rows[m] + 1]
        _add_pairs(values[first:past], columns[first:past], v[m], constant, out)


@njit(cache=True, nogil=True)
def _add_tiles(left: Array, right: Array, filled: int, out: Array) -> None:
    """The upper triangle of left right', some columns after the others: their part of `right` stays in the cache."""
    k = out.shape[0]
    for first in range(0, k, _NEAR):
        past = min(first + _NEAR, k)
        for a in range(0, past, 3):
            for b in range(max(a, first), past, 3):
                _add_tile(left, right, filled, a, b, out)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_tile(left: Array, right: Array, filled: int, a: int, b: int, out: Array) -> None:
    """3 x 3 entries at once: nine sums and their operands fit into 16 registers. With twelve sums two were kept in
    memory, and a tile took twice as long."""
    l0, l1, l2, r0, r1, r2 = left[a], left[a + 1], left[a + 2], right[b], right[b + 1], right[b + 2]
    s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = 0.0
    for r in range(filled):
        x0, x1, x2, y0, y1, y2 = l0[r], l1[r], l2[r], r0[r], r1[r], r2[r]
        s00, s01, s02 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2
        s10, s11, s12 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2
        s20, s21, s22 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2
    tile = ((s00, s01, s02), (s10, s11, s12), (s20, s21, s22))
    for row in range(min(3, out.shape[0] - a)):
        for column in range(min(3, out.shape[1] - b)):
            out[a + row, b + column] += tile[row][column]
