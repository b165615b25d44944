"""Products of all rows with a vector, in about twice the precision of a double.

Each result is an unevaluated sum high + low, returned with the sum of the magnitudes of its products. With m products,
the error of a result is at most

    (2 (m + 4) u)^2 * (sum of the magnitudes) + m 2^-1073,        u = 2^-53

(Ogita, Rump and Oishi 2005, algorithm Dot2, before its last rounding). The second term allows for underflow. The data
views in data/rows.py call these kernels. A compensated pass takes about three times as long as a plain pass.
"""

from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from solvers.linalg.types import Array

__all__ = [
    "compensated_column_sums_csr",
    "compensated_column_sums_dense",
    "compensated_margins_csr",
    "compensated_margins_dense",
    "normalise",
    "two_sum",
]


@intrinsic
def _fused_multiply_add(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Compute a * b + c with a single rounding."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


# --- kernels. They are exact only in this order of operations. `fastmath=False` must be explicit: a function without --
# it is compiled, and cached, with the flags of the function that calls it first ---------------------------------------


@njit(cache=True, nogil=True, fastmath=False)
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return (s, e) with s = a + b rounded and s + e = a + b exactly (Knuth 1969)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@njit(cache=True, nogil=True, fastmath=False)
def normalise(high: Array, low: Array) -> None:
    """Set high to the rounded sum high + low, and low to its rounding error. The exact sum stays the same."""
    for j in range(high.size):
        high[j], low[j] = two_sum(high[j], low[j])


@njit(cache=True, nogil=True, fastmath=False)
def _add_product(high: float, low: float, a: float, b: float) -> tuple[float, float]:
    product = a * b
    total, lost = two_sum(high, product)
    return total, low + (lost + _fused_multiply_add(a, b, -product))  # type: ignore[call-arg]


@njit(cache=True, nogil=True, fastmath=False)
def compensated_margins_csr(
    values: Array, columns: Array, starts: Array, w: Array, out_high: Array, out_low: Array, out_size: Array
) -> None:
    for i in range(starts.size - 1):
        high, low, size = 0.0, 0.0, 0.0
        for e in range(starts[i], starts[i + 1]):
            high, low = _add_product(high, low, float(values[e]), w[columns[e]])
            size += abs(float(values[e]) * w[columns[e]])
        out_high[i], out_low[i] = two_sum(high, low)
        out_size[i] = size


@njit(cache=True, nogil=True, fastmath=False)
def compensated_margins_dense(values: Array, w: Array, out_high: Array, out_low: Array, out_size: Array) -> None:
    for i in range(values.shape[0]):
        high, low, size = 0.0, 0.0, 0.0
        for j in range(values.shape[1]):
            high, low = _add_product(high, low, float(values[i, j]), w[j])
            size += abs(float(values[i, j]) * w[j])
        out_high[i], out_low[i] = two_sum(high, low)
        out_size[i] = size


@njit(cache=True, nogil=True, fastmath=False)
def compensated_column_sums_csr(
    values: Array, columns: Array, starts: Array, v: Array, out_high: Array, out_low: Array, out_size: Array
) -> None:
    """Add the weighted column sums to out_high + out_low, and their magnitudes to out_size."""
    for i in range(starts.size - 1):
        if v[i] != 0.0:
            for e in range(starts[i], starts[i + 1]):
                j = columns[e]
                out_high[j], out_low[j] = _add_product(out_high[j], out_low[j], v[i], float(values[e]))
                out_size[j] += abs(v[i] * float(values[e]))


@njit(cache=True, nogil=True, fastmath=False)
def compensated_column_sums_dense(values: Array, v: Array, out_high: Array, out_low: Array, out_size: Array) -> None:
    """Add the weighted column sums to out_high + out_low, and their magnitudes to out_size."""
    for i in range(values.shape[0]):
        if v[i] != 0.0:
            for j in range(values.shape[1]):
                out_high[j], out_low[j] = _add_product(out_high[j], out_low[j], v[i], float(values[i, j]))
                out_size[j] += abs(v[i] * float(values[i, j]))
