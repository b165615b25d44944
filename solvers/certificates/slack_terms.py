"""What one row adds to a certificate: loss, conjugate and its term of the gap, with rounding counted.

The slack s of a row is known up to an error e. Its term of the gap,

    T(s) = C max(0, s)^p + conj(a) - a s  >=  0,

is convex in s, so that the larger of T(s - e) and T(s + e) is an upper bound of the exact term. Every value here has a
relative error of at most 16 u, which SUM_ERROR of rounding.py includes; where a difference could lose more, its error
is added. Used by the certificates of two classes and of regression.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.certificates.rounding import LEAST, UNIT
from solvers.linalg.types import Array

__all__ = ["RowTotals", "loss_of", "most_loss_of", "share_of", "term_of", "totals_of"]


class RowTotals(NamedTuple):
    """Sums over the rows, each to a relative error of SUM_ERROR."""

    losses: float
    """As computed, rounding of the slacks not considered; so are `terms`."""
    losses_at_most: float
    losses_at_least: float
    terms: float
    terms_at_most: float
    conjugates: float
    linear: float
    """The part of the dual that is linear: sum alpha for two classes."""
    linear_error: float
    """What its terms are off by, beside the error of the sum."""
    mass: float
    """sum_i |alpha_i|"""
    reach: float
    """sum_i |alpha_i| size_i: what the error of w(alpha) is measured in if sizes are lengths."""


def totals_of(sums: Array) -> RowTotals:
    """Of compensated sums in the order of the fields."""
    return RowTotals(*(float(total) for total in sums[:, 0] + sums[:, 1]))


# --- kernels. C: cost, a: |alpha_i|, share: a / (p C), q: p / (p - 1) -------------------------------------------------


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def loss_of(p: float, C: float, slack: float) -> float:
    """C max(0, slack)^p"""
    over = max(slack, 0.0)
    if p == 1.0:
        return C * over
    return C * (over * over) if p == 2.0 else C * over**p


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def most_loss_of(p: float, C: float, slack: float) -> float:
    """loss_of with what underflow can lose: only no violation costs exactly 0."""
    return loss_of(p, C, slack) + (LEAST if slack > 0.0 else 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def share_of(p: float, C: float, a: float) -> tuple[float, float]:
    """(a / (p C), conj(a) with its rounding)"""
    if p == 1.0 or a == 0.0 or not C > 0.0:
        return 0.0, 0.0
    share = a / (p * C)
    if p == 2.0:
        return share, C * (share * share) + LEAST
    # Through logarithms: the exponent q has no bound as p approaches 1, and multiplies the errors of share and log.
    q, logarithm = p / (p - 1.0), np.log(share)
    error = UNIT * (16.0 + 8.0 * q * (1.0 + abs(logarithm)))
    return share, (p - 1.0) * C * np.exp(q * logarithm) * (1.0 + 2.0 * error) + LEAST


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def term_of(p: float, C: float, a: float, share: float, conjugate: float, slack: float) -> float:
    """T(slack), at least."""
    over = max(slack, 0.0)
    of_under = a * (over - slack)
    if p == 1.0:
        return (C - a) * over + of_under
    if p == 2.0:
        # The square is completed: C (over - a / (2 C))^2, where over = 0 leaves a |slack| beside it.
        difference = abs(over - share) + 4.0 * UNIT * share + (LEAST if share > 0.0 else 0.0)
        return C * (difference * difference) + of_under
    loss, product = loss_of(p, C, slack), a * over
    return max(loss + conjugate - product, 0.0) + 16.0 * UNIT * (loss + product) + of_under
