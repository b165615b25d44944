"""Dense rows most of whose numbers are zero, copied without the zeros: they then train as fast as sparse rows.

A run may hold three tenths of the data's bytes beside it, and a copy is made where it keeps to that. By speed the bound
would be about the same: an entry with its column takes five times as long as a number of a dense row that is in the
cache, and larger data, which memory rules, gains a factor of three at that density and more below it.
"""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["compressed", "compressed_bytes", "is_compressible"]


MOST_SHARE = 0.3
"""Of the bytes of the rows, for the copy."""
COLUMN_BYTES, START_BYTES = 4, 8
SAMPLED = 4096
"""Numbers that are looked at first; of rows that are not sparse that is all."""
SAMPLE_ERROR = 0.03
"""Of the part of them that is not zero: four deviations."""


def compressed_bytes(n_rows: int, nonzeros: int, value_bytes: int) -> int:
    """Of a copy without zeros."""
    return nonzeros * (value_bytes + COLUMN_BYTES) + START_BYTES * (n_rows + 1)


def is_compressible(n_rows: int, n_features: int, nonzeros: int, value_bytes: int) -> bool:
    """Whether training copies such dense rows without their zeros."""
    return nonzeros <= _most_nonzeros(n_rows, n_features, value_bytes)


def compressed(table: Array) -> tuple[Array, Array, Array] | None:
    """(values, columns, starts) of a table's numbers that are not zero; None if these are too many.

    One read. What is not finite is not zero. Room is reserved for as many numbers as there may be, and what is not
    written to is no memory.
    """
    n_rows, n_features = table.shape
    most = _most_nonzeros(n_rows, n_features, table.itemsize)
    if most < 0 or n_features > np.iinfo(np.uint32).max or _sampled_density(table) > most / table.size + SAMPLE_ERROR:
        return None
    # A number is written before it is known whether it stays, so there is room for one row more.
    values, columns = np.empty(most + n_features, table.dtype), np.empty(most + n_features, np.uint32)
    starts = np.zeros(n_rows + 1, np.int64)
    if not _copy_nonzeros(table, most, values, columns, starts):
        return None
    for array in (values, columns):
        array.resize(int(starts[-1]), refcheck=False)
    return values, columns, starts


def _most_nonzeros(n_rows: int, n_features: int, value_bytes: int) -> int:
    room = MOST_SHARE * n_rows * n_features * value_bytes - compressed_bytes(n_rows, 0, value_bytes)
    return int(room // (value_bytes + COLUMN_BYTES))


def _sampled_density(table: Array) -> float:
    """Of every so many-th number; the step is odd, so that no column of a table is left out."""
    some = table.reshape(-1)[:: (table.size // SAMPLED) | 1]
    return float(np.count_nonzero(some)) / some.size


@njit(cache=True, nogil=True)
def _copy_nonzeros(table: Array, most: int, values: Array, columns: Array, starts: Array) -> bool:
    """False if there are more than `most`. No branch for each number: where the zeros are is hard to foretell."""
    filled = 0
    for i in range(table.shape[0]):
        row = table[i]
        for j in range(row.size):
            values[filled], columns[filled] = row[j], j
            filled += row[j] != 0.0
        if filled > most:
            return False
        starts[i + 1] = filled
    return True
