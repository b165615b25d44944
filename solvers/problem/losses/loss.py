"""What a loss is: an object that certificates, the choice of a method and the methods themselves ask.

    Loss
      MarginLoss    of two classes: C_i l(s_i) with the slack s_i = margin - y_i f(x_i)
      TubeLoss      of targets: C_i l(|y_i - f(x_i)| - epsilon)

A new loss is one file in this folder: a class below `MarginLoss` with a name, `value`, `dual_bounds` and `conjugate`.
Every certificate works with it then, and so does each method that takes any loss. A method that has a kernel for it
names it in its `losses`.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from solvers.data.rows import read_only
from solvers.linalg.rounding import LEAST, LEAST_COST, UNIT, compensated_sum
from solvers.linalg.types import Array, Floats

__all__ = ["Loss", "MarginLoss", "RowTotals", "SlackError", "SlackRows", "TubeLoss", "TubeRows", "totals_of"]


class SlackError(NamedTuple):
    """A slack is off by at most of_size * size_i + of_all + of_slack * |slack_i|."""

    of_size: float
    of_all: float
    of_slack: float
    are_squares: bool
    """Whether the sizes are squares, whose roots count."""


class SlackRows(NamedTuple):
    """The rows of a problem with two classes."""

    slacks: Array
    signed: Array
    """y_i alpha_i, in the dual's domain."""
    costs: Array
    sizes: Array
    """What the error of a slack is measured in."""


class TubeRows(NamedTuple):
    """The rows of a problem with targets."""

    over: Array
    """y_i - f(x_i) - epsilon"""
    under: Array
    """f(x_i) - y_i - epsilon"""
    targets: Array
    signed: Array
    """The dual point beta, in the dual's domain."""
    costs: Array
    sizes: Array


class RowTotals(NamedTuple):
    """Sums over the rows, each to a relative error of SUM_ERROR."""

    losses: float
    """As computed, rounding of the slacks not considered; so are `terms`."""
    losses_at_most: float
    losses_at_least: float
    terms: float
    """What the rows add to the gap: sum of C l(s) + conj(alpha) - alpha s."""
    terms_at_most: float
    conjugates: float
    """The part of the dual value that grows at least with t^2 from t alpha to alpha: at least its exact value."""
    linear: float
    """The rest of it: at least t times its value is left at t alpha."""
    linear_error: float
    """How far the terms of `linear` are off in all, without the error of the sum."""
    mass: float
    """sum_i |alpha_i|"""
    reach: float
    """sum_i |alpha_i| size_i: what the error of w(alpha) is measured in if sizes are lengths."""


def totals_of(sums: Array) -> RowTotals:
    """The totals of compensated sums in the order of the fields."""
    return RowTotals(*(float(total) for total in sums[:, 0] + sums[:, 1]))


class Loss(ABC):
    """What an error costs."""

    name: ClassVar[str]
    """As in `loss` of a request."""
    tasks: ClassVar[tuple[str, ...]]
    rank: ClassVar[int] = 100
    """Position among the losses of a task. The first one is what `auto` means."""
    description: ClassVar[str]
    takes_p: ClassVar[bool] = False
    """Whether the loss has an exponent `p`, which its constructor takes."""
    is_squared: bool = False
    """Whether the loss is a square. Methods then need other numbers of rows, passes and bytes."""
    is_capped: bool = True
    """Whether alpha_i <= C_i in the dual. If not, alpha_i has no upper limit."""
    divides_by_cost: bool = False
    """Whether the conjugate divides by C_i. A row whose cost is too small for that gets alpha_i = 0."""

    def dual_top(self, costs: Floats) -> Floats:
        """The largest alpha_i of each row."""
        if not self.divides_by_cost:
            return costs
        return np.where(costs >= LEAST_COST, costs if self.is_capped else np.inf, 0.0)

    def dual_diagonal(self, costs: Floats) -> Floats:
        """D_i of a conjugate D_i alpha_i^2 / 2: 1 / (2 C_i) if the loss is squared, 0 if the conjugate is 0."""
        diagonal = np.zeros_like(costs)
        if self.is_squared:
            np.divide(0.5, costs, out=diagonal, where=costs > 0.0)
        return diagonal


class MarginLoss(Loss):
    """A loss of two classes: convex and non-decreasing in the slack s = margin - y f(x)."""

    tasks = ("binary", "multiclass")
    margin: float = 1.0
    """The value of y f(x) at which the slack is 0."""
    is_piecewise_linear: bool = False
    """Whether the loss is C max(0, s): its derivative changes at s = 0 only, from 0 to C."""
    has_quadratic_dual: bool = False
    """Whether the conjugate is D_i alpha^2 / 2, with D_i of `dual_diagonal`, so that exact steps are at hand."""
    relative_error: float = 64.0 * UNIT
    """Largest relative error of `value` and `conjugate`, for the default `row_totals`."""

    @abstractmethod
    def value(self, slacks: Floats, costs: Floats) -> Floats:
        """C_i l(s_i) of every row."""

    @abstractmethod
    def dual_bounds(self, slacks: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        """The smallest and the largest derivative of the loss of each row: the alpha_i that are optimal for its slack.

        They differ at a kink only. A slack within `rounding` of a kink counts as being there.
        """

    @abstractmethod
    def conjugate(self, alpha: Floats, costs: Floats) -> Floats:
        """sup over s of alpha_i s - C_i l(s), for alpha_i in the dual's domain; 0 at 0."""

    def derivative(self, slacks: Floats, costs: Floats) -> Floats:
        """A derivative of each row's loss by its slack; at a kink, the middle one."""
        low, high = self.dual_bounds(slacks, costs, 0.0)
        return 0.5 * (low + high)

    def curvature(self, slacks: Floats, costs: Floats) -> Floats | None:
        """The second derivative of each row's loss; None if it has none where it matters."""
        return None

    def row_totals(self, rows: SlackRows, error: SlackError) -> RowTotals:
        """The sums of a certificate, rounding counted.

        The term of a row, C l(s) + conj(a) - a s, is convex in s, so that its largest value for slacks within the error
        is at one of the two ends. The conjugate is convex and 0 at 0, so that conj(t a) <= t conj(a): all of the dual
        value counts as linear.
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
            losses=_total(values[0] + 0.0 * slacks),  # a slack that is not finite makes the sum so
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
    """A loss of targets: an error costs nothing up to epsilon, on both sides."""

    tasks = ("regression",)

    @abstractmethod
    def dual_bounds(self, excess: Floats, costs: Floats, rounding: float) -> tuple[Floats, Floats]:
        """The smallest and the largest |beta_i| that are optimal for the excess |error| - epsilon of each row."""

    @abstractmethod
    def row_totals(self, epsilon: float, rows: TubeRows, error: SlackError) -> RowTotals:
        """The sums of a certificate, rounding counted."""


def _total(terms: Floats) -> float:
    return float(compensated_sum(read_only(np.ascontiguousarray(terms))))
