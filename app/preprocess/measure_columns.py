"""Computes the statistics of the numeric columns of training rows in blocks, without copying a mapped table."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit

from app.preprocess.column_figures import TINY, Figures, rows_at_once
from app.preprocess.features import is_sparse
from app.tabular.frame import blocks_of
from app.tabular.types import Array, Floats
from solvers.linalg import kernel_cache

ENTRIES_AT_ONCE = 1 << 20
"""Entries per call of the kernel. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""


def warm() -> None:
    """Load or compile the kernels, and repair their cache if it is damaged."""
    kernel_cache.warm(kernel_cache.kernels_of(sys.modules[__name__]), _use_every_kernel)


def _use_every_kernel() -> None:
    for rows in (np.array([[1e308], [1e308], [np.nan]]), np.array([[1.0], [np.nan]], dtype=np.float32)):
        measure(rows, np.arange(1))


def measure(X: Any, columns: Array) -> Figures:
    """Return the statistics of the chosen columns of a dense table or a CSR matrix."""
    return _measure_sparse(X, columns) if is_sparse(X) else _measure_dense(X, columns)


def _measure_dense(X: Array, columns: Array) -> Figures:
    n_rows, width = X.shape[0], len(columns)
    missing, first = np.zeros(width, dtype=np.int64), np.full(width, -1, dtype=np.int64)
    low, high, sums = np.full(width, np.inf), np.full(width, -np.inf), np.zeros(width)
    for start, block in _blocks(X, columns):
        part = _look_at(block, low, high)
        sums += _without_missing(block, start, missing, first) if np.isnan(part).any() else part
    low, high = (np.where(missing == n_rows, 0.0, bound) for bound in (low, high))
    present, unit = np.maximum(n_rows - missing, 1), _unit(low, high)
    if np.isfinite(sums).all():
        sums /= unit
    else:  # the sum overflows, so add the numbers up in units that keep them small
        sums = np.zeros(width)
        for _, block in _blocks(X, columns):
            sums += _add_up(block, unit)
    mean = sums / present
    square = np.zeros(width)
    for _, block in _blocks(X, columns):
        square += _add_squares(block, unit, mean) / present
    return _figures(missing, first, low, high, mean, square, unit)


def _measure_sparse(X: Any, columns: Array) -> Figures:
    n_rows, width = X.shape
    stored = np.zeros(width)
    low, high = np.zeros(width), np.zeros(width)
    for j, x in _entries(X):
        stored += np.bincount(j, minlength=width)
        np.minimum.at(low, j, x)
        np.maximum.at(high, j, x)
    unit = _unit(low, high)
    mean, square = np.zeros(width), np.zeros(width)
    for j, x in _entries(X):
        mean += np.bincount(j, weights=x / unit[j], minlength=width) / n_rows
    for j, x in _entries(X):
        square += np.bincount(j, weights=(x / unit[j] - mean[j]) ** 2, minlength=width) / n_rows
    square += (n_rows - stored) / n_rows * mean**2
    none = np.zeros(width, dtype=np.int64)
    whole = _figures(none, none - 1, low, high, mean, square, unit)
    return Figures(*(getattr(whole, name)[columns] for name in Figures.__dataclass_fields__))


def _figures(
    missing: Array, first: Array, low: Floats, high: Floats, mean: Floats, square: Floats, unit: Floats
) -> Figures:
    std = np.sqrt(square)
    std = np.where((low == high) | (std <= 1e-14 * np.abs(mean)) | (std * unit < TINY), 0.0, std * unit)
    return Figures(missing, first, low, high, np.clip(mean * unit, low, high), std)


def _unit(low: Floats, high: Floats) -> Floats:
    """Return a power of two near the largest absolute value of each column. Dividing by it is exact, and squares of the
    quotients do not overflow."""
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1] - 1), 1.0)


def _blocks(X: Array, columns: Array) -> Iterator[tuple[int, Array]]:
    """Yield blocks of the chosen columns, in the precision in which the rows are stored."""
    whole = len(columns) == X.shape[1]
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    for start, block in blocks_of(X, rows_at_once(len(columns))):
        numbers = np.ascontiguousarray(block if whole else block[:, columns], dtype=dtype)[:]
        # mapped tables are read-only, and numba compiles another version for read-only arrays
        numbers.flags.writeable = False
        yield start, numbers


def _entries(X: Any) -> Iterator[tuple[Array, Floats]]:
    for start in range(0, X.nnz, ENTRIES_AT_ONCE):
        part = slice(start, start + ENTRIES_AT_ONCE)
        yield X.indices[part], np.asarray(X.data[part], dtype=np.float64)


# The numbers of a column are summed in double precision, from the first row to the last. The compiler can process many
# columns at once (SIMD), because each inner loop runs along a row, writes one array and does not check for a division
# by zero.


@njit(cache=True, nogil=True)
def _look_at(block: Array, low: Floats, high: Floats) -> Floats:
    """Extend the ranges by a block of rows. Returns the column sums of the block, NaN for columns with a missing
    value."""
    n_rows, width = block.shape
    sums = np.zeros(width)
    for i in range(n_rows):
        for j in range(width):
            x = block[i, j]
            low[j] = x if x < low[j] else low[j]
    for i in range(n_rows):
        for j in range(width):
            x = block[i, j]
            high[j] = x if x > high[j] else high[j]
    for i in range(n_rows):
        for j in range(width):
            sums[j] += block[i, j]
    return sums


@njit(cache=True, nogil=True)
def _without_missing(block: Array, start: int, missing: Array, first: Array) -> Floats:
    """Return the sum of each column without its missing values. Updates the count of missing values and the first row
    with one."""
    sums = np.zeros(block.shape[1])
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            x = block[i, j]
            if np.isnan(x):
                if missing[j] == 0:
                    first[j] = start + i
                missing[j] += 1
            else:
                sums[j] += x
    return sums


@njit(cache=True, nogil=True, error_model="numpy")
def _add_up(block: Array, unit: Floats) -> Floats:
    sums = np.zeros(block.shape[1])
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            x = block[i, j] / unit[j]
            sums[j] += 0.0 if np.isnan(x) else x
    return sums


@njit(cache=True, nogil=True, error_model="numpy")
def _add_squares(block: Array, unit: Floats, mean: Floats) -> Floats:
    sums = np.zeros(block.shape[1])
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            x = block[i, j] / unit[j] - mean[j]
            sums[j] += 0.0 if np.isnan(x) else x * x
    return sums
