"""Compiled version of the dense sums of `app.models.linear`: the same bits in a quarter of the time."""

import sys

import numpy as np
from numba import njit

from app.tabular.types import Array
from solvers.linalg import kernel_cache


def warm() -> None:
    """Load or compile the kernel, and repair a damaged cache."""
    kernel_cache.warm(kernel_cache.kernels_of(sys.modules[__name__]), _use_every_kernel)


def _use_every_kernel() -> None:
    for dtype in (np.float32, np.float64):
        dense_sums(np.ones((1, 1), dtype=dtype), np.ones(1))


def dense_sums(matrix: Array, weights: Array) -> Array:
    """Return the sum of x_j w_j of each row, added from the first to the last in double precision."""
    dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    rows = np.ascontiguousarray(matrix, dtype=dtype)[:]
    rows.flags.writeable = False  # mapped rows are read-only, and numba compiles a separate version for that
    sums = np.empty(len(rows))
    _sum_products(rows, np.array(weights, dtype=np.float64), sums)
    return sums


@njit(cache=True, nogil=True)
def _sum_products(rows: Array, weights: Array, sums: Array) -> None:
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * weights[j]
        sums[i] = total
