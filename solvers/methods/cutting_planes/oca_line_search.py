"""Line searches of the optimised cutting planes: find the step length mu from w_b towards w_t.

With w(mu) = (1 - mu) w_b + mu w_t, the objective along the line is a parabola plus, for each row, C_i times a maximum
of linear functions ("lines") of mu:

    f(mu) = 1/2 |w(mu)|^2 + sum_i C_i max_m (p_im + mu q_im).

A binary row has two lines, 0 and its slack; a multi-class row has one line per class. Scores are linear in w, so the
scores at w_b and w_t suffice and no row of X is read.

`minimum` is exact (Arnosti and Kalita 2011, Algorithm 3). The derivative of f increases and jumps at the breakpoints of
the rows. The search finds the breakpoint where it becomes positive by selection, in linear time and without sorting. A
multi-class row can have several breakpoints. If the same line is highest at both ends of a bracket, the row has no
breakpoint inside the bracket and is settled. So each narrower bracket leaves fewer unsettled rows. `three_point_search`
is Algorithm 4 of the same paper, with mu > 0.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import BinaryProblem, MulticlassProblem

__all__ = ["BinaryLine", "ClassLine", "Line", "three_point_search"]


FIRST_STEP = 0.02
"""First distance between the three points: delta in Arnosti and Kalita (2011). It doubles whenever the points move.
Larger: fewer evaluations of the objective, less precise minima."""
SMALLEST = 1e-3
"""Least mu of the three-point search. With mu > 0, w_b always moves, which gives better planes than no move. Larger:
longer moves even if P rises. Set by hand; no measurement is recorded."""


class BinaryRows(NamedTuple):
    """The rows of a binary problem along a line."""

    costs: Array
    margins: Array
    """y_i f(x_i) at w_b."""
    towards: Array
    """y_i f(x_i) at w_t."""


class ClassRows(NamedTuple):
    """The rows of a multi-class problem along a line."""

    codes: Array
    """The class of each row, as an index."""
    costs: Array
    scores: Array
    """Scores of all classes at w_b, one line per row of X."""
    towards: Array
    """Scores of all classes at w_t."""


class Line(ABC):
    """f along one line, up to a constant. `square` is |w_t - w_b|^2, and `slope` is w_b . (w_t - w_b)."""

    def __init__(self, square: float, slope: float) -> None:
        self.square, self.slope = square, slope

    def values(self, *mus: float) -> list[float]:
        """Return f at each mu."""
        at = np.array(mus)
        return list(0.5 * self.square * at * at + self.slope * at + self._losses(at))

    @abstractmethod
    def _losses(self, mus: Floats) -> Floats:
        """Return the sum of the rows' losses at each mu."""

    @abstractmethod
    def minimum(self, guess: float) -> float:
        """Return the mu >= 0 that minimises f. The search starts at `guess` > 0; a good guess makes the search
        faster."""


class BinaryLine(Line):
    def __init__(self, problem: BinaryProblem, margins: Floats, towards: Floats, square: float, slope: float) -> None:
        """Take the margins y_i f(x_i) at w_b and, as `towards`, at w_t."""
        super().__init__(square, slope)
        self._rows = BinaryRows(problem.costs, read_only(margins), read_only(towards))

    def _losses(self, mus: Floats) -> Floats:
        return np.array([_sum_losses(self._rows, mu) for mu in mus])

    def minimum(self, guess: float) -> float:
        """Find, among four values of mu, the two between which the derivative changes sign; search between them."""
        probes = np.array([0.0, 0.5 * guess, guess, 2.0 * guess])
        slopes = np.zeros(4)
        _sum_slopes(self._rows, probes, slopes)
        slopes += self.slope + self.square * probes
        if slopes[0] >= 0.0:
            return 0.0
        last = int(np.flatnonzero(slopes < 0.0)[-1])
        low = float(probes[last])
        high = float(probes[last + 1]) if last < 3 else low - float(slopes[last]) / self.square
        n = self._rows.costs.size
        return float(_select_breakpoint(self._rows, self.square, self.slope, low, high, np.empty(n), np.empty(n)))


class ClassLine(Line):
    def __init__(
        self, problem: MulticlassProblem, scores: Floats, towards: Floats, square: float, slope: float
    ) -> None:
        super().__init__(square, slope)
        self._rows = ClassRows(problem.codes, problem.costs, read_only(scores), read_only(towards))

    def _losses(self, mus: Floats) -> Floats:
        return np.array([_sum_class_losses(self._rows, mu) for mu in mus])

    def minimum(self, guess: float) -> float:
        n = self._rows.costs.size
        lines = np.empty((3, n), dtype=np.int32)
        return float(_shrink_bracket(self._rows, self.square, self.slope, guess, np.arange(n), lines))


def three_point_search(line: Line, mu: float) -> float:
    """Move three points, starting around the given mu, until the middle one has the lowest value; return it."""
    step = FIRST_STEP
    middle = max(mu, SMALLEST)
    low, high = max(middle - step, SMALLEST), middle + step
    at_low, at_middle, at_high = line.values(low, middle, high)
    while at_high < at_middle:
        step *= 2.0
        low, middle, high = middle, high, high + step
        at_low, at_middle, (at_high,) = at_middle, at_high, line.values(high)
    while at_low < at_middle:
        step *= 2.0
        middle, low = low, max(low - step, SMALLEST)
        at_middle, (at_low,) = at_low, line.values(low)
    return middle


# --- kernels. A row's line is p + mu q; A and B are `square` and `slope` of the parabola ------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_FEW = 16  # breakpoints at or below this number are sorted instead of split again


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_losses(rows: BinaryRows, mu: float) -> float:
    costs, margins, towards = rows.costs, rows.margins, rows.towards
    total = 0.0
    for i in range(costs.size):
        total += costs[i] * max(0.0, 1.0 - margins[i] - mu * (towards[i] - margins[i]))
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_slopes(rows: BinaryRows, probes: Array, out: Array) -> None:
    """Write the derivative of the losses at four values of mu. The first is 0, where it is the right derivative."""
    costs, margins, towards = rows.costs, rows.margins, rows.towards
    s0 = s1 = s2 = s3 = 0.0
    mu1, mu2, mu3 = probes[1], probes[2], probes[3]
    for i in range(costs.size):
        p, q = 1.0 - margins[i], margins[i] - towards[i]
        rise = costs[i] * q
        s0 += rise if p > 0.0 or (p == 0.0 and q > 0.0) else 0.0
        s1 += rise if p + mu1 * q > 0.0 else 0.0
        s2 += rise if p + mu2 * q > 0.0 else 0.0
        s3 += rise if p + mu3 * q > 0.0 else 0.0
    out[0], out[1], out[2], out[3] = s0, s1, s2, s3


@njit(cache=True, nogil=True)
def _select_breakpoint(
    rows: BinaryRows, A: float, B: float, low: float, high: float, keys: Array, jumps: Array
) -> float:
    """Return the minimiser of f in [low, high]. `keys` and `jumps` are work space for breakpoints and their jumps."""
    costs, margins, towards = rows.costs, rows.margins, rows.towards
    slope, first, past = B, 0, 0
    for i in range(costs.size):
        p, q = 1.0 - margins[i], margins[i] - towards[i]
        at_low, at_high = p + low * q, p + high * q
        if (at_low >= 0.0 and at_high <= 0.0) or (at_low <= 0.0 and at_high >= 0.0):
            if q != 0.0:
                keys[past] = -p / q
                jumps[past] = costs[i] * abs(q)
                past += 1
            slope += costs[i] * min(q, 0.0)  # the slope left of the breakpoint
        elif at_low > 0.0:
            slope += costs[i] * q
    while past - first > _FEW:
        a, b, c = keys[first], keys[(first + past) // 2], keys[past - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        less, more, below, at = _split_at(keys, jumps, first, past, pivot)
        if slope + A * pivot + below >= 0.0:
            past = less
        elif slope + A * pivot + below + at >= 0.0:
            return float(pivot)
        else:
            slope += below + at
            first = more
    for i in range(first + 1, past):
        for j in range(i, first, -1):
            if keys[j] >= keys[j - 1]:
                break
            keys[j], keys[j - 1] = keys[j - 1], keys[j]
            jumps[j], jumps[j - 1] = jumps[j - 1], jumps[j]
    for i in range(first, past):
        if slope + A * keys[i] >= 0.0:
            break
        slope += jumps[i]
        if slope + A * keys[i] >= 0.0:
            return float(keys[i])
    return min(max(-slope / A, low), high)


@njit(cache=True, nogil=True)
def _split_at(keys: Array, jumps: Array, first: int, past: int, pivot: float) -> tuple[int, int, float, float]:
    """Partition keys into < pivot, equal, > pivot. Return (first equal, first greater, jumps below, jumps at pivot)."""
    below = at = 0.0
    less, k, more = first, first, past
    while k < more:
        key, jump = keys[k], jumps[k]
        if key < pivot:
            below += jump
            keys[k], jumps[k] = keys[less], jumps[less]
            keys[less], jumps[less] = key, jump
            less += 1
            k += 1
        elif key == pivot:
            at += jump
            k += 1
        else:
            more -= 1
            keys[k], jumps[k] = keys[more], jumps[more]
            keys[more], jumps[more] = key, jump
    return less, more, below, at


@njit(cache=True, nogil=True)
def _sum_class_losses(rows: ClassRows, mu: float) -> float:
    codes, costs, scores, towards = rows.codes, rows.costs, rows.scores, rows.towards
    total = 0.0
    for i in range(codes.size):
        start, end, own = scores[i], towards[i], codes[i]
        highest = -np.inf
        for m in range(start.size):
            value = start[m] + mu * (end[m] - start[m]) + (0.0 if m == own else 1.0)
            highest = max(highest, value)
        total += costs[i] * (highest - (start[own] + mu * (end[own] - start[own])))
    return total


@njit(cache=True, nogil=True)
def _shrink_bracket(data: ClassRows, A: float, B: float, guess: float, rows: Array, lines: Array) -> float:
    """Return the minimiser of f.

    `rows` holds the unsettled rows first. `lines` holds their highest line at both ends of the bracket and in between.
    """
    codes, costs, scores, towards = data.codes, data.costs, data.scores, data.towards
    at_low, at_high, at_new = lines[0], lines[1], lines[2]
    count, settled = rows.size, B
    low, low_slope = 0.0, settled + _find_lines(data, 0.0, rows, count, at_low)
    if low_slope >= 0.0:
        return 0.0
    limit = -low_slope / A
    high = min(guess, limit)
    while True:
        high_slope = settled + A * high + _find_lines(data, high, rows, count, at_high)
        if high_slope >= 0.0 or high >= limit:
            break
        low, low_slope = high, high_slope
        at_low[:count] = at_high[:count]
        high = min(2.0 * high, limit)
    for turn in range(200):
        kept = 0
        for k in range(count):
            if at_low[k] != at_high[k]:
                rows[kept], at_low[kept], at_high[kept] = rows[k], at_low[k], at_high[k]
                kept += 1
            else:
                settled += costs[rows[k]] * _line_slope(scores[rows[k]], towards[rows[k]], codes[rows[k]], at_low[k])
        count = kept
        if count == 0:
            break
        if turn % 2 == 0 and high_slope > low_slope:
            mu = low + (high - low) * -low_slope / (high_slope - low_slope)
        else:
            k = count // 2
            i = rows[k]
            mu = _find_crossing(scores[i], towards[i], codes[i], at_low[k], at_high[k])
        if not low < mu < high:
            mu = 0.5 * (low + high)
            if not low < mu < high:
                break
        slope = settled + A * mu + _find_lines(data, mu, rows, count, at_new)
        if slope >= 0.0:
            high, high_slope = mu, slope
            at_high[:count] = at_new[:count]
        else:
            low, low_slope = mu, slope
            at_low[:count] = at_new[:count]
    slope = settled
    for k in range(count):
        slope += costs[rows[k]] * _line_slope(scores[rows[k]], towards[rows[k]], codes[rows[k]], at_low[k])
    return min(max(-slope / A, low), high)


@njit(cache=True, nogil=True)
def _find_lines(data: ClassRows, mu: float, rows: Array, count: int, found: Array) -> float:
    """Write the highest line of each row at mu (of equally high lines, the steepest). Return the sum of the slopes of
    these lines."""
    codes, costs, scores, towards = data.codes, data.costs, data.scores, data.towards
    total = 0.0
    for k in range(count):
        i = rows[k]
        start, end, own = scores[i], towards[i], codes[i]
        highest, steepest, line = -np.inf, -np.inf, -1
        for m in range(start.size):
            slope = end[m] - start[m]
            value = start[m] + mu * slope + (0.0 if m == own else 1.0)
            if value > highest or (value == highest and slope > steepest):
                highest, steepest, line = value, slope, m
        found[k] = line
        total += costs[i] * (steepest - (end[own] - start[own]))
    return total


@njit(cache=True, nogil=True)
def _line_slope(start: Array, end: Array, own: int, m: int) -> float:
    return float((end[m] - start[m]) - (end[own] - start[own]))


@njit(cache=True, nogil=True)
def _find_crossing(start: Array, end: Array, own: int, left: int, right: int) -> float:
    """Return the mu at which line `left` meets line `right`."""
    ahead = (start[left] + (0.0 if left == own else 1.0)) - (start[right] + (0.0 if right == own else 1.0))
    gain = (end[right] - start[right]) - (end[left] - start[left])
    return float(ahead / gain) if gain > 0.0 else -1.0
