"""The certificate of a regression problem.

With the error e_i = y_i - f(x_i), its excess xi_i = max(0, |e_i| - epsilon), and any dual point beta (|beta_i| <= C_i
if p = 1; sum beta_i = 0 if the bias is free), so that w(beta) = sum_i beta_i x_i,

    gap = 1/2 |w - w(beta)|^2 + sum_i [ C_i xi_i^p + conj_i(|beta_i|) + epsilon |beta_i| - beta_i e_i ]

where conj_i(a) = a^2 / (4 C_i) if p = 2 and 0 if p = 1. Every bracket is >= 0. With the slacks e_i - epsilon and
-e_i - epsilon of the two sides of the tube, it is the term of slack_terms.py on the side that beta pulls to, and the
loss on the other.
"""

import numpy as np
from numba import njit

from solvers.certificates.balance import balanced
from solvers.certificates.evaluation import (
    Evaluation,
    SlackError,
    certificate_of,
    evaluation_of,
    read_products,
    slack_error,
)
from solvers.certificates.rounding import BLOCK, LEAST_COST, SUM_ERROR, Precision, add_total
from solvers.certificates.slack_terms import loss_of, most_loss_of, share_of, term_of, totals_of
from solvers.data.rows import read_only
from solvers.linalg.compensated import two_sum
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import RegressionProblem
from solvers.result import Certificate

__all__ = ["certify_regression"]


def certify_regression(
    problem: RegressionProblem, coef: Floats, intercept: float, beta: Floats | None, tol: float | None = None
) -> Certificate:
    """What (coef, intercept) is worth; beta is made feasible first, or derived if the solver has none.

    `tol` is the relative gap that would do: rounding that does not matter for it is not worth another read.
    """
    feasible = None if beta is None else _feasible(problem, beta)
    source = "dual point from the margins" if beta is None else "dual point"

    def evaluate(is_compensated: bool) -> Evaluation:
        return _evaluate(problem, coef, intercept, feasible, is_compensated)

    return certificate_of(problem, evaluate, source, tol)


def _evaluate(
    problem: RegressionProblem, coef: Floats, intercept: float, beta: Floats | None, is_compensated: bool
) -> Evaluation:
    data, epsilon = problem.data, problem.spec.epsilon

    def suggested(scores: Floats) -> Floats:
        return _feasible(problem, _dual_point_of(problem, problem.targets - scores - intercept))

    read = read_products(data, coef, suggested if beta is None else beta, is_compensated=is_compensated)
    precision = Precision.of(data, is_compensated=is_compensated)
    over, under = np.empty(data.n_rows), np.empty(data.n_rows)
    scores = read_only(read.scores), read_only(read.scores_low)
    _form_slacks(*scores, intercept, problem.targets, epsilon, over, under)
    rows = (
        read_only(over),
        read_only(under),
        problem.targets,
        read_only(read.dual),
        problem.costs,
        read_only(read.sizes),
    )
    error = slack_error(data, coef, abs(intercept) + epsilon, read, precision)
    sums = _sum_rows(problem.spec.exponent, epsilon, rows, error)
    return evaluation_of(problem, coef, intercept, read, totals_of(sums), precision)


def _dual_point_of(problem: RegressionProblem, errors: Floats) -> Floats:
    """The dual point that the optimality conditions suggest for the errors of some weights."""
    costs, epsilon = problem.costs, problem.spec.epsilon
    if problem.spec.exponent == 2.0:
        return 2.0 * costs * (errors - np.clip(errors, -epsilon, epsilon))
    rounding = 1e-9 * max(epsilon, float(np.abs(errors).max()))
    beta = np.where(np.abs(errors) > epsilon + rounding, np.sign(errors) * costs, 0.0)
    if problem.spec.bias == "free":
        # The rows at the tube's edge that pull to the lighter side take the fraction that balances the two sides.
        lighter = -np.sign(beta.sum())
        at_edge = np.abs(lighter * errors - epsilon) <= rounding
        room = float(costs[at_edge].sum())
        if room > 0.0:
            beta[at_edge] = lighter * min(1.0, abs(float(beta.sum())) / room) * costs[at_edge]
    return beta


def _feasible(problem: RegressionProblem, beta: Floats) -> Floats:
    """beta moved into the dual's domain."""
    costs = problem.costs
    if beta.shape != costs.shape:
        raise ValueError(f"a dual point of shape {beta.shape} for {costs.size} rows")
    top = costs if problem.spec.exponent == 1.0 else np.where(costs >= LEAST_COST, np.inf, 0.0)
    beta = np.clip(beta, -top, top)
    return balanced(beta) if problem.spec.bias == "free" else beta


# --- kernels. C: cost, a: |beta_i| ------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def _form_slacks(
    scores: Array, low: Array, intercept: float, targets: Array, epsilon: float, over: Array, under: Array
) -> None:
    """over[i] = e_i - epsilon and under[i] = -e_i - epsilon, e_i = y_i - scores_i - low_i - b; `low` may be empty."""
    for i in range(scores.size):
        error, lost = two_sum(targets[i], -scores[i])
        error, lost_too = two_sum(error, -intercept)
        rest = (lost + lost_too) - (low[i] if low.size > 0 else 0.0)
        above, lost = two_sum(error, -epsilon)
        over[i] = above + (lost + rest)
        below, lost = two_sum(-error, -epsilon)
        under[i] = below + (lost - rest)


@njit(cache=True, nogil=True)
def _sum_rows(
    p: float, epsilon: float, rows: tuple[Array, Array, Array, Array, Array, Array], error: SlackError
) -> Array:
    """The compensated sums of RowTotals."""
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
        losses += loss_of(p, C, slack) + loss_there + 0.0 * slack  # a slack that is not finite makes the sum so
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
