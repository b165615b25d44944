"""The logistic loss log(1 + exp(s)) of the slack s = -y f(x), whose scores are log-odds.

The dual variables are alpha_i = C_i sigma(s_i), with 0 <= alpha_i <= C_i. The conjugate is C_i times the negative
entropy of alpha_i / C_i,

    conj(a) = a log(a / C) + (C - a) log(1 - a / C)  =  -C H(a / C),        H(1/2) = log 2,  H(0) = H(1) = 0.

The kernels account for rounding like those of hinge.py. exp, log and log1p (linalg/softplus.py) are correct to 4 units
in the last place, so every value has a relative error of at most DOUBT. The term of a row, C log(1 + exp(s)) - C H - a
s, is computed as a difference, so its error is DOUBT times the sum of the magnitudes. A relative gap below 1e-14 can
therefore not be proved.
"""

import numpy as np
from numba import njit

from solvers.linalg.rounding import BLOCK, LEAST, UNIT, add_total
from solvers.linalg.softplus import CUT_OFF, entropy_of_share, exp_of_minus, log1p_of_unit
from solvers.linalg.types import Array, Floats
from solvers.problem.losses.loss import MarginLoss, RowTotals, SlackError, SlackRows, totals_of

__all__ = ["LEAST_SHARE", "Logistic"]

DOUBT = 48.0 * UNIT
"""Bound on the relative error of a loss or an entropy. A loss has an error of 20 u: exp and log1p, correct to 4 units
in the last place (8 u each), and the operations around them. An entropy has an error of less than 32 u: log, log1p and
a / C. Larger: larger published gaps."""

LEAST_SHARE = 1e-290
"""Smallest share alpha_i / C_i whose entropy is counted. For smaller shares it counts as 0, which is safe for the bound
and for the gap. Subnormal shares have no bounded relative error, so their computed entropy could be too high. Larger:
weaker bounds."""


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
def _negative_entropies(alpha: Array, costs: Array, out: Array) -> None:
    """Write -C H(a / C) to out, computed from the smaller of the two shares. Tiny shares count as 0."""
    for i in range(alpha.size):
        share = min(alpha[i], costs[i] - alpha[i]) / costs[i]
        out[i] = -costs[i] * entropy_of_share(share) if share >= LEAST_SHARE else 0.0


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _sum_rows(rows: SlackRows, error: SlackError) -> Array:
    """Return the compensated sums of RowTotals. Simple loops over blocks let the compiler vectorise them."""
    sums = np.zeros((10, 2))
    functions, terms = np.empty((3, BLOCK)), np.zeros((10, BLOCK))
    for first in range(0, rows.slacks.size, BLOCK):
        last = min(first + BLOCK, rows.slacks.size)
        block = SlackRows(
            rows.slacks[first:last], rows.signed[first:last], rows.costs[first:last], rows.sizes[first:last]
        )
        _take_functions(block.slacks, block.signed, block.costs, functions)
        _form_terms(block, error, functions, terms)
        for k in range(10):
            add_total(sums, k, _sum_of(terms[k, : last - first]))
    return sums


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _take_functions(slacks: Array, signed: Array, costs: Array, out: Array) -> None:
    """Write log(1 + exp(-|s|)), sigma(s) and C H(a / C) of each row to out."""
    tails, slopes, entropies = out[0], out[1], out[2]
    for i in range(slacks.size):
        s, C, a = slacks[i], costs[i], abs(signed[i])
        e = exp_of_minus(abs(s))
        inverse = 1.0 / (1.0 + e)
        tails[i] = log1p_of_unit(e)
        slopes[i] = inverse if s >= 0.0 else e * inverse
        share = min(a, C - a) / C
        entropies[i] = C * entropy_of_share(share) if share >= LEAST_SHARE else 0.0


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _form_terms(rows: SlackRows, error: SlackError, functions: Array, out: Array) -> None:
    """Write the rows' terms of the sums of RowTotals to out.

    The exact slack is within `off` of s. In this interval the loss is at most off sigma(s) below its value at s, and at
    most off sigma(s + off) above it, where sigma(s + off) <= min(1, exp(off) sigma(s)). A row's term, C l(s) - C H - a
    s, changes by at most off (|C sigma(s) - a| + C off / 4), because the derivative of sigma is at most 1/4.
    """
    tails, slopes, entropies = functions[0], functions[1], functions[2]
    losses, most, least, terms, most_terms = out[0], out[1], out[2], out[3], out[4]
    linear, linear_error, mass, reach = out[6], out[7], out[8], out[9]
    for i in range(rows.slacks.size):
        s, C, a = rows.slacks[i], rows.costs[i], abs(rows.signed[i])
        counts = 1.0 if C > 0.0 else 0.0
        size = np.sqrt(rows.sizes[i]) if error.are_squares else rows.sizes[i]
        size = size if C > 0.0 else 0.0  # it can be infinite
        off = error.of_size * size + (error.of_all + error.of_slack * abs(s))
        loss = C * (max(s, 0.0) + tails[i])
        steepest = min(1.0, (1.0 + 2.0 * off) * slopes[i]) if off <= 1.0 else 1.0  # exp(off) <= 1 + 2 off
        smallest = counts * (LEAST * (1.0 + C) + CUT_OFF * C)  # bound on the loss of exp and of products by underflow
        losses[i] = loss
        most[i] = (loss + C * off * steepest) * (1.0 + DOUBT) + 4.0 * smallest
        least[i] = max(0.0, loss * (1.0 - DOUBT) - C * off * slopes[i] * (1.0 + DOUBT) - 4.0 * smallest)
        pulled = ((C - a) * s if s >= 0.0 else -a * s) + C * tails[i]  # C l(s) - a s
        terms[i] = max(0.0, pulled - entropies[i])
        moved = off * (abs(C * slopes[i] - a) + C * (0.25 * off + DOUBT))
        most_terms[i] = terms[i] + (moved * (1.0 + DOUBT) + (DOUBT * (pulled + entropies[i]) + smallest))
        linear[i] = entropies[i]
        linear_error[i] = DOUBT * entropies[i] + 4.0 * smallest
        mass[i] = a
        reach[i] = a * size


@njit(cache=True, nogil=True, fastmath={"reassoc"}, error_model="numpy")
def _sum_of(terms: Array) -> float:
    """Return the sum, in any order: the error term of a block holds for every order."""
    total = 0.0
    for i in range(terms.size):
        total += terms[i]
    return total
