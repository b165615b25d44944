"""The terms of rows in Newton's method on the features: one read of X for each point, and which rows changed.

The losses are one family here. With a row's slack s_i = 1 - y_i f(x_i), or its error t_i - f(x_i) if it has a target
and no class, its share of its cost is

    r_i = argmax over low <= r <= top of  r s_i - tube |r| - h/2 (r - q_i)^2
        = min(max(x - min(max(x, -tube / h), tube / h), low), top),  x = q_i + s_i / h,        alpha_i = C_i r_i,

with h = 1/2, q = 0 and no top for squared losses; top = 1 for others smoothed over a width of h, where q_i is the share
that the row had before (0 at first; the multipliers of an augmented Lagrangian). Classes have low = 0 and no tube,
targets low = -top and the epsilon of the loss for a tube. The smooth objective's term is that maximum times C_i, its
slope in s_i is alpha_i, and its curvature is C_i / h on the rows "between", whose r_i changes with s_i.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.samples import row_of
from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array

__all__ = ["SampledRows", "Smoothing", "Sums", "add_rows", "add_squares", "evaluate_rows", "mark_changes", "multiply"]
__all__ += ["score_rows", "shares_of", "sum_with_places"]


class SampledRows(NamedTuple):
    """The rows of a sample, or all rows."""

    flat: FlatRows
    labels: Array
    """Classes as 1 and -1, or targets."""
    costs: Array
    constant: float
    """The value of the bias feature."""


class Smoothing(NamedTuple):
    """The parameters h, low, top, tube and q of the smooth terms; the docstring of the module defines them."""

    h: float
    low: float
    top: float
    tube: float
    before: Array
    """q; empty: all 0."""


class Sums(NamedTuple):
    """The sums of a read, apart from the vectors."""

    loss: float
    """The true losses."""
    smooth: float
    """The terms of the smooth objective."""
    mismatch: float
    """The rows' part of the duality gap: 0 for squared losses."""
    alpha: float
    """The sizes of the alphas."""
    earned: float
    """alpha_i s_i - tube |alpha_i|"""
    conjugate: float
    """alpha_i^2 / (4 C_i) for squared losses, 0 for others."""


# --- kernels. m: row of the sample; i: row of X; s: slack; q, r: share before and now; a: alpha; y: label -------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_AT_ONCE = 256  # rows of a block: with 200 entries a row they fit into the second-level cache


@njit(cache=True, nogil=True)
def evaluate_rows(
    rows: SampledRows,
    smoothing: Smoothing,
    w: Array,
    first: int,
    past: int,
    slack: Array,
    sums: Array,
    with_squares: bool,
    with_scores: bool,
) -> Sums:
    """Read rows `first` to `past` at w: set their slacks, unless known, and add up their terms.

    sums[0] += alpha_i y_i h_i (targets: alpha_i h_i). sums[1] += C_i h_i^2 if `with_squares`: of the rows between if
    there is no top, otherwise of all. A block of rows at a time, which stays in the cache, in several short loops:
    these keep the processor busier than one long loop.
    """
    flat, labels, costs, constant = rows.flat, rows.labels, rows.costs, rows.constant
    h, low, top, tube, before = smoothing.h, smoothing.low, smoothing.top, smoothing.tube, smoothing.before
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
            score_rows(flat, begin, labels[begin:end], bias, w, slack[begin:end])
            if low == 0.0:
                multiply(labels[begin:end], slack[begin:end])
        q = before[begin:end] if has_before else nothing[:count]
        if low == 0.0:
            here = _add_up_classes(slack[begin:end], costs[begin:end], q, h, top, shares[:count])
        else:
            here = _add_up_targets(slack[begin:end], costs[begin:end], q, h, top, tube, shares[:count])
        loss, smooth, mismatch = loss + here.loss, smooth + here.smooth, mismatch + here.mismatch
        total, earned, conjugate = total + here.alpha, earned + here.earned, conjugate + here.conjugate
        n_used = 0
        for k in range(count):
            i = begin + k
            weights[n_used], used[n_used] = costs[i] * shares[k] * (labels[i] if low == 0.0 else 1.0), i
            n_used += shares[k] != 0.0
        add_rows(flat, constant, used, weights, n_used, sums[0])
        if with_squares:
            n_used = 0
            for k in range(count):
                weights[n_used], used[n_used] = costs[begin + k], begin + k
                n_used += is_all or shares[k] != 0.0 or not is_flat
            add_squares(flat, constant, used, weights, n_used, sums[1])
    return Sums(loss, smooth, mismatch, total, earned, conjugate)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_up_classes(slack: Array, costs: Array, before: Array, h: float, top: float, shares: Array) -> Sums:
    """Set the shares of a few rows and return their sums."""
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
        return Sums(conjugate, smooth, 0.0, total, earned, conjugate)
    for k in range(slack.size):
        over, under = max(slack[k], 0.0), max(-slack[k], 0.0)
        loss += costs[k] * over
        mismatch += costs[k] * ((1.0 - shares[k]) * over + shares[k] * under)
    return Sums(loss, smooth, mismatch, total, earned, 0.0)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _add_up_targets(
    slack: Array, costs: Array, before: Array, h: float, top: float, tube: float, shares: Array
) -> Sums:
    """Do the same with both signs and a tube."""
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
        return Sums(conjugate, smooth, 0.0, total, earned, conjugate)
    for k in range(slack.size):
        s, size = slack[k], abs(shares[k])
        beyond = max(abs(s) - tube, 0.0)
        towards = s if shares[k] >= 0.0 else -s
        over, under = max(towards - tube, 0.0), max(tube - towards, 0.0)
        loss += costs[k] * beyond
        # A share of the wrong sign adds the whole loss of its row.
        mismatch += costs[k] * ((beyond - over) + (1.0 - size) * over + size * under)
    return Sums(loss, smooth, mismatch, total, earned, 0.0)


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
def score_rows(flat: FlatRows, begin: int, labels: Array, bias: float, w: Array, out: Array) -> None:
    """out = y - f(x) of consecutive rows; for classes, y times that is the slack."""
    values, columns, starts = flat.values, flat.columns, flat.starts
    d = w.size - 1
    if starts.size == 0:
        block = values[begin * d : (begin + out.size) * d].reshape((out.size, d))
        _score_dense(block, labels, bias, w, out)
        return
    _score_sparse(values, columns, starts[begin : begin + out.size + 1], labels, bias, w, out)


@njit(cache=True, nogil=True)
def multiply(factors: Array, out: Array) -> None:
    for k in range(out.size):
        out[k] *= factors[k]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_sparse(
    values: Array, columns: Array, starts: Array, labels: Array, bias: float, w: Array, out: Array
) -> None:
    """Places are unsigned: for short rows, the check for a place that counts from the end takes a fifth of the time."""
    for k in range(out.size):
        score = 0.0
        for e in range(np.uint64(starts[k]), np.uint64(starts[k + 1])):
            score += values[e] * w[np.uint64(columns[e])]
        out[k] = labels[k] - (score + bias)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_dense(block: Array, labels: Array, bias: float, w: Array, out: Array) -> None:
    """As a table: a slice for each row would take longer than a short row. Four rows at once read `w` less often."""
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
def add_rows(flat: FlatRows, constant: float, used: Array, weights: Array, count: int, out: Array) -> None:
    """out += sum of weights[k] h of the rows used[k], k < count; four dense rows at once read `out` less often."""
    values, columns, starts = flat.values, flat.columns, flat.starts
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
def add_squares(flat: FlatRows, constant: float, used: Array, weights: Array, count: int, out: Array) -> None:
    """Do the same with the squares of the entries."""
    values, columns, starts = flat.values, flat.columns, flat.starts
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
    smoothing: Smoothing,
    stride: int,
    seed: int,
    summed: Array,
    rows: Array,
    changes: Array,
    anew: bool,
) -> tuple[int, bool]:
    """Find the rows of a sample whose weights in the Gram matrix change, and by how much, in `rows` and `changes`.

    `summed` marks the rows of the sample that are in the matrix, and is updated. If more rows change than are between,
    and always with `anew`, the matrix is to be summed from zero. Returns the number of rows, and whether that is so.
    """
    h, low, top, tube, before = smoothing.h, smoothing.low, smoothing.top, smoothing.tube, smoothing.before
    has_before, steep = before.size > 0, 1.0 / h
    has_targets, least, most = low < 0.0, tube * steep, top + tube * steep
    if has_targets and tube == 0.0:
        least = -1.0  # an error of 0 is between, too
    n_between, count = 0, 0
    for m in range(slack.size // stride):
        i = row_of(m, stride, seed)
        x = (before[i] if has_before else 0.0) + slack[i] * steep
        x = abs(x) if has_targets else x
        is_between = (costs[i] > 0.0) & (x > least) & (x < most)  # without branches, which would be mispredicted
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
def shares_of(slack: Array, smoothing: Smoothing, out: Array) -> None:
    """out[i] = r_i"""
    h, low, top, tube, before = smoothing.h, smoothing.low, smoothing.top, smoothing.tube, smoothing.before
    has_before = before.size > 0
    for i in range(slack.size):
        q = before[i] if has_before else 0.0
        out[i] = _share(q + slack[i] / h, low, top, tube / h)


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_with_places(numbers: Array) -> float:
    """A sum that changes if costs or labels change, or their order."""
    total = 0.0
    for i in range(numbers.size):
        total += numbers[i] * (i + 1.0)
    return total
