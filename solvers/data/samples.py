"""Samples of a problem's rows: one of every so many, copied, so that they are read one after the other.

Read at their own places, each a cache line or more from the last, they took five times as long. Where in its stretch of
rows each is, a hash decides: rows that are sorted or periodic do no harm.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.data.rows import Rows, read_only
from solvers.linalg.types import Array, Floats

__all__ = ["RowSample", "first_stride", "next_stride", "row_numbers", "row_of", "take_sample"]


FIRST_ROWS, FIRST_ROWS_A_FEATURE = 1000, 32
"""Of the first sample: with 8 a feature its minimum was of no use for more rows."""
GROWTH = 8  # of the sample: its steps cost little beside those on the next
LEAST_STRIDE = 4  # a sample is copied: no more than a quarter of the rows
LONG_ROW, LONG_ROWS_A_FEATURE = 50, 8
"""Entries of sparse rows from which on the matrix of all rows takes as long as many reads, and a rough start spares
more of it than it costs (mnist, hinge, C = 1, 1e-3: 2.3 s from all rows, 1.3 s from one in eight)."""
LEAST_PAIRS = 0.5  # of k^3: with fewer in all rows factoring takes longer than the matrix, on a sample, too


class RowSample(NamedTuple):
    stride: int
    """1: all rows, as they are."""
    data: Rows
    labels: Floats
    costs: Floats


def take_sample(data: Rows, labels: Floats, costs: Floats, stride: int, seed: int) -> RowSample:
    if stride == 1:
        return RowSample(1, data, labels, costs)
    rows = row_numbers(data.n_rows, stride, seed)
    return RowSample(stride, data.taken(rows), read_only(labels[rows]), read_only(costs[rows]))


def first_stride(data: Rows, *, has_top: bool) -> int:
    """Of the sample that Newton's method begins with; `has_top`: only the rows between two kinks count for it."""
    n, k, row_entries = data.n_rows, data.n_features + 1, max(1.0, data.stored_entries / data.n_rows)
    rows = FIRST_ROWS_A_FEATURE * k
    if data.sparse and row_entries >= LONG_ROW and n * row_entries**2 >= LEAST_PAIRS * k**3:
        rows = LONG_ROWS_A_FEATURE * k
    elif has_top:
        # Between the kinks are few rows, and where most of their entries are zero they say little of any column
        # (w8a, C = 1, 1e-2: 69 steps from a sample of one row in five, 22 from all).
        rows = int(rows * math.sqrt(k / (1.0 + row_entries)))
    stride = n // max(FIRST_ROWS, rows)
    return stride if stride >= LEAST_STRIDE else 1


def next_stride(stride: int) -> int:
    return 1 if stride < LEAST_STRIDE * GROWTH else stride // GROWTH


def row_numbers(n_rows: int, stride: int, seed: int = 0) -> NDArray[np.int64]:
    """Those of a sample, in order: one of every so many, and all if there are no more."""
    rows = np.empty(max(1, n_rows // stride), dtype=np.int64)
    _list_rows(min(stride, n_rows), seed, rows)
    return rows


@njit(cache=True, nogil=True, inline="always")
def row_of(m: int, stride: int, seed: int) -> int:
    """The m-th row of a sample."""
    if stride == 1:
        return m
    mixed = (m + seed) * 0x9E3779B1 & 0xFFFFFFFF
    return m * stride + (mixed ^ mixed >> 15) % stride


@njit(cache=True, nogil=True)
def _list_rows(stride: int, seed: int, out: Array) -> None:
    for m in range(out.size):
        out[m] = row_of(m, stride, seed)
