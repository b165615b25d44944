"""Samples of a problem's rows: one of every `stride` rows, copied to adjacent memory.

Reading the sampled rows in place, a cache line or more apart, took five times as long. In each group of `stride`
consecutive rows a hash chooses the row, so that the sample of sorted or periodic data is not biased.
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
"""Least number of rows in the first sample of Newton's method, in total and per feature. Larger: fewer and larger
samples. With 8 rows per feature, the minimum on the sample was not a good start for all rows."""
GROWTH = 8  # factor by which the rows grow from one sample to the next; smaller: more samples, each a better start
LEAST_STRIDE = 4  # a sample is copied, so it has at most a quarter of the rows
LONG_ROW, LONG_ROWS_A_FEATURE = 50, 8
"""For sparse rows with at least LONG_ROW entries on average, the first sample has at least LONG_ROWS_A_FEATURE rows per
feature. Summing the matrix of all such rows costs as much as many passes, so a rough start from a smaller sample saves
time (mnist, hinge, C = 1, 1e-3: 2.3 s from all rows, 1.3 s from one in eight)."""
LEAST_PAIRS = 0.5  # least pairs of entries in all rows, per k^3; with fewer, factoring takes most of the time


class RowSample(NamedTuple):
    stride: int
    """The sample has one row in `stride`. 1 means all rows, without a copy."""
    data: Rows
    labels: Floats
    costs: Floats


def take_sample(data: Rows, labels: Floats, costs: Floats, stride: int, seed: int) -> RowSample:
    if stride == 1:
        return RowSample(1, data, labels, costs)
    rows = row_numbers(data.n_rows, stride, seed)
    return RowSample(stride, data.taken(rows), read_only(labels[rows]), read_only(costs[rows]))


def first_stride(data: Rows, *, has_top: bool) -> int:
    """Return the stride of the first sample of Newton's method. `has_top` is true if the loss has two kinks, and only
    rows between them have a second derivative > 0."""
    n, k, row_entries = data.n_rows, data.n_features + 1, max(1.0, data.stored_entries / data.n_rows)
    rows = FIRST_ROWS_A_FEATURE * k
    if data.sparse and row_entries >= LONG_ROW and n * row_entries**2 >= LEAST_PAIRS * k**3:
        rows = LONG_ROWS_A_FEATURE * k
    elif has_top:
        # Few rows lie between the kinks. If most of their entries are zero, they determine no column well
        # (w8a, C = 1, 1e-2: 69 steps from a sample of one row in five, 22 from all rows).
        rows = int(rows * math.sqrt(k / (1.0 + row_entries)))
    stride = n // max(FIRST_ROWS, rows)
    return stride if stride >= LEAST_STRIDE else 1


def next_stride(stride: int) -> int:
    return 1 if stride < LEAST_STRIDE * GROWTH else stride // GROWTH


def row_numbers(n_rows: int, stride: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the row numbers of a sample with this stride, in ascending order."""
    rows = np.empty(max(1, n_rows // stride), dtype=np.int64)
    _list_rows(min(stride, n_rows), seed, rows)
    return rows


@njit(cache=True, nogil=True, inline="always")
def row_of(m: int, stride: int, seed: int) -> int:
    """Return the row number of the m-th row of a sample."""
    if stride == 1:
        return m
    mixed = (m + seed) * 0x9E3779B1 & 0xFFFFFFFF
    return m * stride + (mixed ^ mixed >> 15) % stride


@njit(cache=True, nogil=True)
def _list_rows(stride: int, seed: int, out: Array) -> None:
    for m in range(out.size):
        out[m] = row_of(m, stride, seed)
