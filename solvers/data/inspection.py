"""Kernels that check rows for faults before they are used."""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = [
    "BAD_COLUMN",
    "BAD_STARTS",
    "DUPLICATE_COLUMN",
    "are_columns_ordered",
    "first_nonfinite_entry",
    "inspect_csr",
    "squared_norms_csr",
    "squared_norms_dense",
]


SOUND, BAD_STARTS, BAD_COLUMN, DUPLICATE_COLUMN = 0, 1, 2, 3
"""Codes of the faults that `inspect_csr` returns."""
_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True)
def are_columns_ordered(columns: Array, starts: Array, n_features: int) -> bool:
    """Return whether the rows are valid and their columns ascend. This fast check passes for nearly all data.

    Every column number is compared with the one before it, even across rows. Descents between two rows are allowed and
    are subtracted from the count of descents.
    """
    if starts[0] != 0 or starts[starts.size - 1] != columns.size:
        return False
    among_first = 0
    for i in range(1, starts.size):
        first = starts[i - 1]
        if starts[i] < first or starts[i] > columns.size:
            return False
        if 0 < first < starts[i]:
            among_first += columns[first] <= columns[first - 1]
    not_rising, highest = _look_through(columns)
    return not_rising == among_first and (columns.size == 0 or highest < n_features)


@njit(cache=True, nogil=True)
def _look_through(columns: Array) -> tuple[int, int]:
    """Return (number of column numbers that do not exceed the one before them, largest column number)."""
    count, before, after = 0, columns[:-1], columns[1:]
    highest = columns[0] if columns.size > 0 else columns.dtype.type(0)
    for k in range(after.size):
        count += after[k] <= before[k]
        highest = max(highest, after[k])
    return count, highest


@njit(cache=True, nogil=True, fastmath=_SUM)
def squared_norms_csr(values: Array, starts: Array, out: Array) -> int:
    """Set |x_i|^2 of every row; return the length of the longest row."""
    longest = 0
    for i in range(starts.size - 1):
        longest = max(longest, starts[i + 1] - starts[i])
        total = 0.0
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            total += np.float64(values[e]) * values[e]
        out[i] = total
    return longest


@njit(cache=True, nogil=True, fastmath=_SUM)
def squared_norms_dense(values: Array, out: Array) -> None:
    for i in range(values.shape[0]):
        total = 0.0
        for j in range(values.shape[1]):
            total += np.float64(values[i, j]) * values[i, j]
        out[i] = total


@njit(cache=True, nogil=True)
def inspect_csr(columns: Array, starts: Array, last_seen: Array) -> tuple[int, int]:
    """Return (fault, row) of the worst fault: row starts out of order, a column number out of range, or a column that
    occurs twice in one row."""
    if starts[0] != 0:
        return BAD_STARTS, 0
    for i in range(starts.size - 1):
        if starts[i + 1] < starts[i] or starts[i + 1] > columns.size:
            return BAD_STARTS, i
    duplicate = -1
    for i in range(starts.size - 1):
        for k in range(starts[i], starts[i + 1]):
            column = columns[k]
            if column >= last_seen.size:
                return BAD_COLUMN, i
            if last_seen[column] == i:
                duplicate = i
            last_seen[column] = i
    if duplicate >= 0:
        return DUPLICATE_COLUMN, duplicate
    return SOUND, -1


@njit(cache=True, nogil=True)
def first_nonfinite_entry(values: Array) -> int:
    """Return the index of the first NaN or infinity, or -1. Works by blocks: a loop with an exit is not vectorised."""
    for first in range(0, values.size, 4096):
        block = values[first : first + 4096]
        if _sum_of_zeros(block) != 0.0:
            for k in range(block.size):
                if not np.isfinite(block[k]):
                    return first + k
    return -1


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_of_zeros(values: Array) -> float:
    """Return 0, or NaN if any of the values is NaN or infinite."""
    total = 0.0
    for k in range(values.size):
        total += values[k] * 0.0
    return total
