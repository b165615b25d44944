"""What Newton's method on the features asks of the rows: one read of X a point, lines without X, rows that changed.

Squared hinge and smoothed hinge are one family here. With the slack s_i = 1 - y_i f(x_i), a row's share of its cost is

    r_i = min(max(q_i + s_i / h, 0), top),    alpha_i = C_i r_i,

with h = 1/2, q = 0 and no top for squared hinge; top = 1 for hinge smoothed over a width of h, where q_i is the share
that the row had before (0 at first; the multipliers of an augmented Lagrangian). The smooth objective's term is
C_i (r_i s_i - h (r_i - q_i)^2 / 2), its slope in s_i is alpha_i, and its curvature is C_i / h on the rows "between":
0 < q_i + s_i / h < top.

A sample is one row of every `stride`, at a place in each stretch that a hash decides: rows that are sorted or periodic
do no harm, and no list of rows is kept.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Sums", "evaluate_rows", "mark_changes", "search_line", "shares_of"]

Array = NDArray[Any]


class Sums(NamedTuple):
    """What a read of the sample adds up, beside the vectors."""

    loss: float
    """C_i max(0, s_i), squared for squared hinge."""
    smooth: float
    """The terms of the smooth objective."""
    mismatch: float
    """What the rows add to the duality gap: 0 for squared hinge."""
    alpha: float
    conjugate: float
    """alpha_i^2 / (4 C_i) for squared hinge, 0 for hinge."""


# --- kernels. m: row of the sample; i: row of X; s: slack; r: share; a: alpha ----------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_AT_ONCE = 64  # rows that are gone through together: of 100 numbers each they fit into the nearest cache


@njit(cache=True, nogil=True, inline="always")
def _row_of(m: int, stride: int, seed: int) -> int:
    """Where in its stretch of rows the m-th of a sample is."""
    if stride == 1:
        return m
    mixed = (m + seed) * 0x9E3779B1 & 0xFFFFFFFF
    return m * stride + (mixed ^ mixed >> 15) % stride


@njit(cache=True, nogil=True)
def evaluate_rows(
    values: Array,
    columns: Array,
    starts: Array,
    signs: Array,
    costs: Array,
    constant: float,
    w: Array,
    h: float,
    top: float,
    before: Array,
    stride: int,
    seed: int,
    first: int,
    past: int,
    slack: Array,
    sums: Array,
    with_squares: bool,
) -> tuple[float, float, float, float, float]:
    """Rows `first` to `past` of a sample: slacks; alpha_i y_i h_i added up in sums[0], C_i h_i^2 in sums[1] if
    asked for, with squared hinge of the rows between, with hinge of all; returns the fields of Sums.

    Some rows at a time, whose entries then stay in the cache, in three loops: short ones keep the processor busy.
    """
    d = w.size - 1
    has_before, is_all = before.size > 0, top == 1.0
    loss, smooth, mismatch, total, conjugate = 0.0, 0.0, 0.0, 0.0, 0.0
    rows, part = np.empty(_AT_ONCE, np.int64), np.zeros((5, _AT_ONCE))
    used, weights = np.empty(_AT_ONCE + 3, np.int64), np.empty(_AT_ONCE + 3)
    bias, at_once = constant * w[d], _AT_ONCE
    for begin in range(first, past, at_once):
        count = min(at_once, past - begin)
        for k in range(count):
            i = _row_of(begin + k, stride, seed)
            rows[k], part[1, k] = i, costs[i]
            if has_before:
                part[2, k] = before[i]
        _score_rows(values, columns, starts, rows[:count], w, part[0])
        for k in range(count):
            part[0, k] = 1.0 - signs[rows[k]] * (part[0, k] + bias)
        sums_here = _add_up(part[0, :count], part[1, :count], part[2, :count], h, top, part[3, :count])
        loss, smooth, mismatch = loss + sums_here[0], smooth + sums_here[1], mismatch + sums_here[2]
        total, conjugate = total + sums_here[3], conjugate + sums_here[4]
        n_used = 0
        for k in range(count):
            i = rows[k]
            slack[i] = part[0, k]
            weights[n_used], used[n_used] = part[1, k] * part[3, k] * signs[i], i
            n_used += part[3, k] > 0.0
        _add_rows(values, columns, starts, constant, used, weights, n_used, sums[0])
        if with_squares:
            n_used = 0
            for k in range(count):
                weights[n_used], used[n_used] = part[1, k], rows[k]
                n_used += is_all or (part[3, k] > 0.0 and part[3, k] < top)
            _add_squares(values, columns, starts, constant, used, weights, n_used, sums[1])
    return loss, smooth, mismatch, total, conjugate


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_up(
    slack: Array, costs: Array, before: Array, h: float, top: float, shares: Array
) -> tuple[float, float, float, float, float]:
    """The shares of a few rows, and the fields of Sums."""
    loss, smooth, mismatch, total, conjugate = 0.0, 0.0, 0.0, 0.0, 0.0
    steep = 1.0 / h
    is_squared = np.isinf(top)
    for k in range(slack.size):
        s, C, q = slack[k], costs[k], before[k]
        r = min(max(q + s * steep, 0.0), top)
        shares[k] = r
        smooth += C * (r * s - 0.5 * h * (r - q) * (r - q))
        total += C * r
    if is_squared:
        for k in range(slack.size):
            conjugate += 0.25 * costs[k] * shares[k] * shares[k]
        loss = conjugate
    else:
        for k in range(slack.size):
            over, under = max(slack[k], 0.0), max(-slack[k], 0.0)
            loss += costs[k] * over
            mismatch += costs[k] * ((1.0 - shares[k]) * over + shares[k] * under)
    return loss, smooth, mismatch, total, conjugate


@njit(cache=True, nogil=True)
def _score_rows(values: Array, columns: Array, starts: Array, rows: Array, w: Array, out: Array) -> None:
    """Apart from the loops around it, which would otherwise keep this one from being compiled well."""
    d = w.size - 1
    if starts.size == 0:
        for k in range(rows.size):
            out[k] = _dot_dense(values[rows[k] * d : rows[k] * d + d], w)
        return
    for k in range(rows.size):
        begin, end = starts[rows[k]], starts[rows[k] + 1]
        row, at = values[begin:end], columns[begin:end]
        score = 0.0
        for e in range(row.size):
            score += row[e] * w[at[e]]
        out[k] = score


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dot_dense(row: Array, w: Array) -> float:
    total = 0.0
    for j in range(row.size):
        total += row[j] * w[j]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_rows(
    values: Array, columns: Array, starts: Array, constant: float, used: Array, weights: Array, count: int, out: Array
) -> None:
    """out += sum of weights[k] h of the rows used[k], k < count; four dense rows at once: `out` is then read less."""
    d = out.size - 1
    for k in range(count):
        out[d] += weights[k] * constant
    if starts.size > 0:
        for k in range(count):
            a, begin, end = weights[k], starts[used[k]], starts[used[k] + 1]
            row, at = values[begin:end], columns[begin:end]
            for e in range(row.size):
                out[at[e]] += a * row[e]
        return
    for k in range(count, count + 3):
        weights[k], used[k] = 0.0, used[0]
    for k in range(0, count, 4):
        a0, a1, a2, a3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        x0 = values[used[k] * d : used[k] * d + d]
        x1 = values[used[k + 1] * d : used[k + 1] * d + d]
        x2 = values[used[k + 2] * d : used[k + 2] * d + d]
        x3 = values[used[k + 3] * d : used[k + 3] * d + d]
        for j in range(d):
            out[j] += a0 * x0[j] + a1 * x1[j] + a2 * x2[j] + a3 * x3[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_squares(
    values: Array, columns: Array, starts: Array, constant: float, used: Array, weights: Array, count: int, out: Array
) -> None:
    """The same with the squares of the entries."""
    d = out.size - 1
    for k in range(count):
        a = weights[k]
        out[d] += a * constant * constant
        if starts.size > 0:
            begin, end = starts[used[k]], starts[used[k] + 1]
            row, at = values[begin:end], columns[begin:end]
            for e in range(row.size):
                out[at[e]] += a * row[e] * row[e]
        else:
            row = values[used[k] * d : used[k] * d + d]
            for j in range(d):
                out[j] += a * (row[j] * row[j])


@njit(cache=True, nogil=True)
def mark_changes(
    slack: Array,
    costs: Array,
    h: float,
    top: float,
    before: Array,
    stride: int,
    seed: int,
    summed: Array,
    changes: Array,
    anew: bool,
) -> tuple[int, int]:
    """The rows between that a sample of this stride has: their number, and how many differ from those in `summed`.

    Unless there are more that differ than that are between, and always with `anew` as a sum from nothing, `summed` is
    brought up to date, and `changes` holds what each row's weight in the Gram matrix changes by.
    """
    has_before = before.size > 0
    n_between, n_changed = 0, 0
    changes[:] = 0.0
    for m in range(slack.size // stride):
        i = _row_of(m, stride, seed)
        r = (before[i] if has_before else 0.0) + slack[i] / h
        if costs[i] > 0.0 and 0.0 < r < top:
            changes[i] = costs[i]
            n_between += 1
    n_summed = 0
    for i in range(slack.size):
        is_between = changes[i] > 0.0
        n_summed += summed[i]
        n_changed += is_between != summed[i]
    if anew or n_changed > n_between:
        for i in range(slack.size):
            summed[i] = changes[i] > 0.0
        return n_between, -1
    for i in range(slack.size):
        is_between = changes[i] > 0.0
        if is_between == summed[i]:
            changes[i] = 0.0
        elif not is_between:
            changes[i] = -costs[i]
        summed[i] = is_between
    return n_between, n_changed


@njit(cache=True, nogil=True)
def search_line(
    slack: Array,
    trial: Array,
    costs: Array,
    h: float,
    top: float,
    before: Array,
    stride: int,
    seed: int,
    scale: float,
    start_slope: float,
    norm: float,
    whole_slope: float,
) -> float:
    """Where on the line from slacks `slack` (at 0) to `trial` (at 1) the smooth objective is least: Newton's method on
    its derivative, which is continuous and rises piece by piece, kept inside a bracket.

    `start_slope` is the derivative of the regulariser at 0, `norm` the square of the direction's length and
    `whole_slope` the derivative of all at 0.
    """
    low, high, t = 0.0, np.inf, 1.0
    has_before = before.size > 0
    steepest = abs(whole_slope)
    for _ in range(60):
        slope, curvature = 0.0, 0.0
        for m in range(slack.size // stride):
            i = _row_of(m, stride, seed)
            change = trial[i] - slack[i]
            r = (before[i] if has_before else 0.0) + (slack[i] + t * change) / h
            if costs[i] == 0.0 or r <= 0.0:
                continue
            if r < top:
                curvature += costs[i] * change * change / h
            slope += costs[i] * min(r, top) * change
        slope = start_slope + t * norm + scale * slope
        curvature = norm + scale * curvature
        if slope > 0.0:
            high = t
        else:
            low = t
        if abs(slope) <= 1e-3 * steepest or (high < np.inf and high - low <= 1e-12 * high):
            break
        guess = t - slope / curvature if curvature > 0.0 else np.inf
        if high == np.inf:
            guess = min(guess, 10.0 * t)  # where nothing curves there is no telling how far
        elif not low < guess < high:
            guess = 0.5 * (low + high)
        t = guess
    return t


@njit(cache=True, nogil=True)
def shares_of(slack: Array, h: float, top: float, before: Array, out: Array) -> None:
    """out[i] = r_i"""
    has_before = before.size > 0
    for i in range(slack.size):
        q = before[i] if has_before else 0.0
        out[i] = min(max(q + slack[i] / h, 0.0), top)
