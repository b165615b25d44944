"""Terms of the rows in truncated Newton: squared hinge as it is, and hinge smoothed around centres.

    max over 0 <= a <= U of  a xi - (a - c)^2 / (2 k),    attained at  alpha = clip(c + k xi, 0, U)

xi is a row's slack 1 - y f(x), c its centre, and k = C sharpness. Squared hinge has sharpness 2, c = 0 and no upper
bound U; hinge has U = C. If only every stride-th row is used, costs are multiplied by `stride`. A row is free if 0 <
alpha < U.
"""

from typing import NamedTuple

from numba import njit

from solvers.linalg.types import Array
from solvers.methods.tncg.line import LONGEST, STEEP, Line

__all__ = ["HingeTerms", "choose_length", "slacks_of_scores", "weigh_rows"]


class HingeTerms(NamedTuple):
    """The rows in use and the smoothing that defines their terms."""

    costs: Array
    signs: Array
    centres: Array
    """The centre c of each row."""
    stride: int
    """1: all rows. Otherwise every stride-th row is used."""
    sharpness: float
    """k / C."""
    squared: bool
    """Whether the loss is squared hinge: alpha then has no upper bound."""


@njit(cache=True, nogil=True)
def slacks_of_scores(signs: Array, scores: Array) -> None:
    for i in range(signs.size):
        scores[i] = 1.0 - signs[i] * scores[i]


@njit(cache=True, nogil=True)
def _alpha(C: float, c: float, slack: float, sharpness: float, squared: bool) -> float:
    a = max(c + C * sharpness * slack, 0.0)
    return a if squared else min(a, C)


@njit(cache=True, nogil=True)
def weigh_rows(terms: HingeTerms, slack: Array, alpha: Array, signed: Array, free: Array) -> tuple[float, float, int]:
    """Write alpha, signed = -y alpha and the free rows; return (true loss, rows' part of the gap, number of free
    rows)."""
    costs, signs, centres = terms.costs, terms.signs, terms.centres
    stride, sharpness, squared = terms.stride, terms.sharpness, terms.squared
    loss, apart, count = 0.0, 0.0, 0
    alpha[:] = 0.0
    for i in range(0, costs.size, stride):
        C = costs[i] * stride
        if C == 0.0:
            continue
        xi = slack[i]
        a = _alpha(C, centres[i], xi, sharpness, squared)
        alpha[i] = a
        signed[i] = -signs[i] * a
        if a > 0.0 and (squared or a < C):
            free[count] = i
            count += 1
        if squared:
            loss += C * max(xi, 0.0) ** 2
        else:
            loss += C * max(xi, 0.0)
            apart += (C - a) * xi if xi > 0.0 else -a * xi
    return loss, apart, count


@njit(cache=True, nogil=True, error_model="numpy")
def choose_length(terms: HingeTerms, before: Array, after: Array, line: Line) -> float:
    """Choose the step length along s from the slacks before and after the step.

    The length is 1 if P decreases about as predicted. The exact minimum along s would lie on kinks, where few rows are
    free and the next quadratic model is poor. If P decreases too little, or still falls steeply at the end of the step,
    the length is that of the exact minimum.
    """
    costs, centres, stride = terms.costs, terms.centres, terms.stride
    sharpness, squared = terms.sharpness, terms.squared
    ws, ss = line.ws, line.ss
    slope, bend, value = ws + ss, ss, ws + 0.5 * ss
    for i in range(0, costs.size, stride):
        C = costs[i] * stride
        if C == 0.0:
            continue
        change = after[i] - before[i]
        a0 = _alpha(C, centres[i], before[i], sharpness, squared)
        a1 = _alpha(C, centres[i], after[i], sharpness, squared)
        slope += a1 * change
        value += a1 * after[i] - a0 * before[i]
        value -= ((a1 - centres[i]) ** 2 - (a0 - centres[i]) ** 2) / (2.0 * C * sharpness)
    decrease = -0.5 * (line.slope + slope) if line.is_drowned else -value
    falls = slope < STEEP * line.slope and not line.is_least
    if decrease > line.least_decrease and not falls:
        return 1.0
    low, high = (1.0, LONGEST) if slope < 0.0 else (0.0, 1.0)
    t = 0.5 * (low + high)
    for _ in range(60):
        slope, bend = ws + t * ss, ss
        for i in range(0, costs.size, stride):
            C = costs[i] * stride
            change = after[i] - before[i]
            a = _alpha(C, centres[i], before[i] + t * change, sharpness, squared)
            slope += a * change
            if a > 0.0 and (squared or a < C):
                bend += C * sharpness * change * change
        if slope > 0.0:
            high = t
        else:
            low = t
        # The derivative is piecewise linear and increasing: Newton's method, or bisection if a step leaves the bracket.
        following = t - slope / bend
        if not (low < following < high):
            following = 0.5 * (low + high)
        if not abs(following - t) > 1e-3 * t:
            break
        t = following
    return t
