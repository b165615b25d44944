"""Samples of a binary problem's rows: one of every so many, copied, so that they are read one after the other.

Read at their own places, each a cache line or more from the last, they took five times as long. Where in its stretch of
rows each is, a hash decides: rows that are sorted or periodic do no harm.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .problem import BinaryProblem
from .rows import Floats, Rows, read_only

__all__ = ["RowSample", "row_numbers", "row_of", "take_sample"]

Array = NDArray[Any]


class RowSample(NamedTuple):
    stride: int
    """1: all rows, as they are."""
    data: Rows
    signs: Floats
    costs: Floats


def take_sample(problem: BinaryProblem, stride: int, seed: int) -> RowSample:
    if stride == 1:
        return RowSample(1, problem.data, problem.signs, problem.costs)
    rows = row_numbers(problem.data.n_rows, stride, seed)
    return RowSample(stride, problem.data.taken(rows), read_only(problem.signs[rows]), read_only(problem.costs[rows]))


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
