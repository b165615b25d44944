"""The linear SVM on a line, solved exactly. For projections z_i = L . x_i and N = |L|^2 it is

    min over (s, b) of  1/2 N s^2 + sum_i C_i max(0, 1 - y_i (s z_i + b))^p,    p = 1 or 2.

Hinge (p = 1), O(n log n). Sort the positive rows by ascending z and the negative rows by descending z, and give each
row a mass equal to its cost. delta(m) is the difference of z between the positive and the negative row at cumulative
mass m, for m up to the smaller total mass of the two classes. For a slope s >= 0 and the best b, the losses are the
integral over m of max(0, 2 - s delta(m)). delta never decreases, so one sweep over m finds the s at which the
derivative changes sign. The rows are sorted only as far as the sweep goes (incremental quicksort, Paredes and Navarro
2006). The mass that the sweep took from each row is its dual variable. If no s > 0 lowers the value, the sweep is
repeated with -z; if that fails too, the best slope is 0.

Squared hinge (p = 2) has no such pairs. It is solved by Newton's method in (s, b), which needs a few sums over all rows
and no sorting.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats

__all__ = ["Line", "LineOptimum"]


class LineOptimum(NamedTuple):
    slope: float
    bias: float
    value: float
    """The minimum."""
    rise: float = 0.0
    """If the slope is 0: the derivative of the value with respect to |w| at s = 0, the smaller of the two directions.
    It ranks lines on which s = 0 is optimal. Always 0 for squared hinge."""


class Line:
    """Solves the problem on one line after another, with the same signs, costs and loss."""

    def __init__(self, signs: Floats, costs: Floats, *, is_squared: bool) -> None:
        self._signs, self._costs = read_only(signs), read_only(costs)
        self._is_squared = is_squared
        sides = [np.flatnonzero((costs > 0.0) & (signs == sign)) for sign in (1.0, -1.0)]
        members = np.concatenate(sides).astype(np.uint64)
        self._sides = _Sides(read_only(members), sides[0].size, self._costs)
        self._order = _Order(np.empty(members.size), members.copy(), np.empty((2, members.size + 1), np.int64))
        self._mass = 0.0

    def solve(self, z: Floats, squared_norm: float, near: LineOptimum | None = None) -> LineOptimum:
        """Return the optimum for these projections. For squared hinge, Newton's method starts from `near`, if given."""
        z = read_only(z)
        if self._is_squared:
            return self._solve_squared(z, squared_norm, near)
        likely, rises = _choose_direction(z, self._sides), []
        for direction in (likely, -likely):
            s, b, mass, reach = self._sweep(z, squared_norm, direction)
            if s > 0.0:
                return LineOptimum(direction * s, b, 2.0 * mass - 0.5 * squared_norm * s * s)
            rises.append(-reach / np.sqrt(squared_norm))
        return LineOptimum(0.0, b, 2.0 * mass, float(min(rises)))

    def dual_point(self, z: Floats, optimum: LineOptimum) -> Floats:
        """Return alpha with sum_i alpha_i y_i = 0 and sum_i alpha_i y_i z_i = s N, for the problem solved last."""
        if self._is_squared:
            slack = 1.0 - self._signs * (optimum.slope * z + optimum.bias)
            return np.asarray(2.0 * self._costs * np.maximum(slack, 0.0))
        if optimum.slope != 0.0:
            return self._taken()
        # Slope 0 is optimal: the value falls in neither direction. A convex combination of the dual points of both
        # directions satisfies both equations.
        reaches, points = [], []
        for direction in (1.0, -1.0):
            reaches.append(max(0.0, -self._sweep(read_only(z), 0.0, direction).reach))
            points.append(self._taken())
        share = reaches[0] / sum(reaches) if reaches[0] > 0.0 else 0.0
        return np.asarray(points[0] + share * (points[1] - points[0]))

    def _sweep(self, z: Floats, squared_norm: float, direction: float) -> "_Sweep":
        """Sweep in one direction; keep the order of the rows and the mass for the dual point."""
        sweep = _sweep_pairs(z, self._sides, squared_norm, direction, self._order)
        self._mass = sweep.mass
        return sweep

    def _taken(self) -> Floats:
        """Return the dual variable of each row: the mass that the last sweep took from it."""
        alpha, rows, positives = np.zeros(self._costs.size), self._order.rows, self._sides.positives
        for side in (rows[:positives], rows[positives:]):
            _take_mass(side, self._costs, self._mass, alpha)
        return alpha

    def _solve_squared(self, z: Floats, squared_norm: float, near: LineOptimum | None) -> LineOptimum:
        positives = self._sides.positives
        if positives in (0, self._sides.members.size):
            return LineOptimum(0.0, 1.0 if positives else -1.0, 0.0)
        # Squares and products of projections lose the fewest digits when measured from their mean.
        centre = float((self._costs * z).sum() / self._costs.sum())
        if near is None:
            s, b = 0.0, float((self._costs * self._signs).sum() / self._costs.sum())
        else:
            s, b = near.slope, near.bias + near.slope * centre
        s, b, value = _descend_newton(read_only(z - centre), self._signs, self._costs, squared_norm, s, b)
        return LineOptimum(s, b - s * centre, value)


# --- kernels. P, Q: keys of the positive and negative rows, the most violating row first; N: |L|^2; c: costs ----------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_SHORT = 16  # parts of at most this length are sorted by insertion
_STEPS = 100  # maximum Newton steps, and maximum shortenings of each


class _Sides(NamedTuple):
    """The rows with a positive cost, those of the positive class first."""

    members: Array
    positives: int
    c: Array


class _Order(NamedTuple):
    """Work space of a sweep: the rows of both classes by rising key, as far as they are sorted."""

    keys: Array
    rows: Array
    stacks: Array
    """One stack per class, for its incremental quicksort."""


class _Sweep(NamedTuple):
    slope: float
    """Best slope in this direction; 0 if no positive slope lowers the value."""
    bias: float
    """Midpoint of the biases that are optimal for the slope."""
    mass: float
    """Mass taken from each class."""
    reach: float
    """Integral of delta over that mass."""


class _Derivatives(NamedTuple):
    """Value, gradient and Hessian of the squared hinge problem at (s, b)."""

    value: float
    g_s: float
    g_b: float
    H_ss: float
    H_sb: float
    H_bb: float


@njit(cache=True, nogil=True)
def _choose_direction(z: Array, sides: _Sides) -> float:
    """Guess the sign of the best slope: return 1 if the mean of the positive rows is at least that of the negative
    rows, else -1."""
    members, positives, c = sides.members, sides.positives, sides.c
    mass, moment = np.zeros(2), np.zeros(2)
    for k in range(members.size):
        side = 0 if k < positives else 1
        mass[side] += c[members[k]]
        moment[side] += c[members[k]] * z[members[k]]
    return 1.0 if moment[0] * mass[1] >= moment[1] * mass[0] else -1.0


@njit(cache=True, nogil=True)
def _sweep_pairs(z: Array, sides: _Sides, N: float, direction: float, order: _Order) -> _Sweep:
    """Find the best slope in this direction. With N = 0 take the whole mass, for the dual point at slope 0."""
    members, positives, c = sides.members, sides.positives, sides.c
    keys, rows, stacks = order.keys, order.rows, order.stacks
    for k in range(members.size):
        rows[k] = members[k]
        keys[k] = direction * z[members[k]] if k < positives else -direction * z[members[k]]
    P, Q, P_rows, Q_rows = keys[:positives], keys[positives:], rows[:positives], rows[positives:]
    P_sorted, P_depth, Q_sorted, Q_depth = 0, 1, 0, 1
    stacks[0, 0], stacks[1, 0] = P.size, Q.size
    i, j, mass, reach = 0, 0, 0.0, 0.0
    P_last, Q_last, P_left, Q_left = -np.inf, -np.inf, 0.0, 0.0
    is_new_P, is_new_Q = True, True
    while True:
        if i >= P_sorted and i < P.size:
            P_sorted, P_depth = _sort_stretch(P, P_rows, i, stacks[0], P_depth)
        if j >= Q_sorted and j < Q.size:
            Q_sorted, Q_depth = _sort_stretch(Q, Q_rows, j, stacks[1], Q_depth)
        p, q = P[i] if i < P.size else np.inf, Q[j] if j < Q.size else np.inf
        is_end = i == P.size or j == Q.size
        # The minimum lies between two kinks: all earlier pairs are inside the margin, this pair is outside.
        if reach > 0.0 and N > 0.0 and (is_end or reach * (p + q) >= 2.0 * N):
            s = reach / N
            b = 0.5 * (max(1.0 - s * p, s * Q_last - 1.0) + min(1.0 - s * P_last, s * q - 1.0))
            return _Sweep(s, b, mass, reach)
        if is_end:
            return _Sweep(0.0, 1.0 * (i < P.size) - 1.0 * (j < Q.size), mass, reach)
        if is_new_P:
            P_left = c[P_rows[i]]
        if is_new_Q:
            Q_left = c[Q_rows[j]]
        delta, block = p + q, min(P_left, Q_left)
        if N > 0.0 and delta > 0.0 and (reach + block * delta) * delta >= 2.0 * N:
            s = 2.0 / delta
            return _Sweep(s, 0.5 * s * (q - p), mass + min(block, max(0.0, (N * s - reach) / delta)), N * s)
        reach += block * delta
        mass += block
        P_last, Q_last = p, q
        is_new_P, is_new_Q = P_left <= Q_left, Q_left <= P_left
        P_left -= block
        Q_left -= block
        i += is_new_P
        j += is_new_Q


@njit(cache=True, nogil=True)
def _sort_stretch(keys: Array, rows: Array, first: int, stack: Array, depth: int) -> tuple[int, int]:
    """Sort at least one more place, starting at `first`; return (end of the sorted part, depth of the stack).

    All places before `first` are sorted. The stack holds the ends of parts, each with larger keys than the part before
    it: first the size, then the places of pivots.
    """
    while stack[depth - 1] - first > _SHORT:
        past = stack[depth - 1]
        middle, last = (first + past) // 2, past - 1
        # The median of three moves to the front as the pivot; the largest of the three ends the search from the left.
        if keys[middle] > keys[last]:
            _swap(keys, rows, middle, last)
        if keys[first] > keys[last]:
            _swap(keys, rows, first, last)
        if keys[first] < keys[middle]:
            _swap(keys, rows, first, middle)
        pivot, left, right = keys[first], first, past
        while True:
            left += 1
            while keys[left] < pivot:
                left += 1
            right -= 1
            while keys[right] > pivot:
                right -= 1
            if left >= right:
                break
            _swap(keys, rows, left, right)
        _swap(keys, rows, first, right)
        stack[depth] = right
        depth += 1
    past = stack[depth - 1]
    for k in range(first + 1, past):
        key, row = keys[k], rows[k]
        place = k
        while place > first and keys[place - 1] > key:
            keys[place], rows[place] = keys[place - 1], rows[place - 1]
            place -= 1
        keys[place], rows[place] = key, row
    return (past, depth) if depth == 1 else (past + 1, depth - 1)


@njit(cache=True, nogil=True)
def _swap(keys: Array, rows: Array, a: int, b: int) -> None:
    keys[a], keys[b] = keys[b], keys[a]
    rows[a], rows[b] = rows[b], rows[a]


@njit(cache=True, nogil=True)
def _take_mass(rows: Array, c: Array, mass: float, alpha: Array) -> None:
    """Take the mass from the rows in this order, at most its cost from each; write it to alpha."""
    for k in range(rows.size):
        if mass <= 0.0:
            break
        alpha[rows[k]] = min(mass, c[rows[k]])
        mass -= alpha[rows[k]]


@njit(cache=True, nogil=True)
def _descend_newton(z: Array, y: Array, c: Array, N: float, s: float, b: float) -> tuple[float, float, float]:
    """Return (s, b, value) at the minimum for squared hinge, starting from (s, b).

    A step leads to the minimum of the quadratic that holds on the current piece. If it crosses into other pieces and is
    too long, it is shortened by a line search; the derivative along the line increases.
    """
    here = _derive_squared(z, y, c, N, s, b)
    for _ in range(_STEPS):
        g_s, g_b, H_ss, H_sb, H_bb = here.g_s, here.g_b, here.H_ss, here.H_sb, here.H_bb
        determinant = H_ss * H_bb - H_sb * H_sb
        if not determinant > 0.0:
            break
        step_s, step_b = (H_sb * g_b - H_bb * g_s) / determinant, (H_sb * g_s - H_ss * g_b) / determinant
        slope = g_s * step_s + g_b * step_b
        if slope >= -1e-26 * here.value:
            break
        length = 1.0
        for _ in range(_STEPS):
            ahead = _derive_squared(z, y, c, N, s + length * step_s, b + length * step_b)
            slope_ahead = ahead.g_s * step_s + ahead.g_b * step_b
            if slope_ahead <= 0.0 or ahead.value < here.value:
                break
            length *= max(0.1, slope / (slope - slope_ahead))
        if ahead.value > here.value and slope_ahead > 0.0:
            break
        s, b = s + length * step_s, b + length * step_b
        here = ahead
    return s, b, here.value


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derive_squared(z: Array, y: Array, c: Array, N: float, s: float, b: float) -> _Derivatives:
    loss = moment = mass = zz = zy = ys = 0.0
    for i in range(z.size):
        slack = 1.0 - y[i] * (s * z[i] + b)
        cost = c[i] if slack > 0.0 else 0.0
        pull = cost * slack
        loss += pull * slack
        ys += pull * y[i]
        zy += pull * y[i] * z[i]
        mass += cost
        moment += cost * z[i]
        zz += cost * z[i] * z[i]
    return _Derivatives(0.5 * N * s * s + loss, N * s - 2.0 * zy, -2.0 * ys, N + 2.0 * zz, 2.0 * moment, 2.0 * mass)
