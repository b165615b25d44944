"""The losses that Newton methods see, row by row: squared hinge as it is, hinge smoothed around dual centres.

    max over 0 <= a <= U of  a xi - (a - c)^2 / (2 k),    attained at  alpha = clip(c + k xi, 0, U)

xi is a row's slack 1 - y f(x) and c its centre; k = C sharpness. Squared hinge is sharpness 2, c = 0 and no U; hinge
has U = C. With every stride-th row only, costs are `stride` times what they were. A row is free if 0 < alpha < U.
"""

from numba import njit

from solvers.linalg.types import Array

__all__ = ["choose_length", "slacks_of_scores", "weigh_rows"]


STEEP, LONGEST = 0.25, 8.0
"""Of the slope at its beginning: if P still falls so steeply at a step's end, so many times the step is looked at."""


@njit(cache=True, nogil=True)
def slacks_of_scores(signs: Array, scores: Array) -> None:
    for i in range(signs.size):
        scores[i] = 1.0 - signs[i] * scores[i]


@njit(cache=True, nogil=True)
def _alpha(C: float, c: float, slack: float, sharpness: float, squared: bool) -> float:
    a = max(c + C * sharpness * slack, 0.0)
    return a if squared else min(a, C)


@njit(cache=True, nogil=True)
def weigh_rows(
    costs: Array, signs: Array, slack: Array, centres: Array, stride: int, sharpness: float, squared: bool,
    alpha: Array, signed: Array, free: Array,
) -> tuple[float, float, int]:  # fmt: skip
    """alpha, -y alpha and the free rows; returns (true loss, the rows' part of the gap, number of free rows)."""
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
def choose_length(
    before: Array, after: Array, costs: Array, centres: Array, stride: int, sharpness: float, squared: bool,
    ws: float, ss: float, first_slope: float, least_decrease: float, is_drowned: bool, is_least: bool,
) -> float:  # fmt: skip
    """How much of the step s to go, from the slacks before and after it.

    All of it if P decreases about as predicted: the exact minimum along s lies on kinks, where few rows are free
    and the next quadratic knows little. Otherwise, or if P still falls steeply, to that minimum.
    """
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
    decrease = -0.5 * (first_slope + slope) if is_drowned else -value
    falls = slope < STEEP * first_slope and not is_least
    if decrease > least_decrease and not falls:
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
        # The derivative rises in straight pieces: Newton's method finds its zero, bisection where it would leave.
        following = t - slope / bend
        if not (low < following < high):
            following = 0.5 * (low + high)
        if not abs(following - t) > 1e-3 * t:
            break
        t = following
    return t
