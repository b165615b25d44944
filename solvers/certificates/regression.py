"""The certificate of a regression problem.

With the error e_i = y_i - f(x_i), its excess xi_i = max(0, |e_i| - epsilon), and any dual point beta (|beta_i| <= C_i
if p = 1; sum beta_i = 0 if the bias is free), so that w(beta) = sum_i beta_i x_i,

    gap = 1/2 |w - w(beta)|^2 + sum_i [ C_i xi_i^p + conj_i(|beta_i|) + epsilon |beta_i| - beta_i e_i ]

where conj_i(a) = a^2 / (4 C_i) if p = 2 and 0 if p = 1. Every bracket is >= 0.
"""

import numpy as np
from numba import njit

from solvers.certificates.common import certificate_of, squared_norm
from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import RegressionProblem
from solvers.result import Certificate

__all__ = ["certify_regression"]


def certify_regression(problem: RegressionProblem, coef: Floats, intercept: float, beta: Floats | None) -> Certificate:
    """What (coef, intercept) is worth; beta is made feasible first, or derived if the solver has none."""
    spec, data = problem.spec, problem.data
    scores, weights = np.empty(data.n_rows), np.zeros(data.n_features)
    if beta is None:
        source = "dual point from the margins"
        data.margins(coef, scores)
        beta, balance = _feasible(problem, _dual_point_of(problem, problem.targets - scores - intercept))
        data.add_weighted_column_sums(beta, weights)
    else:
        source = "dual point"
        beta, balance = _feasible(problem, beta)
        data.margins_and_column_sums(coef, beta, scores, weights)
    rows = read_only(scores), problem.targets, problem.costs, read_only(beta)
    losses, terms = _sum_of_rows(spec.exponent == 2.0, spec.epsilon, intercept, *rows)
    scaled_bias = intercept / spec.bias_scale if spec.bias == "regularized" else 0.0
    primal = 0.5 * squared_norm(coef) + 0.5 * scaled_bias**2 + losses
    distance = squared_norm(coef - weights) + (scaled_bias - problem.bias_feature * balance) ** 2
    return certificate_of(problem, primal, 0.5 * distance + terms, source)


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


def _feasible(problem: RegressionProblem, beta: Floats) -> tuple[Floats, float]:
    """beta moved into the dual's domain, and its sum."""
    costs = problem.costs
    if beta.shape != costs.shape:
        raise ValueError(f"a dual point of shape {beta.shape} for {costs.size} rows")
    top = costs if problem.spec.exponent == 1.0 else np.where(costs > 0.0, np.inf, 0.0)
    beta = np.clip(beta, -top, top)
    if problem.spec.bias != "free":
        return beta, float(beta.sum())
    up, down = float(np.maximum(beta, 0.0).sum()), -float(np.minimum(beta, 0.0).sum())
    if up != down:
        with np.errstate(invalid="ignore"):  # an infinite one proves nothing
            beta[beta > 0.0 if up > down else beta < 0.0] *= min(up, down) / max(up, down)
    return beta, 0.0


# --- kernels. C: cost, a: |beta_i| ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _sum_of_rows(
    is_squared: bool, epsilon: float, intercept: float, scores: Array, targets: Array, costs: Array, beta: Array
) -> tuple[float, float]:
    """(the losses, the rows' terms of the gap: each a sum of terms >= 0, which compilers must leave in this order)"""
    losses, terms = 0.0, 0.0
    for i in range(scores.size):
        error, C, a = targets[i] - scores[i] - intercept, costs[i], abs(beta[i])
        excess = max(abs(error) - epsilon, 0.0)
        towards = error if beta[i] >= 0.0 else -error
        # Of a row that beta pulls the other way, nothing of the loss is made good.
        over = max(towards - epsilon, 0.0)
        of_under = a * max(epsilon - towards, 0.0)
        if is_squared:
            share = a / (2.0 * C) if C > 0.0 else 0.0
            losses += C * (excess * excess)
            terms += C * ((over - share) * (over - share) + (excess * excess if over == 0.0 else 0.0)) + of_under
        else:
            losses += C * excess
            terms += (C - a) * over + (C * excess if over == 0.0 else 0.0) + of_under
    return losses, terms
