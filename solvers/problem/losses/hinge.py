"""The hinge losses max(0, s)^p: hinge (p = 1), squared hinge (p = 2), and all p in between.

Their conjugate is conj(a) = (p - 1) C (a / (p C))^q with q = p / (p - 1). For p = 2 it is a^2 / (4 C); for p = 1 it is
0 on [0, C], the dual's domain. conj(t a) <= t^2 conj(a) for 0 <= t <= 1.

The kernels account for rounding. The slack s of a row is known up to an error e. The row's term of the gap,

    T(s) = C max(0, s)^p + conj(a) - a s  >=  0,

is convex in s, so the larger of T(s - e) and T(s + e) is an upper bound of the exact term. Every value has a relative
error of at most 16 u, which SUM_ERROR includes. If a subtraction can have a larger relative error, that error is added
to the bound.
"""

import numpy as np
from numba import njit

from solvers.linalg.rounding import BLOCK, LEAST, UNIT, add_total
from solvers.linalg.types import Array, Floats
from solvers.problem.losses.loss import MarginLoss, RowTotals, SlackError, SlackRows, totals_of

__all__ = ["Hinge", "HingeP", "PowerLoss", "SquaredHinge", "loss_of", "most_loss_of", "share_of", "term_of"]


class PowerLoss(MarginLoss):
    """The loss max(0, s)^p with 1 <= p <= 2."""

    def __init__(self, p: float) -> None:
        self.p = p
        self.is_squared = p == 2.0
        self.is_capped = self.is_piecewise_linear = p == 1.0
        self.divides_by_cost = p > 1.0
        self.has_quadratic_dual = p in (1.0, 2.0)

    def value(self, slacks: Floats, costs: Floats) -> Floats:
        over = np.maximum(slacks, 0.0)
        return costs * (over if self.p == 1.0 else over * over if self.p == 2.0 else over**self.p)

    def dual_bounds(self, slacks: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        if self.p == 1.0:
            return np.where(slacks > rounding, costs, 0.0), np.where(slacks >= -rounding, costs, 0.0)
        over = np.maximum(slacks, 0.0)
        alpha = np.asarray(self.p * costs * (over if self.p == 2.0 else over ** (self.p - 1.0)))
        return alpha, alpha

    def conjugate(self, alpha: Floats, costs: Floats) -> Floats:
        if self.p == 1.0:
            return np.zeros_like(alpha)
        share = np.divide(alpha, self.p * costs, out=np.zeros_like(alpha), where=costs > 0.0)
        if self.p == 2.0:
            return costs * share * share
        return (self.p - 1.0) * costs * share ** (self.p / (self.p - 1.0))

    def curvature(self, slacks: Floats, costs: Floats) -> Floats | None:
        return 2.0 * costs * (slacks > 0.0) if self.p == 2.0 else None

    def row_totals(self, rows: SlackRows, error: SlackError) -> RowTotals:
        return totals_of(_sum_rows(self.p, rows, error))


class Hinge(PowerLoss):
    name, rank = "hinge", 0
    description = "max(0, 1 - y f(x)): the loss of the support vector machine"

    def __init__(self) -> None:
        super().__init__(1.0)


class SquaredHinge(PowerLoss):
    name, rank = "squared_hinge", 1
    description = "max(0, 1 - y f(x))^2: smooth, and large errors cost more"

    def __init__(self) -> None:
        super().__init__(2.0)


class HingeP(PowerLoss):
    name, rank = "hinge_p", 2
    description = "max(0, 1 - y f(x))^p with p from 1 to 2"
    takes_p = True


# --- kernels. C: cost, a: |alpha_i|, share: a / (p C), q: p / (p - 1) -------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def loss_of(p: float, C: float, slack: float) -> float:
    """Return C max(0, slack)^p."""
    over = max(slack, 0.0)
    if p == 1.0:
        return C * over
    return C * (over * over) if p == 2.0 else C * over**p


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def most_loss_of(p: float, C: float, slack: float) -> float:
    """Return an upper bound of `loss_of` that allows for underflow. It is 0 only if slack <= 0."""
    return loss_of(p, C, slack) + (LEAST if slack > 0.0 else 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def share_of(p: float, C: float, a: float) -> tuple[float, float]:
    """Return a / (p C), and an upper bound of conj(a) that allows for rounding."""
    if p == 1.0 or a == 0.0 or not C > 0.0:
        return 0.0, 0.0
    share = a / (p * C)
    if p == 2.0:
        return share, C * (share * share) + LEAST
    # The power is computed by logarithms. The exponent q grows without limit as p approaches 1, and multiplies the
    # errors of share and log.
    q, logarithm = p / (p - 1.0), np.log(share)
    error = UNIT * (16.0 + 8.0 * q * (1.0 + abs(logarithm)))
    return share, (p - 1.0) * C * np.exp(q * logarithm) * (1.0 + 2.0 * error) + LEAST


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def term_of(p: float, C: float, a: float, share: float, conjugate: float, slack: float) -> float:
    """Return an upper bound of T(slack)."""
    over = max(slack, 0.0)
    of_under = a * (over - slack)
    if p == 1.0:
        return (C - a) * over + of_under
    if p == 2.0:
        # The square is completed: C (over - a / (2 C))^2. If over = 0, the term a |slack| is added to it.
        difference = abs(over - share) + 4.0 * UNIT * share + (LEAST if share > 0.0 else 0.0)
        return C * (difference * difference) + of_under
    loss, product = loss_of(p, C, slack), a * over
    return max(loss + conjugate - product, 0.0) + 16.0 * UNIT * (loss + product) + of_under


@njit(cache=True, nogil=True)
def _sum_rows(p: float, rows: SlackRows, error: SlackError) -> Array:
    """Return the compensated sums of RowTotals."""
    sums = np.zeros((10, 2))
    slacks, signed, costs, sizes = rows
    for first in range(0, slacks.size, BLOCK):
        last = min(first + BLOCK, slacks.size)
        block = SlackRows(slacks[first:last], signed[first:last], costs[first:last], sizes[first:last])
        # With a constant exponent the compiler reduces the loop over a block to plain arithmetic.
        if p == 1.0:
            parts = _sum_block(1.0, block, error)
        elif p == 2.0:
            parts = _sum_block(2.0, block, error)
        else:
            parts = _sum_block(p, block, error)
        for k in range(10):
            add_total(sums, k, parts[k])
    return sums


@njit(cache=True, nogil=True, fastmath=_SUM, forceinline=True)
def _sum_block(
    p: float, rows: SlackRows, error: SlackError
) -> tuple[float, float, float, float, float, float, float, float, float, float]:
    slacks, signed, costs, sizes = rows
    losses, most, least, terms, most_terms = 0.0, 0.0, 0.0, 0.0, 0.0
    conjugates, mass, reach = 0.0, 0.0, 0.0
    for i in range(slacks.size):
        slack, C, a = slacks[i], costs[i], abs(signed[i])
        size = np.sqrt(sizes[i]) if error.are_squares else sizes[i]
        off = error.of_size * size + (error.of_all + error.of_slack * abs(slack))
        share, conjugate = share_of(p, C, a)
        losses += loss_of(p, C, slack) + 0.0 * slack  # a NaN or infinite slack makes the sum NaN
        most += most_loss_of(p, C, slack + off)
        least += loss_of(p, C, slack - off)
        terms += term_of(p, C, a, share, conjugate, slack)
        low = term_of(p, C, a, share, conjugate, slack - off)
        most_terms += max(low, term_of(p, C, a, share, conjugate, slack + off))
        conjugates += conjugate
        mass += a
        reach += a * size
    return losses, most, least, terms, most_terms, conjugates, mass, 0.0, mass, reach
