"""Kernels that look for what is wrong with rows before anything is computed with them."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["BAD_COLUMN", "BAD_STARTS", "DUPLICATE_COLUMN", "first_nonfinite_entry", "inspect_csr"]

Array = NDArray[Any]

SOUND, BAD_STARTS, BAD_COLUMN, DUPLICATE_COLUMN = 0, 1, 2, 3
_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def inspect_csr(columns: Array, starts: Array, last_seen: Array) -> tuple[int, int]:
    """(fault, row) of the worst fault: bad row pointers, bad column, then the same column twice in a row."""
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
    """Block by block, because a loop that may leave at any entry is not vectorised."""
    for first in range(0, values.size, 4096):
        block = values[first : first + 4096]
        if _sum_of_zeros(block) != 0.0:
            for k in range(block.size):
                if not np.isfinite(block[k]):
                    return first + k
    return -1


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_of_zeros(values: Array) -> float:
    """0, or NaN if any of the values is NaN or infinite."""
    total = 0.0
    for k in range(values.size):
        total += values[k] * 0.0
    return total
