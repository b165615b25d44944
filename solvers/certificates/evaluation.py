"""Computes certificates from sums over the rows. The modules of all tasks share this code.

If alpha is a feasible dual point, so is t alpha for t in [0, 1], and

    D(t alpha)  >=  t linear - t^2 curved.

`curved` is 1/2 |w(alpha)|^2 plus the part of the conjugates that at t alpha is at most t^2 times its value at alpha.
`linear` is the rest of the dual value (hinge losses: sum alpha; regression: sum beta_i y_i - epsilon |beta_i|;
logistic: the entropies). The best t has a closed form. t = 0 proves that the optimum is at least 0, so a gap never
exceeds the primal value.

A certificate guarantees, for the exact real numbers that the doubles of X, y and the costs represent:

    dual_bound <= optimum <= P(w, b) <= primal        and        P(w, b) - optimum <= gap
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from solvers.data.rows import Rows, read_only
from solvers.linalg.compensated import normalise
from solvers.linalg.rounding import (
    LEAST,
    SUM_ERROR,
    UNIT,
    above,
    below,
    compensated_sum,
    gamma,
    squared_lengths,
)
from solvers.linalg.types import Floats
from solvers.problem.losses.loss import RowTotals, SlackError
from solvers.problem.problems import Problem
from solvers.result import Certificate

__all__ = ["Evaluation", "Precision", "Products", "Weights", "certificate_of", "clear_evaluation", "evaluation_of"]
__all__ += ["length_at_most", "read_products", "read_scores", "read_weights", "slack_error"]

CLEAR_PRIMAL = 1e-9
"""Largest relative width of the interval that is proved to contain the primal value. If the interval is wider, products
are computed again with compensated sums. Larger: fewer passes on long rows and badly scaled data, fewer correct digits.
The published primal value is too high by at most half of this. With 1e-10, the shortest runs on news20, whose rows have
up to thousands of entries, took a third longer."""
CLEAR_GAP = 2.0
"""Largest ratio of the gap with bounds on rounding errors to the gap without them, if no tolerance is given. Above this
ratio, products are computed again with compensated sums. Larger: fewer passes, larger published gaps. Set by hand; no
measurement is recorded."""


class Evaluation(NamedTuple):
    """Primal value, gap and dual value of a point. The bounds include rounding errors."""

    primal: float
    """Upper bound of P(w, b)."""
    least_primal: float
    """Lower bound of P(w, b)."""
    nominal_primal: float
    """P(w, b) as computed, without rounding errors."""
    gap: float
    """Upper bound of P(w, b) - D(alpha), computed as a sum of terms >= 0. Infinite for tasks that do not have such a
    sum."""
    nominal_gap: float
    """The gap as computed, without rounding errors."""
    linear: float
    """Lower bound of `linear` in the module's docstring: the part of the dual value that is linear in t."""
    curved: float
    """Upper bound of `curved` in the module's docstring: the part of the dual value that is quadratic in t."""
    losses_at_most: float
    """Upper bound of sum_i C_i l_i."""
    losses_at_least: float
    """Lower bound of sum_i C_i l_i."""
    dual_weights: Floats
    """w(alpha) as computed; the last number is the weight of the bias feature. Classes trained jointly have one row
    each."""
    dual_error: float
    """Upper bound of the distance of `dual_weights` from w(alpha)."""
    multipliers: Floats
    """The factor of each x_i in w(alpha): y_i alpha_i, beta_i, or one number per class."""


class Precision(NamedTuple):
    """Error terms of the products with the data, for plain products and for compensated ones.

    They follow from the error of a sum in rounding.py and the Cauchy-Schwarz inequality:

        score of a row       |computed x_i . w  - exact|  <=  scores * |x_i| |w|
        weights of a dual    |computed w(alpha) - exact|  <=  sums * sum_i |alpha_i| |x_i|

    Compensated products (linalg/compensated.py) also return magnitudes. Then sum_j |x_ij w_j| replaces |x_i| |w|, and
    the norm of sum_i |alpha_i x_i| replaces sum_i |alpha_i| |x_i|.
    """

    scores: float
    """Error of a row's slack, per unit of |x_i| |w| + |b| (or of the magnitudes)."""
    slack: float
    """Error of the slack, per unit of the slack."""
    underflow: float
    """Absolute error of the slack by underflow."""
    sums: float
    """Error of w(alpha), per unit of sum_i |alpha_i| |x_i| (or of the magnitudes)."""

    @classmethod
    def of(cls, data: Rows, *, is_compensated: bool) -> "Precision":
        entries, rows = data.longest_row + 8, data.n_rows + 8
        underflow = 8.0 * entries * LEAST
        if is_compensated:
            return cls((4.0 * entries * UNIT) ** 2, 8.0 * UNIT, underflow, (4.0 * rows * UNIT) ** 2)
        return cls(gamma(entries), 8.0 * UNIT, underflow, gamma(rows))


class Weights(NamedTuple):
    """w(alpha) = high + low; `low` is empty if the product is not compensated."""

    high: Floats
    low: Floats
    size: float
    """Upper bound of the norm of the vector of magnitudes sum_i |alpha_i x_ij|."""


class Products(NamedTuple):
    """The products X w and X' alpha of a certificate, and the units of their errors. The `low` parts are empty if the
    products are not compensated."""

    scores: Floats
    scores_low: Floats
    sizes: Floats
    """Compensated: the sum of the magnitudes |x_ij w_j| of each row. Otherwise |x_i|^2, of which a kernel takes the
    root."""
    dual: Floats
    """Signed multipliers of the rows, in the dual's domain."""
    weights: Floats
    weights_low: Floats
    dual_size: float | None
    """The unit of the error of the weights. None means sum_i |alpha_i| |x_i|, which a kernel computes later."""

    @property
    def are_squares(self) -> bool:
        return self.scores_low.size == 0


def read_products(
    data: Rows, coef: Floats, dual: Floats | Callable[[Floats], Floats], *, is_compensated: bool
) -> Products:
    """Compute X w and X' dual. `dual` is an array, or a function that computes it from the scores; a function needs a
    second pass over X."""
    if is_compensated:
        scores, low, sizes = read_scores(data, coef, is_compensated=True)
        multipliers = dual(scores) if callable(dual) else dual
        return Products(scores, low, sizes, multipliers, *read_weights(data, multipliers, is_compensated=True))
    scores, weights, none = np.empty(data.n_rows), np.zeros(data.n_features), np.empty(0)
    if callable(dual):
        data.margins(coef, scores)
        multipliers = dual(scores)
        data.add_weighted_column_sums(multipliers, weights)
    else:
        multipliers = dual
        data.margins_and_column_sums(coef, dual, scores, weights)
    return Products(scores, none, data.squared_norms(), multipliers, weights, none, None)


def slack_error(data: Rows, coef: Floats, offset: float, read: Products, precision: Precision) -> SlackError:
    """Return the error of the slacks. `offset` is the sum of the magnitudes that are added to a score to form a
    slack."""
    of_all = precision.scores * offset + precision.underflow
    if not read.are_squares:
        return SlackError(precision.scores, of_all, precision.slack, False)
    of_length = precision.scores * length_at_most(coef) * _length_factor(data)
    return SlackError(of_length, of_all + of_length * _least_length(data), precision.slack, True)


def _length_factor(data: Rows) -> float:
    """Return the factor f with |x_i| <= f sqrt(s_i) + `_least_length`, where s_i is the computed |x_i|^2."""
    return 1.0 + gamma(data.longest_row + 16)


def _least_length(data: Rows) -> float:
    """Return the largest error of a norm by underflow of squares."""
    return math.sqrt((data.longest_row + 1) * LEAST)


def read_scores(data: Rows, coef: Floats, *, is_compensated: bool) -> tuple[Floats, Floats, Floats]:
    """Return scores, their low parts, and upper bounds of the sums of the magnitudes |x_ij w_j|."""
    scores = np.empty(data.n_rows)
    if is_compensated:
        low, sizes = np.empty(data.n_rows), np.empty(data.n_rows)
        data.compensated_margins(coef, scores, low, sizes)
        return scores, low, sizes * (1.0 + gamma(data.longest_row + 8)) + data.longest_row * LEAST
    data.margins(coef, scores)
    return scores, np.empty(0), data.lengths() * length_at_most(coef)


def read_weights(data: Rows, multipliers: Floats, *, is_compensated: bool) -> Weights:
    high = np.zeros(data.n_features)
    if is_compensated:
        low, sizes = np.zeros(data.n_features), np.zeros(data.n_features)
        data.add_compensated_column_sums(multipliers, high, low, sizes)
        normalise(high, low)
        return Weights(high, low, length_at_most(sizes * (1.0 + gamma(data.n_rows + 8)) + data.n_rows * LEAST))
    data.add_weighted_column_sums(multipliers, high)
    return Weights(high, np.empty(0), above(compensated_sum(read_only(np.abs(multipliers) * data.lengths()))))


def length_at_most(vector: Floats) -> float:
    """Return |vector|, rounded up."""
    flat = read_only(np.ascontiguousarray(vector).reshape(-1))
    squared, _, _ = squared_lengths(flat, flat, flat[:0])
    return above(math.sqrt(squared * (1.0 + SUM_ERROR) + flat.size * LEAST))


def evaluation_of(
    problem: Problem, coef: Floats, intercept: float, read: Products, totals: RowTotals, precision: Precision
) -> Evaluation:
    """Evaluate one weight vector from its products with the data and the sums over the rows."""
    spec, n = problem.spec, problem.data.n_rows
    scaled_bias = intercept / spec.bias_scale if spec.bias == "regularized" else 0.0
    # The weight of the bias feature. It is 0 for a free bias, because the dual point is balanced.
    bias_weight = problem.bias_feature * _sum_of_dual(read) if spec.bias == "regularized" else 0.0
    weights = read_only(read.weights), read_only(read.weights_low)
    of_coef, of_difference, of_weights = squared_lengths(read_only(np.ascontiguousarray(coef)), *weights)
    underflow = (problem.data.n_features + n) * LEAST
    exact = 1.0 + SUM_ERROR
    size = read.dual_size
    if size is None:
        size = totals.reach * _length_factor(problem.data) + totals.mass * _least_length(problem.data)
    error = precision.sums * (size + problem.bias_feature * totals.mass) * exact + underflow
    error += 4.0 * UNIT * (abs(scaled_bias) + abs(bias_weight))

    def longest(squared: float, of_bias: float) -> float:
        return above(math.sqrt((squared + of_bias * of_bias) * exact + underflow) + error)

    dual_weights = np.empty(read.weights.size + 1)
    dual_weights[:-1], dual_weights[-1] = read.weights, bias_weight
    norm = 0.5 * of_coef + 0.5 * scaled_bias * scaled_bias
    of_bias = scaled_bias - bias_weight
    distance = longest(of_difference, of_bias)
    length = longest(of_weights, bias_weight)
    linear = totals.linear - SUM_ERROR * abs(totals.linear) - 2.0 * totals.linear_error - underflow
    return Evaluation(
        primal=above((norm + totals.losses_at_most) * exact + (underflow if coef.any() or scaled_bias else 0.0)),
        least_primal=below((norm + totals.losses_at_least) * (1.0 - SUM_ERROR) - underflow),
        nominal_primal=norm + totals.losses,
        gap=above(0.5 * distance * distance + totals.terms_at_most * exact + underflow),
        nominal_gap=0.5 * of_difference + 0.5 * of_bias * of_bias + totals.terms,
        linear=linear,
        curved=above(totals.conjugates * exact + 0.5 * length * length),
        losses_at_most=above(totals.losses_at_most * exact + underflow),
        losses_at_least=below(totals.losses_at_least * (1.0 - SUM_ERROR) - underflow),
        dual_weights=dual_weights,
        dual_error=above(error + 4.0 * UNIT * length),
        multipliers=read.dual,
    )


def _sum_of_dual(read: Products) -> float:
    return float(read.dual.sum()) if read.are_squares else float(compensated_sum(read_only(read.dual)))


def certificate_of(
    problem: Problem, evaluate: Callable[[bool], Evaluation], source: str, tol: float | None
) -> Certificate:
    """Build the certificate of an evaluation. Use compensated products if rounding errors decide whether `tol` is
    proved."""
    with np.errstate(over="ignore", invalid="ignore"):  # a certificate of overflowing numbers has no bound
        found = evaluate(False)
        certificate = _certificate(problem, found, source)
        if _is_unclear(problem, found, certificate, tol):
            certificate = _certificate(problem, evaluate(True), source)
    return certificate


def clear_evaluation(evaluate: Callable[[bool], Evaluation], wanted: float) -> Evaluation:
    """Evaluate a pair. Use compensated products if the gap is at least `wanted` and rounding errors are most of it."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = evaluate(False)
        if found.gap <= max(wanted, CLEAR_GAP * found.nominal_gap):
            return found
        again = evaluate(True)
    return again if again.gap < found.gap else found


def _is_unclear(problem: Problem, found: Evaluation, certificate: Certificate, tol: float | None) -> bool:
    if not math.isfinite(found.nominal_primal):
        return False
    if certificate.gap is None or certificate.relative_gap is None:
        return True  # error terms overflow: those of compensated products are smaller
    if not found.primal - found.least_primal <= CLEAR_PRIMAL * found.primal:
        return True
    if tol is None:
        return certificate.gap > CLEAR_GAP * found.nominal_gap
    return certificate.relative_gap > tol >= found.nominal_gap / max(found.nominal_primal, problem.primal_floor)


def _certificate(problem: Problem, found: Evaluation, source: str) -> Certificate:
    if not (math.isfinite(found.nominal_primal) and math.isfinite(found.primal)):
        # The numbers are so large that they or their error terms overflow.
        return Certificate(math.inf, None, None, None, source)
    bounds = [0.0]
    if found.linear > 0.0 and math.isfinite(found.linear):
        t = min(1.0, 0.5 * found.linear / found.curved) if found.curved > 0.0 else 1.0
        # Not t * t, which can underflow to 0 although the product does not.
        gained, lost = t * found.linear, t * (t * found.curved)
        bounds.append(gained - lost - 16.0 * UNIT * (gained + lost) - 4.0 * LEAST)
    bounds.append(found.least_primal - found.gap - 16.0 * UNIT * (found.least_primal + found.gap))
    bound = max(value for value in bounds if not math.isnan(value))
    bound = below(bound * (1.0 - problem.cost_error))
    gap = found.gap if math.isfinite(found.gap) else np.inf
    gap = min(gap, above(found.primal - bound), found.primal)
    return Certificate.of_pair(found.primal, bound, gap, problem.primal_floor, source)
