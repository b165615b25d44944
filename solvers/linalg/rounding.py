"""Rounding errors: their size, numbers on the safe side of a result, and sums that hardly round.

With u = 2^-53, a sum of m products, in any order and fused or not, is off by at most gamma(m) times the sum of their
magnitudes, plus m 2^-1074 if some underflow (Higham 2002, section 3.1). Certificates are built on this.
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
"""The largest relative error of one rounded operation."""
LEAST = 2.0**-1074
"""The smallest positive double: what an operation that underflows can lose."""
LEAST_COST = 1e-290
"""A row of a smaller cost gets no share in a dual point that is scaled or divided by its cost: subnormal numbers have
no relative error, so that the result could leave the domain. What the bound loses is far below 2^-900."""
BLOCK = 256
"""Terms that are added plainly before their sum joins a compensated total. Larger blocks cost a wider error term
(BLOCK * 2^-53 of the sum); smaller ones are slower."""
SUM_ERROR = (BLOCK + 16) * UNIT
"""Relative error of a total of non-negative terms, with up to 16 roundings in each term."""


def gamma(operations: float) -> float:
    """The largest relative error after this many roundings."""
    product = operations * UNIT
    return product / (1.0 - product) if product < 0.5 else np.inf


def above(value: float) -> float:
    """A number that is not below `value`, although up to 8 roundings of non-negative terms led to it."""
    return value * (1.0 + 16.0 * UNIT) + LEAST if value != 0.0 else 0.0


def below(value: float) -> float:
    """A number that is not above a non-negative `value`, likewise."""
    return max(0.0, value * (1.0 - 16.0 * UNIT) - LEAST)


# --- kernels ----------------------------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True, fastmath=False)
def add_total(totals: Array, k: int, value: float) -> None:
    """totals[k, 0] + totals[k, 1] += value, without a rounding that counts."""
    total, lost = two_sum(totals[k, 0], value)
    totals[k, 0] = total
    if np.isfinite(lost):  # an infinite total stays one
        totals[k, 1] += lost


@njit(cache=True, nogil=True, fastmath=False)
def compensated_sum(values: Array) -> float:
    """The sum, to a relative error of 2 u for non-negative values."""
    totals = np.zeros((1, 2))
    for i in range(values.size):
        add_total(totals, 0, values[i])
    return float(totals[0, 0] + totals[0, 1])


@njit(cache=True, nogil=True, fastmath=False)
def squared_lengths(w: Array, high: Array, low: Array) -> tuple[float, float, float]:
    """|w|^2, |w - u|^2 and |u|^2 with u = high + low, each to a relative error of SUM_ERROR; `low` may be empty."""
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


@njit(cache=True, nogil=True, fastmath=False)  # said, or it is compiled with the fastmath of its caller
def _difference(w: float, high: float, low: float) -> float:
    """w - (high + low), to a relative error of 2 u: w - high is exact where low counts."""
    return (w - high) - low
