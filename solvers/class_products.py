"""Kernels of the products of the rows with one weight vector a class, each in one read of X.

With h_i = (x_i, constant), so that the last weight of a class is that of a regularised bias:

    scores       out[i, m] = h_i . W[m]
    pair sums    out[plus_i] += v_i h_i,  out[minus_i] -= v_i h_i

A dense row is multiplied with four classes at a time, and W is then read class by class. A stored entry of a sparse row
reads the weights of all classes at its column, so W comes transposed: they lie side by side.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_pair_sums_csr", "add_pair_sums_dense", "class_scores_csr", "class_scores_dense"]

Array = NDArray[Any]

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True, fastmath=_SUM)
def class_scores_dense(values: Array, W: Array, constant: float, out: Array) -> None:
    n, d = values.shape
    k = W.shape[0]
    for i in range(n):
        row = values[i]
        for m in range(0, k - 3, 4):
            w0, w1, w2, w3 = W[m], W[m + 1], W[m + 2], W[m + 3]
            s0, s1, s2, s3 = constant * w0[d], constant * w1[d], constant * w2[d], constant * w3[d]
            for j in range(d):
                x = row[j]
                s0, s1, s2, s3 = s0 + x * w0[j], s1 + x * w1[j], s2 + x * w2[j], s3 + x * w3[j]
            out[i, m], out[i, m + 1], out[i, m + 2], out[i, m + 3] = s0, s1, s2, s3
        for m in range(k // 4 * 4, k):
            w0 = W[m]
            s0 = constant * w0[d]
            for j in range(d):
                s0 += row[j] * w0[j]
            out[i, m] = s0


@njit(cache=True, nogil=True, fastmath=_SUM)
def class_scores_csr(
    values: Array, columns: Array, starts: Array, W_transposed: Array, constant: float, out: Array
) -> None:
    d, k = W_transposed.shape[0] - 1, W_transposed.shape[1]
    for i in range(starts.size - 1):
        row, row_columns = values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i + 1]]
        scores = out[i]
        for m in range(k):
            scores[m] = constant * W_transposed[d, m]
        for e in range(row.size):
            x, weights = row[e], W_transposed[row_columns[e]]
            for m in range(k):
                scores[m] += x * weights[m]


@njit(cache=True, nogil=True)
def add_pair_sums_dense(values: Array, v: Array, plus: Array, minus: Array, constant: float, out: Array) -> None:
    d = values.shape[1]
    for i in range(v.size):
        if plus[i] == minus[i] or v[i] == 0.0:
            continue
        row, multiplier = values[i], v[i]
        up, down = out[np.uint64(plus[i])], out[np.uint64(minus[i])]
        for j in range(d):
            moved = multiplier * row[j]
            up[j] += moved
            down[j] -= moved
        up[d] += multiplier * constant
        down[d] -= multiplier * constant


@njit(cache=True, nogil=True)
def add_pair_sums_csr(
    values: Array, columns: Array, starts: Array, v: Array, plus: Array, minus: Array, constant: float, out: Array
) -> None:
    d = out.shape[1] - 1
    for i in range(v.size):
        if plus[i] == minus[i] or v[i] == 0.0:
            continue
        row, row_columns = values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i + 1]]
        multiplier, up, down = v[i], out[np.uint64(plus[i])], out[np.uint64(minus[i])]
        for e in range(row.size):
            moved = multiplier * row[e]
            up[row_columns[e]] += moved
            down[row_columns[e]] -= moved
        up[d] += multiplier * constant
        down[d] -= multiplier * constant
