"""The epsilon-insensitive losses for targets: max(0, |y - f(x)| - epsilon) and its square.

With the error e = y - f(x), the slacks on the two sides of the tube are e - epsilon and -e - epsilon. On each side the
loss is that of hinge.py. The dual variables beta_i can have either sign; |beta_i| is in the domain of the hinge loss.
"""

import numpy as np
from numba import njit

from solvers.linalg.rounding import BLOCK, SUM_ERROR, add_total
from solvers.linalg.types import Array, Floats
from solvers.problem.losses.hinge import loss_of, most_loss_of, share_of, term_of
from solvers.problem.losses.loss import RowTotals, SlackError, TubeLoss, TubeRows, totals_of

__all__ = ["EpsilonInsensitive", "SquaredEpsilonInsensitive"]


class EpsilonInsensitive(TubeLoss):
    name, rank = "epsilon_insensitive", 0
    description = "max(0, |y - f(x)| - epsilon): errors up to epsilon cost nothing, larger ones their excess"

    def dual_bounds(self, excess: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        return np.where(excess > rounding, costs, 0.0), np.where(excess >= -rounding, costs, 0.0)

    def row_totals(self, epsilon: float, rows: TubeRows, error: SlackError) -> RowTotals:
        return totals_of(_sum_rows(1.0, epsilon, rows, error))


class SquaredEpsilonInsensitive(TubeLoss):
    name, rank = "squared_epsilon_insensitive", 1
    description = "max(0, |y - f(x)| - epsilon)^2: smooth, and large errors cost more"
    is_squared, is_capped, divides_by_cost = True, False, True

    def dual_bounds(self, excess: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        sizes = 2.0 * costs * np.maximum(excess, 0.0)
        return sizes, sizes

    def row_totals(self, epsilon: float, rows: TubeRows, error: SlackError) -> RowTotals:
        return totals_of(_sum_rows(2.0, epsilon, rows, error))


# --- kernels. C: cost, a: |beta_i| ------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True)
def _sum_rows(p: float, epsilon: float, rows: TubeRows, error: SlackError) -> Array:
    """Return the compensated sums of RowTotals."""
    sums = np.zeros((10, 2))
    over, under, targets, beta, costs, sizes = rows
    for first in range(0, over.size, BLOCK):
        last = min(first + BLOCK, over.size)
        slacks = over[first:last], under[first:last]
        block = targets[first:last], beta[first:last], costs[first:last], sizes[first:last]
        parts = _sum_block(1.0 if p == 1.0 else 2.0, epsilon, slacks, block, error)
        for k in range(10):
            add_total(sums, k, parts[k])
    return sums


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_block(
    p: float, epsilon: float, slacks: tuple[Array, Array], rows: tuple[Array, Array, Array, Array], error: SlackError
) -> tuple[float, float, float, float, float, float, float, float, float, float]:
    over, under = slacks
    targets, beta, costs, sizes = rows
    losses, most, least, terms, most_terms = 0.0, 0.0, 0.0, 0.0, 0.0
    conjugates, linear, magnitude, mass, reach = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(over.size):
        C, a = costs[i], abs(beta[i])
        slack, other = (over[i], under[i]) if beta[i] >= 0.0 else (under[i], over[i])
        size = np.sqrt(sizes[i]) if error.are_squares else sizes[i]
        common = error.of_size * size + error.of_all
        off, of_other = common + error.of_slack * abs(slack), common + error.of_slack * abs(other)
        share, conjugate = share_of(p, C, a)
        loss_there = loss_of(p, C, other)
        most_there = most_loss_of(p, C, other + of_other)
        losses += loss_of(p, C, slack) + loss_there + 0.0 * slack  # a NaN or infinite slack makes the sum NaN
        most += most_loss_of(p, C, slack + off) + most_there
        least += loss_of(p, C, slack - off) + loss_of(p, C, other - of_other)
        terms += term_of(p, C, a, share, conjugate, slack) + loss_there
        low = term_of(p, C, a, share, conjugate, slack - off)
        most_terms += max(low, term_of(p, C, a, share, conjugate, slack + off)) + most_there
        conjugates += conjugate
        linear += beta[i] * targets[i] - epsilon * a
        magnitude += SUM_ERROR * (abs(beta[i] * targets[i]) + epsilon * a)
        mass += a
        reach += a * size
    return losses, most, least, terms, most_terms, conjugates, linear, magnitude, mass, reach
