"""The kernel that copies some of the rows of compressed sparse data."""

from typing import Any

from numba import njit
from numpy.typing import NDArray

__all__ = ["copy_rows_csr"]

Array = NDArray[Any]


@njit(cache=True, nogil=True)
def copy_rows_csr(
    values: Array, columns: Array, starts: Array, rows: Array, new_starts: Array, new_values: Array, new_columns: Array
) -> None:
    for m in range(rows.size):
        first, shift = starts[rows[m]], new_starts[m]
        for k in range(new_starts[m + 1] - shift):
            new_values[shift + k], new_columns[shift + k] = values[first + k], columns[first + k]
