"""Copies dense rows that are mostly zeros into sparse ones, which train faster.

A run may use additional memory of 0.3 times the size of the data; the copy is made if it fits into that. Speed suggests
about the same limit. A sparse entry takes five times as long as a dense number in the cache. Larger data is limited by
memory bandwidth, and gains a factor of three at that density and more below it.
"""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["compressed", "compressed_bytes", "is_compressible"]


MOST_SHARE = 0.3
"""Maximum size of the copy, as a fraction of the size of the rows. Larger: more data is compressed, with less gain and
more memory. Chosen (see above)."""
COLUMN_BYTES, START_BYTES = 4, 8
"""Bytes of a column number and of a row's start in the copy."""
SAMPLED = 4096
"""Numbers that are sampled to recognise dense data before a pass. Larger: a better estimate, more time. Chosen."""
SAMPLE_ERROR = 0.03
"""Tolerance of the sampled density: four standard deviations of a sample of SAMPLED numbers. Larger: more attempts that
fail after a pass."""


def compressed_bytes(n_rows: int, nonzeros: int, value_bytes: int) -> int:
    """Return the size in bytes of a copy without zeros."""
    return nonzeros * (value_bytes + COLUMN_BYTES) + START_BYTES * (n_rows + 1)


def is_compressible(n_rows: int, n_features: int, nonzeros: int, value_bytes: int) -> bool:
    """Return whether training makes a sparse copy of such dense rows."""
    return nonzeros <= _most_nonzeros(n_rows, n_features, value_bytes)


def compressed(table: Array) -> tuple[Array, Array, Array] | None:
    """Return (values, columns, starts) of the non-zeros of a table, in one pass; None if there are too many.

    NaN and infinity count as non-zero. Memory is reserved for the largest allowed number of entries; pages that are
    never written take no RAM.
    """
    n_rows, n_features = table.shape
    most = _most_nonzeros(n_rows, n_features, table.itemsize)
    if most < 0 or n_features > np.iinfo(np.uint32).max or _sampled_density(table) > most / table.size + SAMPLE_ERROR:
        return None
    # A number is written before it is known to be non-zero, so there is space for one more row.
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
    """Estimate the density from a sample. The sampling step is odd, so that every column is sampled."""
    some = table.reshape(-1)[:: (table.size // SAMPLED) | 1]
    return float(np.count_nonzero(some)) / some.size


@njit(cache=True, nogil=True)
def _copy_nonzeros(table: Array, most: int, values: Array, columns: Array, starts: Array) -> bool:
    """Copy the non-zeros, without unpredictable branches; return False if there are more than `most`."""
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
