"""One row of X: its product with a vector, and its sum with one. The innermost kernels of methods that go row by row.

Sparse rows are not cut out, and their places are unsigned: making a view of each row, and asking of each place whether
it counts from the end, took up to half of the time. Two sums that take turns wait less for each other. A kernel that
branched between dense and sparse rows would not be inlined, which costs more than a short row.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["FlatRows", "add_dense", "add_sparse", "dot_dense", "dot_sparse"]


class FlatRows(NamedTuple):
    """All rows of X for kernels that take both kinds. Dense rows have no columns and no starts."""

    values: Array
    """The stored entries, row by row."""
    columns: Array
    """The column of each entry."""
    starts: Array
    """Where each row begins among the entries, and where the last one ends."""


_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_IN_ORDER = {"contract"}  # gathered weights: reordered for vectors the sum takes more than twice as long


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
    """w may be longer: it may have the bias's weight at its end."""
    total = 0.0
    for j in range(row.size):
        total += row[j] * w[j]
    return total


@njit(cache=True, nogil=True, fastmath=_IN_ORDER)
def add_dense(row: Array, weight: float, out: Array) -> None:
    for j in range(row.size):
        out[j] += weight * row[j]
