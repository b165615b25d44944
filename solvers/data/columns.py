"""The transposed copy of the data, for methods with column access.

Column j of diag(multipliers) X is `values[starts[j]:starts[j + 1]]` at the rows `rows[starts[j]:starts[j + 1]]`. If
`rows` is empty, every column contains all rows in order. Multiplying by signs is exact. If row numbers are stored, rows
with multiplier 0 are left out. The copy has the dtype of the data.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.rows import Rows, read_only
from solvers.linalg.types import Array, Floats

__all__ = ["Columns", "transposed"]


SPARSE_BELOW = 0.5
"""Density (fraction of non-zeros) below which the columns of a dense table are stored as non-zeros with row numbers of
4 bytes. Larger: more tables are stored that way. Set by hand; no measurement is recorded."""


class Columns(NamedTuple):
    values: Array
    rows: Array
    starts: Array


def transposed(data: Rows, multipliers: Floats, *, constant: bool) -> Columns:
    """Return the columns of diag(multipliers) X, followed by a column of ones (`constant`) or zeros, times the
    multipliers.

    Costs two passes over the data.
    """
    n, d = data.n_rows, data.n_features
    flat, multipliers = data.flat(), read_only(multipliers)
    counts = np.zeros(d + 1, dtype=np.int64)
    _count_entries(*flat, multipliers, constant, counts)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    values = np.empty(starts[-1], dtype=flat[0].dtype)
    if not data.sparse and starts[-1] >= SPARSE_BELOW * data.stored_entries:
        values = np.empty((d + constant) * n, dtype=flat[0].dtype)
        _fill_dense(flat[0], multipliers, constant, values)
        starts = np.minimum(np.arange(d + 2, dtype=np.int64), d + constant) * n
        return Columns(read_only(values), read_only(np.empty(0, np.uint32)), read_only(starts))
    rows = np.empty(values.size, dtype=np.uint32 if n <= np.iinfo(np.uint32).max else np.uint64)
    _fill_sparse(*flat, multipliers, constant, starts[:-1].copy(), values, rows)
    return Columns(read_only(values), read_only(rows), read_only(starts))


# --- kernels. m: multipliers; for dense data, columns and starts are empty --------------------------------------------

_TILE = 64  # rows that are transposed at a time, so that a column's part of a tile fills whole cache lines


@njit(cache=True, nogil=True)
def _count_entries(values: Array, columns: Array, starts: Array, m: Array, constant: bool, counts: Array) -> None:
    dense, d = starts.size == 0, counts.size - 1
    for i in range(m.size):
        if m[i] != 0.0:
            first = i * d if dense else starts[i]
            past = first + d if dense else starts[i + 1]
            for e in range(first, past):
                counts[np.uint64(e - first) if dense else columns[e]] += values[e] != 0.0
            counts[d] += constant


@njit(cache=True, nogil=True)
def _fill_sparse(
    values: Array, columns: Array, starts: Array, m: Array, constant: bool, places: Array, out: Array, out_rows: Array
) -> None:
    """Copy the entries to columns. `places` contains the start of each column before the call and the end of each
    column after it."""
    dense, d = starts.size == 0, places.size - 1
    for i in range(m.size):
        if m[i] != 0.0:
            first = i * d if dense else starts[i]
            past = first + d if dense else starts[i + 1]
            for e in range(first, past):
                if values[e] != 0.0:
                    j = np.uint64(e - first) if dense else columns[e]
                    out[places[j]] = m[i] * values[e]
                    out_rows[places[j]] = i
                    places[j] += 1
            if constant:
                out[places[d]] = m[i]
                out_rows[places[d]] = i
                places[d] += 1


@njit(cache=True, nogil=True)
def _fill_dense(values: Array, m: Array, constant: bool, out: Array) -> None:
    n = m.size
    d = values.size // n
    for tile in range(0, n, _TILE):
        for j in range(d):
            for i in range(tile, min(tile + _TILE, n)):
                out[j * n + i] = m[i] * values[i * d + j]
    if constant:
        out[d * n : (d + 1) * n] = m
