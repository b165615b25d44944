"""The minimum of the smoothed objective along a line, from the slacks at both ends, without a pass over X.

The losses and symbols are those of row_terms.py.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.types import Array
from solvers.methods.newton.row_terms import Smoothing

__all__ = ["Line", "search_line"]


_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


class Line(NamedTuple):
    """The numbers of a step from one point (t = 0) to another (t = 1) that do not depend on single rows."""

    scale: float
    """Number of rows of the data per row of the sample."""
    start_slope: float
    """Derivative of the regulariser at t = 0."""
    norm: float
    """Squared norm of the step."""
    whole_slope: float
    """Derivative of the whole objective at t = 0."""


@njit(cache=True, nogil=True)
def search_line(
    slack: Array, trial: Array, costs: Array, smoothing: Smoothing, line: Line, starts: Array, rates: Array
) -> float:
    """Return the t that minimises the smoothed objective on the line from the slacks `slack` to `trial`.

    The derivative is continuous, piecewise linear and increasing. Newton's method, kept inside a bracket, finds its
    zero. `trial` becomes the slacks at t. `starts` and `rates` are work space with one number per row.
    """
    h, low, top, tube, before = smoothing.h, smoothing.low, smoothing.top, smoothing.tube, smoothing.before
    scale, start_slope, norm = line.scale, line.start_slope, line.norm
    near, far, t = 0.0, np.inf, 1.0
    has_before, steep = before.size > 0, 1.0 / h
    steepest = abs(line.whole_slope)
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
            guess = min(guess, 10.0 * t)  # without curvature nothing else limits the step
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
    """Return the first and second derivative of the rows' terms along the line, at t, divided by h."""
    slope, curvature = 0.0, 0.0
    has_targets = low < 0.0
    for m in range(starts.size):
        x, rate = starts[m] + t * rates[m], rates[m] * costs[m]
        beyond = (abs(x) if has_targets else x) - tube
        r = min(max(beyond, 0.0), top)
        slope += (-r if has_targets and x < 0.0 else r) * rate
        curvature += rate * rates[m] if beyond > 0.0 and beyond < top else 0.0
    return slope, curvature
