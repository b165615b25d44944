"""The certificate of a binary problem.

With slack_i = 1 - y_i f(x_i), xi_i = max(0, slack_i) and any dual point alpha (section by section in
docs/solvers.md),

    gap = 1/2 |w - w(alpha)|^2 + sum_i [ C_i xi_i^p + conj_i(alpha_i) - alpha_i slack_i ]

where every term is >= 0, so nothing cancels. It is written with whole-array operations of numpy on
purpose: slower than a kernel, but short enough to be checked by reading.
"""

import numpy as np

from solvers.problem import BinaryProblem
from solvers.result import Certificate
from solvers.rows import Floats

from .common import certificate_of, squared_norm

__all__ = ["certify_binary", "feasible_dual_point", "minimising_bias"]

ROWS_AT_ONCE = 16_384
"""Whose numbers stay in the cache from one array operation to the next."""


def certify_binary(problem: BinaryProblem, coef: Floats, intercept: float, alpha: Floats | None) -> Certificate:
    """What (coef, intercept) is worth; alpha is made feasible first, or derived if the solver has none."""
    source = "dual point"
    if alpha is None:
        alpha, source = _dual_point_of(problem, coef, intercept), "dual point from the margins"
    alpha = feasible_dual_point(problem, alpha)
    setting = problem.setting
    scaled_bias = intercept / setting.bias_scale if setting.bias == "regularized" else 0.0
    signed = alpha * problem.signs
    scores, weights = np.empty(problem.data.n_rows), np.zeros(problem.data.n_features)
    problem.data.margins_and_column_sums(coef, signed, scores, weights)
    primal = 0.5 * squared_norm(coef) + 0.5 * scaled_bias**2
    terms = 0.0
    for first in range(0, problem.data.n_rows, ROWS_AT_ONCE):
        place = slice(first, first + ROWS_AT_ONCE)
        slack = _slack(scores[place], problem.signs[place], intercept)
        over = np.maximum(slack, 0.0)
        losses = problem.costs[place] * _power(over, setting.exponent)
        primal += float(losses.sum())
        distances = over, over - slack, losses
        terms += float(_fenchel_young(setting.exponent, problem.costs[place], *distances, alpha[place]).sum())
    bias_weight = problem.bias_feature * float(signed.sum())
    gap = 0.5 * squared_norm(coef - weights) + 0.5 * (scaled_bias - bias_weight) ** 2 + terms
    return certificate_of(problem, primal, gap, source)


def minimising_bias(problem: BinaryProblem, scores: Floats) -> float:
    """The b that minimises sum_i C_i max(0, 1 - y_i (scores_i + b))^p exactly (middle of a flat stretch)."""
    p, costs, signs = problem.setting.exponent, problem.costs, problem.signs
    counts = costs > 0.0
    costs, signs, scores = costs[counts], signs[counts], scores[counts]
    # Row i starts or stops to be a violator at b = y_i - scores_i.
    breakpoints = signs - scores
    order = np.argsort(breakpoints, kind="stable")
    breakpoints = breakpoints[order]
    if p == 1.0:
        # Crossing any breakpoint from left to right raises the slope by that row's cost.
        slope = np.cumsum(costs[order]) - float(costs[signs > 0].sum())
        rounding = 1e-12 * float(costs.sum())
        first = int(np.searchsorted(slope, -rounding))
        last = int(np.searchsorted(slope, rounding, side="right"))
        first, last = min(first, slope.size - 1), min(last, slope.size - 1)
        return float(0.5 * (breakpoints[first] + breakpoints[last]))

    def derivative(b: float) -> float:
        xi = np.maximum(1.0 - signs * (scores + b), 0.0)
        return float(-(costs * signs * xi ** (p - 1.0)).sum())

    low, high = float(breakpoints[0]), float(breakpoints[-1])
    if derivative(low) >= 0.0:
        return low
    if derivative(high) <= 0.0:
        return high
    from scipy.optimize import brentq  # half a second to import, and only this case needs it

    return float(brentq(derivative, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps))


def _slack(scores: Floats, signs: Floats, intercept: float) -> Floats:
    return np.asarray(1.0 - signs * (scores + intercept))


def _power(base: Floats, p: float) -> Floats:
    """base^p; the general power is slow, and nearly every problem has one of these two."""
    if p == 1.0:
        return base
    return base * base if p == 2.0 else base**p


def _dual_point_of(problem: BinaryProblem, coef: Floats, intercept: float) -> Floats:
    """The dual point that the optimality conditions suggest for the margins of these weights."""
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(coef, scores)
    slack = _slack(scores, problem.signs, intercept)
    p = problem.setting.exponent
    if p > 1.0:
        return np.asarray(p * problem.costs * _power(np.maximum(slack, 0.0), p - 1.0))
    rounding = 1e-9 * max(1.0, float(np.abs(slack).max()))
    alpha = np.where(slack > rounding, problem.costs, 0.0)
    on_margin = np.abs(slack) <= rounding
    if problem.setting.bias != "free":
        alpha[on_margin] = 0.5 * problem.costs[on_margin]
        return alpha
    # The rows on the margin of the lighter side take the fraction that balances the two sides.
    excess = float((alpha * problem.signs).sum())
    lighter = on_margin & (problem.signs * excess < 0.0)
    room = float(problem.costs[lighter].sum())
    if room > 0.0:
        alpha[lighter] = min(1.0, abs(excess) / room) * problem.costs[lighter]
    return alpha


def feasible_dual_point(problem: BinaryProblem, alpha: Floats) -> Floats:
    """alpha moved into the dual's domain: rounding for a solver's own point, more for a derived one."""
    if problem.setting.exponent == 1.0:
        alpha = np.clip(alpha, 0.0, problem.costs)
    else:
        alpha = np.maximum(alpha, 0.0)
        alpha[problem.costs == 0.0] = 0.0
    if problem.setting.bias == "free":
        positive = problem.signs > 0.0
        sums = float(alpha[positive].sum()), float(alpha[~positive].sum())
        for side, own, other in ((positive, *sums), (~positive, *sums[::-1])):
            if own > other:
                alpha[side] *= other / own
    return alpha


def _fenchel_young(p: float, costs: Floats, over: Floats, under: Floats, losses: Floats, alpha: Floats) -> Floats:
    """C_i xi_i^p + conj_i(alpha_i) - alpha_i slack_i for every row, each term >= 0; slack = over - under."""
    if p == 1.0:
        return np.asarray((costs - alpha) * over + alpha * under)
    share = np.divide(alpha, p * costs, out=np.zeros_like(alpha), where=costs > 0.0)
    if p == 2.0:
        # The square is completed: C (xi - alpha / (2 C))^2, where xi = 0 leaves alpha |slack| beside it.
        return np.asarray(costs * (over - share) ** 2 + alpha * under)
    # Through logarithms: the exponent p / (p - 1) has no bound as p approaches 1.
    with np.errstate(divide="ignore", over="ignore"):
        conjugate = (p - 1.0) * costs * np.exp(p / (p - 1.0) * np.log(share))
    return np.asarray(np.maximum(losses + conjugate - alpha * over, 0.0) + alpha * under)
