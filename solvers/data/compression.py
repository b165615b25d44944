"""Copies dense rows that are mostly zeros into sparse ones, which train faster.

The copy is made if its size is at most 0.3 times the size of the data. About the same limit follows from speed. Reading
a sparse entry takes five times as long as reading a dense number from the cache. For data larger than the cache, memory
bandwidth is the limit: with a copy of 0.3 times the size, a pass is three times as fast.
"""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["compressed", "compressed_bytes", "is_compressible"]


MOST_SHARE = 0.3
"""Maximum size of the copy, as a fraction of the size of the rows. Larger: more data is compressed, with less gain and
more memory. The module's docstring gives the reasons for the value."""
COLUMN_BYTES, START_BYTES = 4, 8
"""Bytes of a column number and of the index at which a row starts, in the copy."""
SAMPLED = 4096
"""Numbers of the table that are sampled to estimate its density before a pass. Larger: a better estimate, more time.
Set by hand; no measurement is recorded."""
SAMPLE_ERROR = 0.03
"""Amount by which the sampled density can exceed the limit before the copy is ruled out: four standard deviations of a
sample of SAMPLED numbers. Larger: more copies that are given up after a pass."""


def compressed_bytes(n_rows: int, nonzeros: int, value_bytes: int) -> int:
    """Return the size in bytes of a copy without zeros."""
    return nonzeros * (value_bytes + COLUMN_BYTES) + START_BYTES * (n_rows + 1)


def is_compressible(n_rows: int, n_features: int, nonzeros: int, value_bytes: int) -> bool:
    """Return whether training makes a sparse copy of dense rows of this shape and density."""
    return nonzeros <= _most_nonzeros(n_rows, n_features, value_bytes)


def compressed(table: Array) -> tuple[Array, Array, Array] | None:
    """Return (values, columns, starts) of the non-zeros of a table, in one pass; None if the copy would exceed
    MOST_SHARE.

    NaN and infinity count as non-zero. Memory is reserved for the largest allowed number of entries; pages that are
    never written take no RAM.
    """
    n_rows, n_features = table.shape
    most = _most_nonzeros(n_rows, n_features, table.itemsize)
    if most < 0 or n_features > np.iinfo(np.uint32).max or _sampled_density(table) > most / table.size + SAMPLE_ERROR:
        return None
    # Each number is written before it is compared with 0, so the arrays have space for one more row.
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
