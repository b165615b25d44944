"""The least point of a line for Newton's method on the features: from the slacks of both ends, without X.

The losses and their symbols are those of row_terms.py.
"""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["search_line"]


_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def search_line(
    slack: Array,
    trial: Array,
    costs: Array,
    h: float,
    low: float,
    top: float,
    tube: float,
    before: Array,
    scale: float,
    start_slope: float,
    norm: float,
    whole_slope: float,
    starts: Array,
    rates: Array,
) -> float:
    """Where on the line from slacks `slack` (at 0) to `trial` (at 1) the smooth objective is least: Newton's method on
    its derivative, which is continuous and rises piece by piece, kept inside a bracket.

    `start_slope` is the derivative of the regulariser at 0, `norm` the square of the direction's length and
    `whole_slope` the derivative of all at 0. The slacks there become `trial`; starts and rates are room for the shares.
    """
    near, far, t = 0.0, np.inf, 1.0
    has_before, steep = before.size > 0, 1.0 / h
    steepest = abs(whole_slope)
    for i in range(slack.size):
        starts[i] = (before[i] if has_before else 0.0) + slack[i] * steep
        rates[i] = (trial[i] - slack[i]) * steep
    for _ in range(60):
        slope, curvature = _derivatives(starts, rates, costs, low, top, tube * steep, t)
        slope = start_slope + t * norm + scale * h * slope
        curvature = norm + scale * h * curvature
        if slope > 0.0:
            far = t
        else:
            near = t
        if abs(slope) <= 1e-3 * steepest or (far < np.inf and far - near <= 1e-12 * far):
            break
        guess = t - slope / curvature if curvature > 0.0 else np.inf
        if far == np.inf:
            guess = min(guess, 10.0 * t)  # where nothing curves there is no telling how far
        elif not near < guess < far:
            guess = 0.5 * (near + far)
        t = guess
    for i in range(slack.size):
        trial[i] = slack[i] + t * (trial[i] - slack[i])
    return t


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derivatives(
    starts: Array, rates: Array, costs: Array, low: float, top: float, tube: float, t: float
) -> tuple[float, float]:
    """Of the rows' terms along the line, at t and over h: first and second."""
    slope, curvature = 0.0, 0.0
    has_targets = low < 0.0
    for m in range(starts.size):
        x, rate = starts[m] + t * rates[m], rates[m] * costs[m]
        beyond = (abs(x) if has_targets else x) - tube
        r = min(max(beyond, 0.0), top)
        slope += (-r if has_targets and x < 0.0 else r) * rate
        curvature += rate * rates[m] if beyond > 0.0 and beyond < top else 0.0
    return slope, curvature
