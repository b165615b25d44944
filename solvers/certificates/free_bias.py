"""Finds the best free bias for given scores. The engine sets it before a point with a free bias is certified."""

from collections.abc import Callable

import numpy as np

from solvers.linalg.types import Floats
from solvers.problem.problems import BinaryProblem, RegressionProblem

__all__ = ["minimising_bias"]

MOST_WIDENINGS = 60
"""Maximum doublings of the interval that must contain a root. After 60 doublings the interval is 2^60 times as long,
which is more than the 53 bits of a double can resolve. Larger: no effect."""


def minimising_bias(problem: BinaryProblem | RegressionProblem, scores: Floats, near: float = 0.0) -> float:
    """Return the b that minimises the losses at scores_i + b; the midpoint if the minimum is an interval.

    If the loss has a second derivative, a good guess `near` saves Newton steps.
    """
    counts = problem.costs > 0.0
    costs, scores = problem.costs[counts], scores[counts]
    if isinstance(problem, RegressionProblem):
        errors = problem.targets[counts] - scores
        return _best_for_targets(problem.loss.is_squared, errors, costs, problem.spec.epsilon, near)
    loss, signs = problem.loss, problem.signs[counts]
    breakpoints = loss.margin * signs - scores  # the b at which the slack of a row is 0
    if loss.is_piecewise_linear:
        return _where_slope_is_zero(breakpoints, costs, -float(costs[signs > 0].sum()))

    def slacks(b: float) -> Floats:
        return np.asarray(loss.margin - signs * (scores + b))

    def slope(b: float) -> float:
        return -float((signs * loss.derivative(slacks(b), costs)).sum())

    def derivatives(b: float) -> tuple[float, float]:
        curvatures = loss.curvature(slacks(b), costs)
        return slope(b), 0.0 if curvatures is None else float(curvatures.sum())

    if loss.curvature(slacks(near), costs) is not None:
        return _newton(derivatives, near)
    return _root(slope, float(breakpoints.min()), float(breakpoints.max()))


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of an increasing function `slope`. The zero can lie outside [low, high]."""
    width = max(high - low, 1.0)
    for _ in range(MOST_WIDENINGS):
        if slope(low) > 0.0:
            low -= width
        elif slope(high) < 0.0:
            high += width
        else:
            break
        width *= 2.0
    if slope(low) >= 0.0:
        return low
    if slope(high) <= 0.0:
        return high
    from scipy.optimize import brentq  # takes half a second to import, and only this case needs it

    # If costs differ by many orders of magnitude, brentq can reach its limit of steps. The last bias is then used: any
    # bias can be certified.
    eps = float(np.finfo(float).eps)
    return brentq(slope, low, high, xtol=1e-300, rtol=4 * eps, maxiter=500, disp=False)


def _best_for_targets(is_squared: bool, errors: Floats, costs: Floats, epsilon: float, near: float) -> float:
    """Return the bias that minimises the losses of a regression problem. `errors` are y_i minus the scores, at b =
    0."""
    if not is_squared:
        breakpoints = np.concatenate([errors - epsilon, errors + epsilon])
        return _where_slope_is_zero(breakpoints, np.tile(costs, 2), -float(costs.sum()))
    low, high = float(errors.max()) - epsilon, float(errors.min()) + epsilon
    if low <= high:
        return 0.5 * (low + high)  # all errors fit into the tube

    def derivatives(b: float) -> tuple[float, float]:
        left = errors - b
        beyond = left - np.clip(left, -epsilon, epsilon)
        return -float((costs * beyond).sum()), float((costs * (beyond != 0.0)).sum())

    return _newton(derivatives, near)


def _where_slope_is_zero(breakpoints: Floats, costs: Floats, slope_before: float) -> float:
    """Return the zero of a step function that starts at `slope_before` and rises at each breakpoint by the cost of its
    row."""
    order = np.argsort(breakpoints, kind="stable")
    slope = costs[order]
    np.cumsum(slope, out=slope)
    slope += slope_before
    rounding = 1e-12 * float(costs.sum())
    first = int(np.searchsorted(slope, -rounding))
    last = int(np.searchsorted(slope, rounding, side="right"))
    first, last = min(first, slope.size - 1), min(last, slope.size - 1)
    return float(0.5 * (breakpoints[order[first]] + breakpoints[order[last]]))


def _newton(derivatives: Callable[[float], tuple[float, float]], b: float) -> float:
    """Return the zero of the first derivative by Newton's method, or by bisection if a step leaves the bracket."""
    low, high = -np.inf, np.inf
    for _ in range(200):
        slope, curvature = derivatives(b)
        if slope == 0.0 or not curvature > 0.0:
            break
        low, high = (low, b) if slope > 0.0 else (b, high)
        following = b - slope / curvature
        if not low < following < high:
            following = 0.5 * (low + high)
            if not low < following < high:
                break
        b = following
    return b
