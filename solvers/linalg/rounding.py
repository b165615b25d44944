"""Bounds on rounding errors: their size, upper and lower bounds of exact results, and compensated sums.

With u = 2^-53, the computed sum of m products, in any order and fused or not, has an error of at most gamma(m) times
the sum of their magnitudes, plus m 2^-1074 for underflow (Higham 2002, section 3.1). Certificates are based on this.
"""

import numpy as np
from numba import njit

from solvers.linalg.compensated import two_sum
from solvers.linalg.types import Array

__all__ = [
    "BLOCK",
    "LEAST",
    "LEAST_COST",
    "SUM_ERROR",
    "UNIT",
    "above",
    "add_total",
    "below",
    "compensated_sum",
    "gamma",
    "squared_lengths",
]

UNIT = 2.0**-53
"""Largest relative error of one rounded operation on doubles."""
LEAST = 2.0**-1074
"""Smallest positive double: the largest error of an operation that underflows."""
LEAST_COST = 1e-290
"""Least cost of a row whose dual variable can be positive in losses that scale or divide it by the cost. Rows with a
smaller cost get 0: subnormal numbers have no bounded relative error, so the dual point could leave its domain. This
lowers the bound by far less than 2^-900. Larger: weaker bounds for tiny costs. Set by hand; no measurement is
recorded."""
BLOCK = 256
"""Number of terms in a plain sum before it is added to a compensated total. Larger: faster sums with a larger error
bound (BLOCK * 2^-53 of the sum). Set by hand; no measurement is recorded."""
SUM_ERROR = (BLOCK + 16) * UNIT
"""Bound on the relative error of a total of non-negative terms, each computed with at most 16 roundings."""


def gamma(operations: float) -> float:
    """Return the largest relative error after this many roundings."""
    product = operations * UNIT
    return product / (1.0 - product) if product < 0.5 else np.inf


def above(value: float) -> float:
    """Return an upper bound of the exact number, if `value` was computed from non-negative terms by at most 8
    roundings."""
    return value * (1.0 + 16.0 * UNIT) + LEAST if value != 0.0 else 0.0


def below(value: float) -> float:
    """Return a lower bound of the exact number, at least 0, if `value` was computed from non-negative terms by at most
    8 roundings."""
    return max(0.0, value * (1.0 - 16.0 * UNIT) - LEAST)


# --- kernels ----------------------------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True, fastmath=False)
def add_total(totals: Array, k: int, value: float) -> None:
    """Add value to totals[k, 0] + totals[k, 1], with a negligible rounding error."""
    total, lost = two_sum(totals[k, 0], value)
    totals[k, 0] = total
    if np.isfinite(lost):  # an infinite total stays infinite
        totals[k, 1] += lost


@njit(cache=True, nogil=True, fastmath=False)
def compensated_sum(values: Array) -> float:
    """Return the sum, with a relative error of at most 2 u for non-negative values."""
    totals = np.zeros((1, 2))
    for i in range(values.size):
        add_total(totals, 0, values[i])
    return float(totals[0, 0] + totals[0, 1])


@njit(cache=True, nogil=True, fastmath=False)
def squared_lengths(w: Array, high: Array, low: Array) -> tuple[float, float, float]:
    """Return |w|^2, |w - u|^2 and |u|^2 with u = high + low, to a relative error of SUM_ERROR; `low` can be empty."""
    totals = np.zeros((3, 2))
    for first in range(0, w.size, BLOCK):
        last = min(first + BLOCK, w.size)
        parts = _squared_lengths_of_block(w[first:last], high[first:last], low[first:last])
        for k in range(3):
            add_total(totals, k, parts[k])
    sums = totals[:, 0] + totals[:, 1]
    return sums[0], sums[1], sums[2]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _squared_lengths_of_block(w: Array, high: Array, low: Array) -> tuple[float, float, float]:
    of_w, of_difference, of_u = 0.0, 0.0, 0.0
    for j in range(w.size):
        difference = _difference(w[j], high[j], low[j] if low.size > 0 else 0.0)
        of_w += w[j] * w[j]
        of_difference += difference * difference
        of_u += high[j] * high[j]
    return of_w, of_difference, of_u


@njit(cache=True, nogil=True, fastmath=False)  # explicit, or it is compiled with the fastmath of its caller
def _difference(w: float, high: float, low: float) -> float:
    """Return w - (high + low), to a relative error of 2 u: w - high is exact if low matters."""
    return (w - high) - low
