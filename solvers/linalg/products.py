"""Kernels of the data views: X w, X' v, and both products in one pass.

Indices of sparse entries are unsigned and rows are not sliced: numba's tests for negative indices, or slices, took as
long as half of the product. Sums alternate between two accumulators, which shortens the dependency chain.

The last kernels have one weight vector per class and make one pass over X. With h_i = (x_i, constant), so that the last
weight of a class is that of a regularised bias, they compute

    scores       out[i, m] = h_i . W[m]
    pair sums    out[plus_i] += v_i h_i,  out[minus_i] -= v_i h_i

A dense row is multiplied with four classes at a time, and W is stored by class. An entry of a sparse row needs the
weights of all classes at its column, so W is passed transposed: these weights are then adjacent in memory.
"""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = [
    "add_column_sums_csr",
    "add_column_sums_dense",
    "add_pair_sums_csr",
    "add_pair_sums_dense",
    "both_products_csr",
    "both_products_dense",
    "class_scores_csr",
    "class_scores_dense",
    "copy_rows_csr",
    "margins_csr",
    "margins_dense",
]


# --- kernels. w: weights, v: row multipliers, out: written by the kernel ----------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True, fastmath=_SUM)
def margins_csr(values: Array, columns: Array, starts: Array, w: Array, out: Array) -> None:
    for i in range(starts.size - 1):
        total = 0.0
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            total += values[e] * w[np.uint64(columns[e])]
        out[i] = total


@njit(cache=True, nogil=True)
def add_column_sums_csr(values: Array, columns: Array, starts: Array, v: Array, out: Array) -> None:
    for i in range(starts.size - 1):
        multiplier = v[i]
        if multiplier != 0.0:
            for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                out[np.uint64(columns[e])] += multiplier * values[e]


@njit(cache=True, nogil=True, fastmath={"contract"})
def both_products_csr(values: Array, columns: Array, starts: Array, v: Array, pairs: Array, out: Array) -> None:
    """Write X w to out and add X' v to the column sums; pairs[2 j] holds w_j and pairs[2 j + 1] the sum of column j.

    Two entries are processed together, a tenth faster than one by one (ijcnn1, w8a). Multipliers of 0 are not skipped:
    the branch is unpredictable, and with a dozen entries per row a wrong guess took longer than adding zeros.
    """
    one = np.uint64(1)
    for i in range(starts.size - 1):
        multiplier, total, other = v[i], 0.0, 0.0
        e, past = np.uint64(starts[i]), np.uint64(starts[i + 1])
        while e + one < past:
            j, k = np.uint64(columns[e]) << one, np.uint64(columns[e + one]) << one
            x, y = values[e], values[e + one]  # read before anything is written: the arrays could overlap
            total += x * pairs[j]
            other += y * pairs[k]
            pairs[j + one] += multiplier * x
            pairs[k + one] += multiplier * y
            e += np.uint64(2)
        if e < past:
            j, x = np.uint64(columns[e]) << one, values[e]
            total += x * pairs[j]
            pairs[j + one] += multiplier * x
        out[i] = total + other


@njit(cache=True, nogil=True, fastmath=_SUM)
def margins_dense(values: Array, w: Array, out: Array) -> None:
    for i in range(values.shape[0]):
        total = 0.0
        for j in range(values.shape[1]):
            total += values[i, j] * w[j]
        out[i] = total


@njit(cache=True, nogil=True)
def add_column_sums_dense(values: Array, v: Array, out: Array) -> None:
    for i in range(values.shape[0]):
        multiplier = v[i]
        if multiplier != 0.0:
            for j in range(values.shape[1]):
                out[j] += multiplier * values[i, j]


@njit(cache=True, nogil=True, fastmath=_SUM)
def both_products_dense(values: Array, w: Array, v: Array, out: Array, sums: Array) -> None:
    """Write X w to out and add X' v to sums, four rows at a time so that w and sums are read less often."""
    n, d = values.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        v0, v1, v2, v3 = v[i], v[i + 1], v[i + 2], v[i + 3]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            x0, x1, x2, x3 = values[i, j], values[i + 1, j], values[i + 2, j], values[i + 3, j]
            t0, t1, t2, t3 = t0 + x0 * w[j], t1 + x1 * w[j], t2 + x2 * w[j], t3 + x3 * w[j]
            sums[j] += (v0 * x0 + v1 * x1) + (v2 * x2 + v3 * x3)
        out[i], out[i + 1], out[i + 2], out[i + 3] = t0, t1, t2, t3
    for i in range(whole, n):
        total = 0.0
        for j in range(d):
            total += values[i, j] * w[j]
            sums[j] += v[i] * values[i, j]
        out[i] = total


# --- one weight vector per class --------------------------------------------------------------------------------------


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


@njit(cache=True, nogil=True)
def copy_rows_csr(
    values: Array, columns: Array, starts: Array, rows: Array, new_starts: Array, new_values: Array, new_columns: Array
) -> None:
    """Copy the given rows, in this order."""
    for m in range(rows.size):
        first, shift = starts[rows[m]], new_starts[m]
        for k in range(new_starts[m + 1] - shift):
            new_values[shift + k], new_columns[shift + k] = values[first + k], columns[first + k]
