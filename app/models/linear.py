"""Scores of linear models, summed in the same order on every machine.

The score of a row is the sum of its contributions x_j w_j from the first to the last, then the intercept. No other
order, pairwise summation or fused operation is used. So a row has the same score to the last bit, alone or among
others, dense or sparse (a zero changes no sum), and its contributions add up exactly to its score.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from app.tabular.types import Array

Matrix = Any  # a dense array (rows x features), or a CSR array whose indices ascend within each row
DenseSums = Callable[[Array, Array], Array]
"""Sums the products of dense rows and weights in the order above; -0 can become 0."""

BLOCK_PRODUCTS = 1 << 16
"""Number of products in memory at a time: 512 KiB. Larger: fewer calls, but the products no longer fit the processor's
cache. Set by hand; no measurement is recorded."""


def is_sparse(matrix: Matrix) -> bool:
    return sp.issparse(matrix)


def scores(
    matrix: Matrix,
    coef: Array,
    intercept: float | Array,
    column_of: Array | None = None,
    dense_sums: DenseSums | None = None,
) -> Array:
    """Return one score per row; multiclass: one per row and class. For `column_of` see `contributions`.

    `dense_sums`: a compiled version, which needs a quarter of the time for many rows.
    """
    dense_sums = dense_sums or _dense_sums
    if coef.ndim == 1:
        return _sums(matrix, coef, column_of, dense_sums) + intercept + 0.0  # adding 0 turns -0 into 0
    n_rows, n_classes = matrix.shape[0], len(coef)
    sums = np.empty((n_rows, n_classes))
    if n_rows >= n_classes or column_of is not None:
        for k in range(n_classes):
            sums[:, k] = _sums(matrix, coef[k], column_of, dense_sums)
    else:
        for number in range(n_rows):
            indices, values = entries(matrix, number)
            for first, past in _blocks(n_classes, len(values)):
                weights = coef[first:past, indices] if is_sparse(matrix) else coef[first:past]
                sums[number, first:past] = row_sums(values * weights)
    return sums + intercept + 0.0


def contributions(matrix: Matrix, weights: Array, column_of: Array | None = None) -> Matrix:
    """Return the contribution of each feature to the score of each row, dense or sparse like the rows.

    `column_of`: column of the uploaded table that each feature comes from (ascending). With it, contributions are those
    of the columns, and a score is the sum over them.
    """
    if not is_sparse(matrix):
        products = matrix * weights
        return products if column_of is None else _by_column(sp.csr_array(products), column_of)
    products = sp.csr_array((matrix.data * weights[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)
    return products if column_of is None else _by_column(products, column_of)


def centred(matrix: Matrix, weights: Array, means: Array, column_of: Array | None = None) -> Matrix:
    """Return the contribution of each feature (or column) relative to the mean row: weight * (value - mean).

    A CSR matrix without `column_of` gives those of the stored entries only.
    """
    if not is_sparse(matrix):
        return contributions(matrix - means, weights, column_of)
    if column_of is None:
        shifted = sp.csr_array((matrix.data - means[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)
        return contributions(shifted, weights)
    of_mean = np.bincount(column_of, weights * means, minlength=int(column_of[-1]) + 1)
    return contributions(matrix, weights, column_of) - of_mean


def row_sums(matrix: Matrix) -> Array:
    """Sum each row from its first entry to its last."""
    if is_sparse(matrix):
        return _segment_sums(matrix.data, matrix.indptr)
    return _dense_sums(matrix, np.ones(matrix.shape[1]))


def _sums(matrix: Matrix, weights: Array, column_of: Array | None, dense_sums: DenseSums) -> Array:
    if column_of is None and not is_sparse(matrix):
        return dense_sums(matrix, weights)
    return row_sums(contributions(matrix, weights, column_of))


def _dense_sums(matrix: Array, weights: Array) -> Array:
    """Sum dense rows. Products of a block are stored feature by feature, so that numpy adds them in that order."""
    if len(matrix) == 1:
        return np.add.accumulate(matrix[0] * weights)[-1:]
    sums = np.empty(len(matrix))
    for first, past in _blocks(*matrix.shape):
        if past - first == 1:  # numpy would sum a single column pairwise
            sums[first] = np.add.accumulate(matrix[first] * weights)[-1]
        else:
            products = np.multiply(matrix[first:past].T, weights[:, None], order="C")
            np.add.reduce(products, axis=0, out=sums[first:past])
    return sums


def _segment_sums(values: Array, starts: Array) -> Array:
    """Sum the segments `values[starts[i]:starts[i + 1]]`. A CSR product with ones adds each in order."""
    dtype = np.int32 if len(values) < 2**31 else np.int64
    zeros = np.zeros(len(values), dtype=dtype)
    segments = sp.csr_array((values, zeros, starts.astype(dtype)), shape=(len(starts) - 1, 1))
    sums: Array = segments @ np.ones(1)
    return sums


def _by_column(products: Matrix, column_of: Array) -> Array:
    n_rows, n_columns = products.shape[0], int(column_of[-1]) + 1
    row_of = np.repeat(np.arange(n_rows), np.diff(products.indptr))
    cell_of = row_of * n_columns + column_of[products.indices]
    starts = np.concatenate([[0], np.cumsum(np.bincount(cell_of, minlength=n_rows * n_columns))])
    return _segment_sums(products.data, starts).reshape(n_rows, n_columns)


def entries(matrix: Matrix, number: int) -> tuple[Array, Array]:
    """Return the stored indices and values of a row."""
    if not is_sparse(matrix):
        return np.arange(matrix.shape[1]), matrix[number]
    part = slice(matrix.indptr[number], matrix.indptr[number + 1])
    return matrix.indices[part], matrix.data[part]


def _blocks(count: int, width: int) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_PRODUCTS // max(1, width))
    for first in range(0, count, step):
        yield first, min(first + step, count)


def class_positions(scores: Array, thresholds: Array | None = None) -> Array:
    """Return the position of the predicted class of each row: the largest of several scores (the first of equal ones),
    the class by ascending thresholds, or the second of two classes for a score above 0."""
    positions: Array
    if scores.ndim == 2:
        positions = scores.argmax(axis=1)
    elif thresholds is not None:
        positions = np.searchsorted(thresholds, scores, side="left")
    else:
        positions = (scores > 0.0).astype(np.intp)
    return positions
