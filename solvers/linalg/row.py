"""The innermost kernels of row-by-row methods: the scalar product of one row with a vector, and the addition of a
multiple of one row to a vector.

Sparse rows are not sliced, and their indices are unsigned: slices and numba's tests for negative indices took up to
half of the time. Sums alternate between two accumulators, which shortens the dependency chain. Dense and sparse rows
have separate kernels, because numba would not inline a kernel that branches between them, and the call costs more than
a short row.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["FlatRows", "add_dense", "add_sparse", "dot_dense", "dot_sparse"]


class FlatRows(NamedTuple):
    """All rows of X, for kernels that take both dense and sparse data. For dense X, `columns` and `starts` are
    empty."""

    values: Array
    """The stored entries, row by row."""
    columns: Array
    """The column of each stored entry."""
    starts: Array
    """Index of each row's first entry, then the total number of entries (as indptr of a CSR matrix)."""


_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_IN_ORDER = {"contract"}  # not vectorised: gathering the weights into vectors takes more than twice as long


@njit(cache=True, nogil=True, fastmath=_IN_ORDER)
def dot_sparse(values: Array, columns: Array, first: np.uint64, past: np.uint64, w: Array) -> float:
    total, other = 0.0, 0.0
    for e in range(first, past):
        total, other = other, total + values[e] * w[np.uint64(columns[e])]
    return total + other


@njit(cache=True, nogil=True, fastmath=_IN_ORDER)
def add_sparse(values: Array, columns: Array, first: np.uint64, past: np.uint64, weight: float, out: Array) -> None:
    for e in range(first, past):
        out[np.uint64(columns[e])] += weight * values[e]


@njit(cache=True, nogil=True, fastmath=_SUM)
def dot_dense(row: Array, w: Array) -> float:
    """Return row . w. w can be longer: entries beyond the row, such as the bias's weight, are ignored."""
    total = 0.0
    for j in range(row.size):
        total += row[j] * w[j]
    return total


@njit(cache=True, nogil=True, fastmath=_IN_ORDER)
def add_dense(row: Array, weight: float, out: Array) -> None:
    for j in range(row.size):
        out[j] += weight * row[j]
