"""What the training rows say about each numeric column, read in blocks: a mapped table is never copied."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.preprocess.features import is_sparse

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

BLOCK_CELLS = 1 << 20
TINY = 1e-150
"""A spread below it is none: to divide by it could overflow the weights."""


@dataclass(frozen=True)
class Figures:
    """One entry a column, of the values that are present (0 if none is). What CSR rows do not store is a zero."""

    missing: npt.NDArray[np.int64]
    first_missing: npt.NDArray[np.int64]
    """The first row without a value; -1: none."""
    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    """Of the population; 0 for columns that are constant up to rounding."""

    @property
    def largest(self) -> Floats:
        """The largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def measure(X: Any, columns: Array) -> Figures:
    """The figures of the chosen columns of a dense table or a CSR matrix."""
    return _measure_sparse(X, columns) if is_sparse(X) else _measure_dense(X, columns)


def _measure_dense(X: Array, columns: Array) -> Figures:
    n_rows, width = X.shape[0], len(columns)
    missing, first = np.zeros(width, dtype=np.int64), np.full(width, -1, dtype=np.int64)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for start, block in _blocks(X, columns):
        absent = np.isnan(block)
        if absent.any():
            first = np.where((first < 0) & absent.any(axis=0), start + absent.argmax(axis=0), first)
            missing += absent.sum(axis=0)
            low = np.fmin(low, np.fmin.reduce(block, axis=0))
            high = np.fmax(high, np.fmax.reduce(block, axis=0))
        else:
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    low, high = (np.where(missing == n_rows, 0.0, bound) for bound in (low, high))
    present = np.maximum(n_rows - missing, 1)
    unit = _unit(low, high)
    mean, square = np.zeros(width), np.zeros(width)
    for _, block in _blocks(X, columns):
        mean += np.nansum(block / unit, axis=0) / present
    for _, block in _blocks(X, columns):
        square += np.nansum((block / unit - mean) ** 2, axis=0) / present
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
    """A power of two near the largest value: dividing by it is exact, and no square of the quotient overflows."""
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1] - 1), 1.0)


def _blocks(X: Array, columns: Array) -> Iterator[tuple[int, Floats]]:
    rows = max(1, BLOCK_CELLS // max(1, len(columns)))
    whole = len(columns) == X.shape[1]
    for start in range(0, X.shape[0], rows):
        block = X[start : start + rows]
        yield start, np.asarray(block if whole else block[:, columns], dtype=np.float64)


def _entries(X: Any) -> Iterator[tuple[Array, Floats]]:
    for start in range(0, X.nnz, BLOCK_CELLS):
        part = slice(start, start + BLOCK_CELLS)
        yield X.indices[part], np.asarray(X.data[part], dtype=np.float64)
