"""What Newton's method on the features asks of the rows: one read of X a point, lines without X, rows that changed.

Squared hinge and smoothed hinge are one family here. With the slack s_i = 1 - y_i f(x_i), a row's share of its cost is

    r_i = min(max(q_i + s_i / h, 0), top),    alpha_i = C_i r_i,

with h = 1/2, q = 0 and no top for squared hinge; top = 1 for hinge smoothed over a width of h, where q_i is the share
that the row had before (0 at first; the multipliers of an augmented Lagrangian). The smooth objective's term is
C_i (r_i s_i - h (r_i - q_i)^2 / 2), its slope in s_i is alpha_i, and its curvature is C_i / h on the rows "between":
0 < q_i + s_i / h < top.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .row_samples import row_of

__all__ = ["Sums", "alphas_of", "evaluate_rows", "mark_changes", "search_line", "shares_of", "sum_with_places"]

Array = NDArray[Any]


class Sums(NamedTuple):
    """What a read adds up, beside the vectors."""

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
_AT_ONCE = 256  # rows that are gone through together: of 200 numbers each they fit into the second-level cache


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
    first: int,
    past: int,
    slack: Array,
    sums: Array,
    with_squares: bool,
    with_scores: bool,
) -> tuple[float, float, float, float, float]:
    """Rows `first` to `past`: slacks, unless they are known; alpha_i y_i h_i added up in sums[0], C_i h_i^2 in sums[1]
    if asked for, with squared hinge of the rows between, with hinge of all; returns the fields of Sums.

    Some rows at a time, whose entries then stay in the cache, in short loops: they keep the processor busy.
    """
    d = w.size - 1
    has_before, is_all = before.size > 0, top == 1.0
    loss, smooth, mismatch, total, conjugate = 0.0, 0.0, 0.0, 0.0, 0.0
    nothing, shares = np.zeros(_AT_ONCE), np.empty(_AT_ONCE)
    used, weights = np.empty(_AT_ONCE + 3, np.int64), np.empty(_AT_ONCE + 3)
    bias, at_once = constant * w[d], _AT_ONCE
    for begin in range(first, past, at_once):
        count = min(at_once, past - begin)
        end = begin + count
        if with_scores:
            _score_rows(values, columns, starts, begin, signs[begin:end], bias, w, slack[begin:end])
        if has_before:
            sums_here = _add_up(slack[begin:end], costs[begin:end], before[begin:end], h, top, shares[:count])
        else:
            sums_here = _add_up(slack[begin:end], costs[begin:end], nothing[:count], h, top, shares[:count])
        loss, smooth, mismatch = loss + sums_here[0], smooth + sums_here[1], mismatch + sums_here[2]
        total, conjugate = total + sums_here[3], conjugate + sums_here[4]
        n_used = 0
        for k in range(count):
            i = begin + k
            weights[n_used], used[n_used] = costs[i] * shares[k] * signs[i], i
            n_used += shares[k] > 0.0
        _add_rows(values, columns, starts, constant, used, weights, n_used, sums[0])
        if with_squares:
            n_used = 0
            for k in range(count):
                weights[n_used], used[n_used] = costs[begin + k], begin + k
                n_used += is_all or (shares[k] > 0.0 and shares[k] < top)
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
def _score_rows(
    values: Array, columns: Array, starts: Array, begin: int, signs: Array, bias: float, w: Array, out: Array
) -> None:
    """The slacks of consecutive rows."""
    d = w.size - 1
    if starts.size == 0:
        block = values[begin * d : (begin + out.size) * d].reshape((out.size, d))
        _score_dense(block, signs, bias, w, out)
        return
    _score_sparse(values, columns, starts[begin : begin + out.size + 1], signs, bias, w, out)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_sparse(
    values: Array, columns: Array, starts: Array, signs: Array, bias: float, w: Array, out: Array
) -> None:
    """Places are unsigned: of short rows, asking whether they count from the end takes a fifth of the time."""
    for k in range(out.size):
        score = 0.0
        for e in range(np.uint64(starts[k]), np.uint64(starts[k + 1])):
            score += values[e] * w[np.uint64(columns[e])]
        out[k] = 1.0 - signs[k] * (score + bias)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_dense(block: Array, signs: Array, bias: float, w: Array, out: Array) -> None:
    """As a table: a slice for each row would take longer than a short row itself. Four rows at once read `w` less."""
    n, d = block.shape
    whole = n // 4 * 4
    for k in range(0, whole, 4):
        s0, s1, s2, s3 = bias, bias, bias, bias
        for j in range(d):
            s0, s1 = s0 + block[k, j] * w[j], s1 + block[k + 1, j] * w[j]
            s2, s3 = s2 + block[k + 2, j] * w[j], s3 + block[k + 3, j] * w[j]
        out[k], out[k + 1] = 1.0 - signs[k] * s0, 1.0 - signs[k + 1] * s1
        out[k + 2], out[k + 3] = 1.0 - signs[k + 2] * s2, 1.0 - signs[k + 3] * s3
    for k in range(whole, n):
        score = bias
        for j in range(d):
            score += block[k, j] * w[j]
        out[k] = 1.0 - signs[k] * score


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
            a = weights[k]
            for e in range(np.uint64(starts[used[k]]), np.uint64(starts[used[k] + 1])):
                out[np.uint64(columns[e])] += a * values[e]
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
    rows: Array,
    changes: Array,
    anew: bool,
) -> tuple[int, bool]:
    """The rows of a sample whose weights in the Gram matrix change, and by how much, in front of `rows` and `changes`.

    `summed` says which rows of the sample are in the matrix, and is brought up to date. If there are more that change
    than that are between, and always with `anew`, it is a sum from nothing. Returns how many there are, and whether it
    is such a sum.
    """
    has_before, steep = before.size > 0, 1.0 / h
    n_between, count = 0, 0
    for m in range(slack.size // stride):
        i = row_of(m, stride, seed)
        r = (before[i] if has_before else 0.0) + slack[i] * steep
        is_between = costs[i] > 0.0 and r > 0.0 and r < top
        rows[count], changes[count] = i, costs[i] if is_between else -costs[i]
        n_between += is_between
        count += is_between != summed[i]
        summed[i] = is_between
    anew = anew or count > n_between
    if anew:
        count = 0
        for m in range(slack.size // stride):
            i = row_of(m, stride, seed)
            rows[count], changes[count] = i, costs[i]
            count += summed[i]
    return count, anew


@njit(cache=True, nogil=True)
def search_line(
    slack: Array,
    trial: Array,
    costs: Array,
    h: float,
    top: float,
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
    low, high, t = 0.0, np.inf, 1.0
    has_before, steep = before.size > 0, 1.0 / h
    steepest = abs(whole_slope)
    for i in range(slack.size):
        starts[i] = (before[i] if has_before else 0.0) + slack[i] * steep
        rates[i] = (trial[i] - slack[i]) * steep
    for _ in range(60):
        slope, curvature = _derivatives(starts, rates, costs, top, t)
        slope = start_slope + t * norm + scale * h * slope
        curvature = norm + scale * h * curvature
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
    for i in range(slack.size):
        trial[i] = slack[i] + t * (trial[i] - slack[i])
    return t


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derivatives(starts: Array, rates: Array, costs: Array, top: float, t: float) -> tuple[float, float]:
    """Of the rows' terms along the line, at t and over h: first and second."""
    slope, curvature = 0.0, 0.0
    for m in range(starts.size):
        r, rate = starts[m] + t * rates[m], rates[m] * costs[m]
        slope += min(max(r, 0.0), top) * rate
        curvature += rate * rates[m] if r > 0.0 and r < top else 0.0
    return slope, curvature


@njit(cache=True, nogil=True)
def shares_of(slack: Array, h: float, top: float, before: Array, out: Array) -> None:
    """out[i] = r_i"""
    has_before = before.size > 0
    for i in range(slack.size):
        q = before[i] if has_before else 0.0
        out[i] = min(max(q + slack[i] / h, 0.0), top)


@njit(cache=True, nogil=True)
def alphas_of(slack: Array, costs: Array, h: float, top: float, before: Array, stretch: float, out: Array) -> None:
    """out[i] = stretch alpha_i"""
    has_before, steep = before.size > 0, 1.0 / h
    for i in range(slack.size):
        q = before[i] if has_before else 0.0
        out[i] = stretch * costs[i] * min(max(q + slack[i] * steep, 0.0), top)


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_with_places(costs: Array) -> float:
    """A number that tells one problem's costs from another's; the place counts."""
    total = 0.0
    for i in range(costs.size):
        total += costs[i] * (i + 1.0)
    return total
