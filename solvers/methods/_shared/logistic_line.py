"""The sum of logistic losses along a line segment, given the slacks s = -y f(x) at both end points."""

from numba import njit

from solvers.linalg.softplus import exp_of_minus, log1p_of_unit
from solvers.linalg.types import Array

__all__ = ["logistic_change", "logistic_derivatives"]

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True, fastmath=_SUM, error_model="numpy")
def logistic_derivatives(slack: Array, trial: Array, costs: Array, t: float) -> tuple[float, float]:
    """Return the first and second derivative, at t, of the sum of losses at slack + t (trial - slack)."""
    slope, curvature = 0.0, 0.0
    for i in range(slack.size):
        change = trial[i] - slack[i]
        s = slack[i] + t * change
        e = exp_of_minus(abs(s))
        inverse = 1.0 / (1.0 + e)
        share = (1.0 if s >= 0.0 else e) * inverse
        slope += costs[i] * share * change
        curvature += costs[i] * (e * inverse * inverse) * (change * change)
    return slope, curvature


@njit(cache=True, nogil=True, fastmath=_SUM, error_model="numpy")
def logistic_change(slack: Array, trial: Array, costs: Array) -> float:
    """Return the sum of losses at `trial` minus the sum at `slack`. Subtracting row by row limits rounding errors."""
    total = 0.0
    for i in range(slack.size):
        before, after = slack[i], trial[i]
        of_after = max(after, 0.0) + log1p_of_unit(exp_of_minus(abs(after)))
        of_before = max(before, 0.0) + log1p_of_unit(exp_of_minus(abs(before)))
        total += costs[i] * (of_after - of_before)
    return total
