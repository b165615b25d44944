"""The certificate of a regression problem.

With the error r_i = y_i - f(x_i), its excess xi_i = max(0, |r_i| - epsilon), and any dual point beta (|beta_i| <= C_i
if p = 1), so that w(beta) = sum_i beta_i x_i,

    gap = 1/2 |w - w(beta)|^2 + sum_i [ C_i xi_i^p + conj_i(|beta_i|) + epsilon |beta_i| - beta_i r_i ]

where conj_i(a) = a^2 / (4 C_i) if p = 2 and 0 if p = 1. Every bracket is >= 0.
"""

import numpy as np

from solvers.problem import RegressionProblem
from solvers.result import Certificate
from solvers.rows import Floats

from .common import certificate_of, squared_norm

__all__ = ["certify_regression"]


def certify_regression(problem: RegressionProblem, coef: Floats, intercept: float, beta: Floats | None) -> Certificate:
    """What (coef, intercept) is worth; beta is made feasible first, or derived if the solver has none."""
    setting, costs = problem.setting, problem.costs
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(coef, scores)
    errors = problem.targets - scores - intercept
    excess = np.maximum(np.abs(errors) - setting.epsilon, 0.0)
    scaled_bias = intercept / setting.bias_scale if setting.bias == "regularized" else 0.0
    losses = costs * excess**setting.exponent
    primal = 0.5 * squared_norm(coef) + 0.5 * scaled_bias**2 + float(losses.sum())

    source = "dual point"
    if beta is None:
        beta = np.sign(errors) * (
            2.0 * costs * excess if setting.exponent == 2.0 else np.where(excess > 0.0, costs, 0.0)
        )
        source = "dual point from the margins"
    beta = np.where(costs > 0.0, beta, 0.0)
    if setting.exponent == 1.0:
        beta = np.clip(beta, -costs, costs)
    weights = np.empty(problem.data.n_features)
    problem.data.weighted_column_sums(beta, weights)
    bias_weight = problem.bias_feature * float(beta.sum())
    distance = squared_norm(coef - weights) + (scaled_bias - bias_weight) ** 2
    gap = 0.5 * distance + float(_fenchel_young(problem, errors, excess, beta).sum())
    return certificate_of(problem, primal, gap, source)


def _fenchel_young(problem: RegressionProblem, errors: Floats, excess: Floats, beta: Floats) -> Floats:
    """The bracket of every row, each >= 0; `over` says that beta pulls towards a target that is too far away."""
    costs, epsilon = problem.costs, problem.setting.epsilon
    size, towards = np.abs(beta), np.sign(beta) * errors
    over = towards >= epsilon
    slack = np.where(over, 0.0, size * (epsilon - towards))
    if problem.setting.exponent == 1.0:
        return np.asarray(np.where(over, (costs - size) * excess, costs * excess) + slack)
    share = np.divide(size, 2.0 * costs, out=np.zeros_like(size), where=costs > 0.0)
    return np.asarray(costs * np.where(over, (excess - share) ** 2, excess**2 + share**2) + slack)
