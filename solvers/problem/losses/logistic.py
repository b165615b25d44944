"""The logistic loss log(1 + exp(s)) of the slack s = -y f(x), whose scores are log-odds.

Its dual point is alpha_i = C_i sigma(s_i), with 0 <= alpha_i <= C_i, and its conjugate C_i times the negative entropy
of alpha_i / C_i,

    conj(a) = a log(a / C) + (C - a) log(1 - a / C)  =  -C H(a / C),        H(1/2) = log 2,  H(0) = H(1) = 0.

The kernels count rounding as those of hinge.py do. exp, log and log1p are taken to be right to 4 units in the last
place; with that, every value has a relative error of at most DOUBT. The term of a row, C log(1 + exp(s)) - C H - a s,
is computed as a difference, so its error is DOUBT times the sum of the magnitudes: a gap below 1e-14 of the objective
cannot be proved.
"""

import numpy as np
from numba import njit

from solvers.linalg.rounding import BLOCK, LEAST, UNIT, add_total
from solvers.linalg.types import Array, Floats
from solvers.problem.losses.loss import MarginLoss, RowTotals, SlackError, SlackRows, totals_of

__all__ = ["LEAST_SHARE", "Logistic"]

DOUBT = 48.0 * UNIT
"""Relative error of a loss or an entropy. exp and log1p, right to 4 units in the last place (8 u each), with the
operations around them, make 20 u of a loss; log, log1p and the error of a / C make less than 32 u of an entropy."""

LEAST_SHARE = 1e-290
"""Smallest share with an entropy. Subnormal shares have no relative error, so that their entropy could come out too
high; one of 0 is on the safe side of both the bound and the gap."""


class Logistic(MarginLoss):
    name, rank = "logistic", 3
    description = "log(1 + exp(-y f(x))): scores are log-odds, so the model gives probabilities"
    margin = 0.0
    divides_by_cost = True
    relative_error = DOUBT

    def value(self, slacks: Floats, costs: Floats) -> Floats:
        return costs * np.logaddexp(0.0, slacks)

    def dual_bounds(self, slacks: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        small = np.exp(-np.abs(slacks))
        alpha = costs * (np.where(slacks >= 0.0, 1.0, small) / (1.0 + small))
        return alpha, alpha

    def conjugate(self, alpha: Floats, costs: Floats) -> Floats:
        values = np.empty_like(alpha)
        _negative_entropies(alpha, costs, values)
        return values

    def curvature(self, slacks: Floats, costs: Floats) -> Floats | None:
        small = np.exp(-np.abs(slacks))
        return costs * (small / ((1.0 + small) * (1.0 + small)))

    def row_totals(self, rows: SlackRows, error: SlackError) -> RowTotals:
        return totals_of(_sum_rows(rows, error))


# --- kernels. C: cost, a: alpha_i, s: slack ---------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _softplus(s: float) -> float:
    """log(1 + exp(-|s|)): the loss without max(0, s)."""
    return float(np.log1p(np.exp(-abs(s))))


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _entropy(a: float, C: float) -> float:
    """C H(a / C), by the smaller of the two shares: its logarithm is not near 0. Tiny shares count as 0."""
    rest = C - a
    share = min(a, rest) / C
    if not share >= LEAST_SHARE:
        return 0.0
    return float(C * (-share * np.log(share) - (1.0 - share) * np.log1p(-share)))


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _negative_entropies(alpha: Array, costs: Array, out: Array) -> None:
    for i in range(alpha.size):
        out[i] = -_entropy(alpha[i], costs[i]) if costs[i] > 0.0 else 0.0


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _term(C: float, a: float, entropy: float, s: float) -> tuple[float, float]:
    """C log(1 + exp(s)) - C H - a s as computed, and its error."""
    pulled = (C - a) * s if s >= 0.0 else -a * s
    loss = C * _softplus(s)
    return pulled + loss - entropy, DOUBT * (pulled + loss + entropy) + LEAST * (1.0 + C)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _sum_rows(rows: SlackRows, error: SlackError) -> Array:
    """The compensated sums of RowTotals."""
    sums = np.zeros((10, 2))
    parts = np.empty(10)
    for first in range(0, rows.slacks.size, BLOCK):
        last = min(first + BLOCK, rows.slacks.size)
        _sum_block(rows, error, first, last, parts)
        for k in range(10):
            add_total(sums, k, parts[k])
    return sums


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _sum_block(rows: SlackRows, error: SlackError, first: int, last: int, parts: Array) -> None:
    losses, most, least, terms, most_terms = 0.0, 0.0, 0.0, 0.0, 0.0
    linear, linear_error, mass, reach = 0.0, 0.0, 0.0, 0.0
    for i in range(first, last):
        s, C, a = rows.slacks[i], rows.costs[i], abs(rows.signed[i])
        losses += 0.0 * s  # a slack that is not finite makes the sum so
        if not C > 0.0:
            continue
        size = np.sqrt(rows.sizes[i]) if error.are_squares else rows.sizes[i]
        off = error.of_size * size + (error.of_all + error.of_slack * abs(s))
        low, high = s - off, s + off
        smallest = LEAST * (1.0 + C)  # what exp and products can lose to underflow
        entropy = _entropy(a, C)
        losses += C * (max(s, 0.0) + _softplus(s))
        most += C * (max(high, 0.0) + _softplus(high)) * (1.0 + DOUBT) + 4.0 * smallest
        least += max(0.0, C * (max(low, 0.0) + _softplus(low)) * (1.0 - DOUBT) - 4.0 * smallest)
        term, _ = _term(C, a, entropy, s)
        terms += max(term, 0.0)
        at_low, error_low = _term(C, a, entropy, low)
        at_high, error_high = _term(C, a, entropy, high)
        most_terms += max(max(at_low, 0.0) + error_low, max(at_high, 0.0) + error_high)
        linear += entropy
        linear_error += DOUBT * entropy + 4.0 * smallest
        mass += a
        reach += a * size
    parts[:] = (losses, most, least, terms, most_terms, 0.0, linear, linear_error, mass, reach)
