"""The interface of a loss. Certificates, the choice of a method, and the methods use it.

    Loss
      MarginLoss    for two classes: C_i l(s_i) with the slack s_i = margin - y_i f(x_i)
      TubeLoss      for targets: C_i l(|y_i - f(x_i)| - epsilon)

A new loss is one file in this folder: a subclass of `MarginLoss` with a name, `value`, `dual_bounds` and `conjugate`.
Certificates and all methods that take any loss then work with it. A method with its own kernel for the loss lists the
loss in `losses`.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from solvers.data.rows import read_only
from solvers.linalg.rounding import LEAST, LEAST_COST, UNIT, compensated_sum
from solvers.linalg.types import Array, Floats

__all__ = ["Loss", "MarginLoss", "RowTotals", "SlackError", "SlackRows", "TubeLoss", "TubeRows", "totals_of"]


class SlackError(NamedTuple):
    """Bound on the error of a slack: of_size * size_i + of_all + of_slack * |slack_i|."""

    of_size: float
    of_all: float
    of_slack: float
    are_squares: bool
    """Whether `sizes` are squared, so that their roots are used."""


class SlackRows(NamedTuple):
    """The rows of a binary problem."""

    slacks: Array
    signed: Array
    """y_i alpha_i, with alpha in the dual's domain."""
    costs: Array
    sizes: Array
    """The unit of the error of each slack (see SlackError)."""


class TubeRows(NamedTuple):
    """The rows of a problem with targets."""

    over: Array
    """The slack y_i - f(x_i) - epsilon."""
    under: Array
    """The slack f(x_i) - y_i - epsilon."""
    targets: Array
    signed: Array
    """The dual point beta, in the dual's domain."""
    costs: Array
    sizes: Array


class RowTotals(NamedTuple):
    """Sums over the rows, each with a relative error of at most SUM_ERROR."""

    losses: float
    """Sum of the losses as computed, without bounds on the errors of the slacks. `terms` is such a sum as well."""
    losses_at_most: float
    losses_at_least: float
    terms: float
    """Sum of the rows' terms of the gap, C l(s) + conj(alpha) - alpha s."""
    terms_at_most: float
    conjugates: float
    """Upper bound of the part of the conjugates that at t alpha, 0 <= t <= 1, is at most t^2 times its value at
    alpha."""
    linear: float
    """The rest of the dual value. At t alpha, 0 <= t <= 1, it is at least t times its value at alpha."""
    linear_error: float
    """Bound on the error of the terms of `linear`, without the error of their sum."""
    mass: float
    """Sum of |alpha_i|."""
    reach: float
    """Sum of |alpha_i| size_i: the unit of the error of w(alpha), if sizes are norms."""


def totals_of(sums: Array) -> RowTotals:
    """Build the totals from compensated sums in the order of the fields."""
    return RowTotals(*(float(total) for total in sums[:, 0] + sums[:, 1]))


class Loss(ABC):
    """A loss function."""

    name: ClassVar[str]
    """The value of `loss` in a request."""
    tasks: ClassVar[tuple[str, ...]]
    rank: ClassVar[int] = 100
    """Sort key among the losses of a task. `auto` means the loss with the lowest rank."""
    description: ClassVar[str]
    takes_p: ClassVar[bool] = False
    """Whether the loss has an exponent `p`, an argument of its constructor."""
    is_squared: bool = False
    """Whether the loss is a square. Memory and passes of the methods depend on it."""
    is_capped: bool = True
    """Whether alpha_i <= C_i in the dual. If not, alpha_i has no upper limit."""
    divides_by_cost: bool = False
    """Whether the conjugate divides by C_i. Rows whose cost is too small for that get alpha_i = 0."""

    def dual_top(self, costs: Floats) -> Floats:
        """Return the upper bound of alpha_i for each row."""
        if not self.divides_by_cost:
            return costs
        return np.where(costs >= LEAST_COST, costs if self.is_capped else np.inf, 0.0)

    def dual_diagonal(self, costs: Floats) -> Floats:
        """Return D_i of a conjugate D_i alpha_i^2 / 2: 1 / (2 C_i) for a squared loss, 0 if the conjugate is 0."""
        diagonal = np.zeros_like(costs)
        if self.is_squared:
            np.divide(0.5, costs, out=diagonal, where=costs > 0.0)
        return diagonal


class MarginLoss(Loss):
    """A loss for two classes: convex and non-decreasing in the slack s = margin - y f(x)."""

    tasks = ("binary", "multiclass")
    margin: float = 1.0
    """The value of y f(x) at which the slack is 0."""
    is_piecewise_linear: bool = False
    """Whether the loss is C max(0, s): its derivative changes only at s = 0, from 0 to C."""
    has_quadratic_dual: bool = False
    """Whether the conjugate is D_i alpha^2 / 2 with D_i from `dual_diagonal`, so that exact steps are possible."""
    relative_error: float = 64.0 * UNIT
    """Largest relative error of `value` and `conjugate`, for the default `row_totals`."""

    @abstractmethod
    def value(self, slacks: Floats, costs: Floats) -> Floats:
        """Return C_i l(s_i) of every row."""

    @abstractmethod
    def dual_bounds(self, slacks: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        """Return the smallest and the largest derivative of each row's loss: the alpha_i that are optimal for its
        slack.

        They differ only at a kink. A slack within `rounding` of a kink counts as being at it.
        """

    @abstractmethod
    def conjugate(self, alpha: Floats, costs: Floats) -> Floats:
        """Return sup over s of alpha_i s - C_i l(s), for alpha_i in the dual's domain. It is 0 at 0."""

    def derivative(self, slacks: Floats, costs: Floats) -> Floats:
        """Return the derivative of each row's loss with respect to its slack; at a kink, the middle one."""
        low, high = self.dual_bounds(slacks, costs, 0.0)
        return 0.5 * (low + high)

    def curvature(self, slacks: Floats, costs: Floats) -> Floats | None:
        """Return the second derivative of each row's loss; None if the loss has none."""
        return None

    def row_totals(self, rows: SlackRows, error: SlackError) -> RowTotals:
        """Return the sums of a certificate, with rounding accounted for.

        A row's term C l(s) + conj(a) - a s is convex in s, so its maximum over the slacks within the error is at one of
        the two ends. The conjugate is convex and 0 at 0, so conj(t a) <= t conj(a): the whole dual value counts as
        linear.
        """
        slacks, costs, alpha = rows.slacks, rows.costs, np.abs(rows.signed)
        sizes = np.sqrt(rows.sizes) if error.are_squares else rows.sizes
        off = error.of_size * sizes + (error.of_all + error.of_slack * np.abs(slacks))
        low, high = slacks - off, slacks + off
        conjugate = self.conjugate(alpha, costs)
        doubt, least = self.relative_error + 16.0 * UNIT, LEAST * (1.0 + costs)
        values = [self.value(one, costs) for one in (slacks, low, high)]
        at_ends = [
            np.maximum(value + conjugate - alpha * slack, 0.0)
            + doubt * (value + np.abs(conjugate) + np.abs(alpha * slack))
            for value, slack in zip(values[1:], (low, high), strict=True)
        ]
        return RowTotals(
            losses=_total(values[0] + 0.0 * slacks),  # a NaN or infinite slack makes the sum NaN
            losses_at_most=_total(values[2] * (1.0 + doubt) + least),
            losses_at_least=_total(values[1] * (1.0 - doubt) - least),
            terms=_total(np.maximum(values[0] + conjugate - alpha * slacks, 0.0)),
            terms_at_most=_total(np.maximum(*at_ends) + 4.0 * least),
            conjugates=0.0,
            linear=_total(self.margin * alpha - conjugate),
            linear_error=_total(doubt * (self.margin * alpha + np.abs(conjugate)) + least),
            mass=_total(alpha),
            reach=_total(alpha * sizes),
        )


class TubeLoss(Loss):
    """A regression loss: errors up to epsilon, in either direction, cost nothing."""

    tasks = ("regression",)

    @abstractmethod
    def dual_bounds(self, excess: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        """Return the smallest and the largest optimal |beta_i| for the excess |error| - epsilon of each row."""

    @abstractmethod
    def row_totals(self, epsilon: float, rows: TubeRows, error: SlackError) -> RowTotals:
        """Return the sums of a certificate, with rounding accounted for."""


def _total(terms: Floats) -> float:
    return float(compensated_sum(read_only(np.ascontiguousarray(terms))))
