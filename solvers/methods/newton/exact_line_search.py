"""The minimum of the smooth objective along a line, from the slacks of both ends and without a read of X.

The losses and their symbols are those of row_terms.py.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.types import Array
from solvers.methods.newton.row_terms import Smoothing

__all__ = ["Line", "search_line"]


_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


class Line(NamedTuple):
    """A step from a point (at 0) to another (at 1), apart from the rows."""

    scale: float
    """Rows of the data for each row of the sample."""
    start_slope: float
    """The derivative of the regulariser at 0."""
    norm: float
    """The squared length of the step."""
    whole_slope: float
    """The derivative of the objective at 0."""


@njit(cache=True, nogil=True)
def search_line(
    slack: Array, trial: Array, costs: Array, smoothing: Smoothing, line: Line, starts: Array, rates: Array
) -> float:
    """Return where on the line from slacks `slack` to `trial` the smooth objective is least.

    Newton's method finds the zero of the derivative, which is continuous and rises in straight pieces, kept inside a
    bracket. `trial` becomes the slacks there. `starts` and `rates` are scratch, with a number for each row.
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
            guess = min(guess, 10.0 * t)  # where nothing curves, nothing limits the step
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
