"""What Newton's method on the features asks of the rows: one read of X a point, and which rows changed.

The losses are one family here. With a row's slack s_i = 1 - y_i f(x_i), or its error t_i - f(x_i) if it has a target
and no class, its share of its cost is

    r_i = argmax over low <= r <= top of  r s_i - tube |r| - h/2 (r - q_i)^2
        = min(max(x - min(max(x, -tube / h), tube / h), low), top),  x = q_i + s_i / h,        alpha_i = C_i r_i,

with h = 1/2, q = 0 and no top for squared losses; top = 1 for others smoothed over a width of h, where q_i is the share
that the row had before (0 at first; the multipliers of an augmented Lagrangian). Classes have low = 0 and no tube,
targets low = -top and the epsilon of the loss for a tube. The smooth objective's term is that maximum times C_i, its
slope in s_i is alpha_i, and its curvature is C_i / h on the rows "between": where r_i would move with s_i.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.samples import row_of
from solvers.linalg.types import Array

__all__ = ["Sums", "evaluate_rows", "mark_changes", "shares_of", "sum_with_places"]


class Sums(NamedTuple):
    """What a read adds up, beside the vectors."""

    loss: float
    """The true losses."""
    smooth: float
    """The terms of the smooth objective."""
    mismatch: float
    """What the rows add to the duality gap: 0 for squared losses."""
    alpha: float
    """The sizes of the alphas."""
    earned: float
    """alpha_i s_i - tube |alpha_i|"""
    conjugate: float
    """alpha_i^2 / (4 C_i) for squared losses, 0 for others."""


# --- kernels. m: row of the sample; i: row of X; s: slack; q, r: share before and now; a: alpha; y: label -------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_AT_ONCE = 256  # rows that are gone through together: of 200 numbers each they fit into the second-level cache


@njit(cache=True, nogil=True)
def evaluate_rows(
    values: Array,
    columns: Array,
    starts: Array,
    labels: Array,
    costs: Array,
    constant: float,
    w: Array,
    h: float,
    low: float,
    top: float,
    tube: float,
    before: Array,
    first: int,
    past: int,
    slack: Array,
    sums: Array,
    with_squares: bool,
    with_scores: bool,
) -> tuple[float, float, float, float, float, float]:
    """Rows `first` to `past`: slacks, unless they are known; alpha_i y_i h_i (of targets alpha_i h_i) added up in
    sums[0], C_i h_i^2 in sums[1] if asked for, with no top of the rows between, otherwise of all; returns the fields
    of Sums. Labels are classes as 1 and -1 if low is 0, and targets below.

    Some rows at a time, whose entries then stay in the cache, in short loops: they keep the processor busy.
    """
    d = w.size - 1
    has_before, is_all, is_flat = before.size > 0, top == 1.0, low == 0.0 or tube > 0.0
    loss, smooth, mismatch, total, earned, conjugate = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    nothing, shares = np.zeros(_AT_ONCE), np.empty(_AT_ONCE)
    used, weights = np.empty(_AT_ONCE + 3, np.int64), np.empty(_AT_ONCE + 3)
    bias, at_once = constant * w[d], _AT_ONCE
    for begin in range(first, past, at_once):
        count = min(at_once, past - begin)
        end = begin + count
        if with_scores:
            _score_rows(values, columns, starts, begin, labels[begin:end], bias, w, slack[begin:end])
            if low == 0.0:
                _multiply(labels[begin:end], slack[begin:end])
        q = before[begin:end] if has_before else nothing[:count]
        if low == 0.0:
            sums_here = _add_up_classes(slack[begin:end], costs[begin:end], q, h, top, shares[:count])
        else:
            sums_here = _add_up_targets(slack[begin:end], costs[begin:end], q, h, top, tube, shares[:count])
        loss, smooth, mismatch = loss + sums_here[0], smooth + sums_here[1], mismatch + sums_here[2]
        total, earned, conjugate = total + sums_here[3], earned + sums_here[4], conjugate + sums_here[5]
        n_used = 0
        for k in range(count):
            i = begin + k
            weights[n_used], used[n_used] = costs[i] * shares[k] * (labels[i] if low == 0.0 else 1.0), i
            n_used += shares[k] != 0.0
        _add_rows(values, columns, starts, constant, used, weights, n_used, sums[0])
        if with_squares:
            n_used = 0
            for k in range(count):
                weights[n_used], used[n_used] = costs[begin + k], begin + k
                n_used += is_all or shares[k] != 0.0 or not is_flat
            _add_squares(values, columns, starts, constant, used, weights, n_used, sums[1])
    return loss, smooth, mismatch, total, earned, conjugate


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_up_classes(
    slack: Array, costs: Array, before: Array, h: float, top: float, shares: Array
) -> tuple[float, float, float, float, float, float]:
    """The shares of a few rows, and the fields of Sums."""
    loss, smooth, mismatch, total, earned = 0.0, 0.0, 0.0, 0.0, 0.0
    steep = 1.0 / h
    for k in range(slack.size):
        s, C, q = slack[k], costs[k], before[k]
        r = min(max(q + s * steep, 0.0), top)
        shares[k] = r
        smooth += C * (r * s - 0.5 * h * (r - q) * (r - q))
        total += C * r
        earned += C * r * s
    if np.isinf(top):
        conjugate = _add_up_squares(costs, shares)
        return conjugate, smooth, 0.0, total, earned, conjugate
    for k in range(slack.size):
        over, under = max(slack[k], 0.0), max(-slack[k], 0.0)
        loss += costs[k] * over
        mismatch += costs[k] * ((1.0 - shares[k]) * over + shares[k] * under)
    return loss, smooth, mismatch, total, earned, 0.0


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_up_targets(
    slack: Array, costs: Array, before: Array, h: float, top: float, tube: float, shares: Array
) -> tuple[float, float, float, float, float, float]:
    """The same with both signs and a tube."""
    loss, smooth, mismatch, total, earned = 0.0, 0.0, 0.0, 0.0, 0.0
    steep = 1.0 / h
    for k in range(slack.size):
        s, C, q = slack[k], costs[k], before[k]
        r = _share(q + s * steep, -top, top, tube * steep)
        shares[k] = r
        gain = r * s - tube * abs(r)
        smooth += C * (gain - 0.5 * h * (r - q) * (r - q))
        total += C * abs(r)
        earned += C * gain
    if np.isinf(top):
        conjugate = _add_up_squares(costs, shares)
        return conjugate, smooth, 0.0, total, earned, conjugate
    for k in range(slack.size):
        s, size = slack[k], abs(shares[k])
        beyond = max(abs(s) - tube, 0.0)
        towards = s if shares[k] >= 0.0 else -s
        over, under = max(towards - tube, 0.0), max(tube - towards, 0.0)
        loss += costs[k] * beyond
        # What pulls a row to its target's other side pays for all of its loss.
        mismatch += costs[k] * ((beyond - over) + (1.0 - size) * over + size * under)
    return loss, smooth, mismatch, total, earned, 0.0


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_up_squares(costs: Array, shares: Array) -> float:
    total = 0.0
    for k in range(shares.size):
        total += 0.25 * costs[k] * shares[k] * shares[k]
    return total


@njit(cache=True, nogil=True, inline="always")
def _share(x: float, low: float, top: float, tube: float) -> float:
    """r of x = q + s / h; `tube` is over h, too."""
    return min(max(x - min(max(x, -tube), tube), low), top)


@njit(cache=True, nogil=True)
def _score_rows(
    values: Array, columns: Array, starts: Array, begin: int, labels: Array, bias: float, w: Array, out: Array
) -> None:
    """y - f(x) of consecutive rows: of classes, that times y is the slack."""
    d = w.size - 1
    if starts.size == 0:
        block = values[begin * d : (begin + out.size) * d].reshape((out.size, d))
        _score_dense(block, labels, bias, w, out)
        return
    _score_sparse(values, columns, starts[begin : begin + out.size + 1], labels, bias, w, out)


@njit(cache=True, nogil=True)
def _multiply(factors: Array, out: Array) -> None:
    for k in range(out.size):
        out[k] *= factors[k]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_sparse(
    values: Array, columns: Array, starts: Array, labels: Array, bias: float, w: Array, out: Array
) -> None:
    """Places are unsigned: of short rows, asking whether they count from the end takes a fifth of the time."""
    for k in range(out.size):
        score = 0.0
        for e in range(np.uint64(starts[k]), np.uint64(starts[k + 1])):
            score += values[e] * w[np.uint64(columns[e])]
        out[k] = labels[k] - (score + bias)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_dense(block: Array, labels: Array, bias: float, w: Array, out: Array) -> None:
    """As a table: a slice for each row would take longer than a short row itself. Four rows at once read `w` less."""
    n, d = block.shape
    whole = n // 4 * 4
    for k in range(0, whole, 4):
        s0, s1, s2, s3 = bias, bias, bias, bias
        for j in range(d):
            s0, s1 = s0 + block[k, j] * w[j], s1 + block[k + 1, j] * w[j]
            s2, s3 = s2 + block[k + 2, j] * w[j], s3 + block[k + 3, j] * w[j]
        out[k], out[k + 1] = labels[k] - s0, labels[k + 1] - s1
        out[k + 2], out[k + 3] = labels[k + 2] - s2, labels[k + 3] - s3
    for k in range(whole, n):
        score = bias
        for j in range(d):
            score += block[k, j] * w[j]
        out[k] = labels[k] - score


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
    low: float,
    top: float,
    tube: float,
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
    has_targets, least, most = low < 0.0, tube * steep, top + tube * steep
    if has_targets and tube == 0.0:
        least = -1.0  # an error of 0 is between, too
    n_between, count = 0, 0
    for m in range(slack.size // stride):
        i = row_of(m, stride, seed)
        x = (before[i] if has_before else 0.0) + slack[i] * steep
        x = abs(x) if has_targets else x
        is_between = (costs[i] > 0.0) & (x > least) & (x < most)  # without branches, which would be guessed wrong
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
def shares_of(slack: Array, h: float, low: float, top: float, tube: float, before: Array, out: Array) -> None:
    """out[i] = r_i"""
    has_before = before.size > 0
    for i in range(slack.size):
        q = before[i] if has_before else 0.0
        out[i] = _share(q + slack[i] / h, low, top, tube / h)


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_with_places(numbers: Array) -> float:
    """Tells one problem's costs or labels from another's; the place counts."""
    total = 0.0
    for i in range(numbers.size):
        total += numbers[i] * (i + 1.0)
    return total
