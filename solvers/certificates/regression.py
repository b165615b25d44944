"""The certificate of a regression problem.

The error is e_i = y_i - f(x_i), and its excess xi_i = max(0, |e_i| - epsilon). For any dual point beta (|beta_i| <= C_i
if p = 1; sum beta_i = 0 if the bias is free), with w(beta) = sum_i beta_i x_i,

    gap = 1/2 |w - w(beta)|^2 + sum_i [ C_i xi_i^p + conj_i(|beta_i|) + epsilon |beta_i| - beta_i e_i ]

where conj_i(a) = a^2 / (4 C_i) if p = 2 and 0 if p = 1. Every bracket is >= 0. The loss object adds the brackets. The
slacks on the two sides of the tube are e_i - epsilon and -e_i - epsilon. A bracket is the term of hinge.py for the
slack on the side of beta_i's sign, plus the loss on the other side.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from solvers.certificates.balance import balanced
from solvers.certificates.evaluation import (
    Evaluation,
    Precision,
    certificate_of,
    evaluation_of,
    read_products,
    slack_error,
)
from solvers.data.rows import read_only
from solvers.linalg.compensated import two_sum
from solvers.linalg.types import Array, Floats
from solvers.problem.losses.loss import TubeRows
from solvers.problem.problems import RegressionProblem
from solvers.result import Certificate

__all__ = ["certify_regression", "evaluation_of_regression"]


def certify_regression(
    problem: RegressionProblem, coef: Floats, intercept: float, beta: Floats | None, tol: float | None = None
) -> Certificate:
    """Certify (coef, intercept). beta is made feasible first. If it is None, a dual point is derived from the errors.

    `tol` is the relative gap to prove. Data is read again only if rounding prevents that proof.
    """
    source = "dual point from the margins" if beta is None else "dual point"
    return certificate_of(problem, evaluation_of_regression(problem, coef, intercept, beta), source, tol)


def evaluation_of_regression(
    problem: RegressionProblem, coef: Floats, intercept: float, beta: Floats | None
) -> Callable[[bool], Evaluation]:
    """Return the function that evaluates the primal-dual pair; its argument selects compensated products."""
    feasible = None if beta is None else _feasible(problem, beta)

    def evaluate(is_compensated: bool) -> Evaluation:
        return _evaluate(problem, coef, intercept, feasible, is_compensated)

    return evaluate


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
    rows = TubeRows(
        read_only(over),
        read_only(under),
        problem.targets,
        read_only(read.dual),
        problem.costs,
        read_only(read.sizes),
    )
    error = slack_error(data, coef, abs(intercept) + epsilon, read, precision)
    totals = problem.loss.row_totals(epsilon, rows, error)
    return evaluation_of(problem, coef, intercept, read, totals, precision)


def _dual_point_of(problem: RegressionProblem, errors: Floats) -> Floats:
    """Return the dual point that the optimality conditions imply for these errors."""
    costs, epsilon = problem.costs, problem.spec.epsilon
    rounding = 1e-9 * max(epsilon, float(np.abs(errors).max()))
    low, high = problem.loss.dual_bounds(np.abs(errors) - epsilon, costs, rounding)
    beta = np.sign(errors) * low
    if problem.spec.bias == "free":
        # Positive and negative beta must have the same sum. On the side with the smaller sum, rows at the edge of the
        # tube take the fraction of their range that makes both sums equal.
        lighter = -np.sign(beta.sum())
        at_edge, room = np.abs(lighter * errors - epsilon) <= rounding, high - low
        total = float(room[at_edge].sum())
        if total > 0.0:
            beta[at_edge] += lighter * min(1.0, abs(float(beta.sum())) / total) * room[at_edge]
    return beta


def _feasible(problem: RegressionProblem, beta: Floats) -> Floats:
    """Move beta into the dual's domain."""
    costs = problem.costs
    if beta.shape != costs.shape:
        raise ValueError(f"the dual point has shape {beta.shape} for {costs.size} rows; one number per row is needed")
    top = problem.loss.dual_top(costs)
    beta = np.clip(beta, -top, top)
    return balanced(beta) if problem.spec.bias == "free" else beta


# --- kernels. C: cost, a: |beta_i| ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _form_slacks(
    scores: Array, low: Array, intercept: float, targets: Array, epsilon: float, over: Array, under: Array
) -> None:
    """Write e_i - epsilon to over and -e_i - epsilon to under; e_i = y_i - scores_i - low_i - b; `low` can be empty."""
    for i in range(scores.size):
        error, lost = two_sum(targets[i], -scores[i])
        error, lost_too = two_sum(error, -intercept)
        rest = (lost + lost_too) - (low[i] if low.size > 0 else 0.0)
        above, lost = two_sum(error, -epsilon)
        over[i] = above + (lost + rest)
        below, lost = two_sum(-error, -epsilon)
        under[i] = below + (lost - rest)
