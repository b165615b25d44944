"""Terms of the rows in Newton's method on the features: one pass over X per point, and the rows that changed.

All losses here belong to one family. The slack of a row is s_i = 1 - y_i f(x_i) for a class, or the error t_i - f(x_i)
for a target. Its share is the fraction of its cost that its alpha takes, alpha_i = C_i r_i, with

    r_i = argmax over low <= r <= top of  r s_i - tube |r| - h/2 (r - q_i)^2
        = min(max(x - min(max(x, -tube / h), tube / h), low), top),  x = q_i + s_i / h.

- Squared losses have h = 1/2, q = 0 and an infinite top.
- Other losses have top = 1. They are smoothed over the width h, and q_i is the share that the row had before (0 at
  first): the multiplier of an augmented Lagrangian.
- Classes have low = 0 and no tube; targets have low = -top, and the tube is the epsilon of the loss.

The row's term of the smoothed objective is that maximum times C_i. Its derivative with respect to s_i is alpha_i. Its
second derivative is C_i / h on the curved rows, whose r_i changes with s_i, and 0 on the others.
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
    """The parameters h, low, top, tube and q of the smoothed terms; the module's docstring defines them."""

    h: float
    low: float
    top: float
    tube: float
    before: Array
    """q; empty if all are 0."""


class Sums(NamedTuple):
    """The scalar sums of one pass."""

    loss: float
    """Sum of the true losses."""
    smooth: float
    """Sum of the terms of the smoothed objective."""
    mismatch: float
    """Sum of the rows' terms of the duality gap; 0 for squared losses."""
    alpha: float
    """Sum of |alpha_i|."""
    earned: float
    """Sum of alpha_i s_i - tube |alpha_i|."""
    conjugate: float
    """Sum of alpha_i^2 / (4 C_i) for squared losses, 0 for others."""


# --- kernels. m: row of the sample; i: row of X; s: slack; q, r: share before and now; a: alpha; y: label -------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_AT_ONCE = 256  # rows per block: with 200 entries per row a block fits into the second-level cache


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
    """Evaluate rows `first` to `past` at w: write their slacks, unless known, and return the sums of their terms.

    Adds alpha_i y_i h_i (targets: alpha_i h_i) to sums[0]. If `with_squares`, adds C_i h_i^2 to sums[1]: over the
    curved rows if top is infinite, otherwise over all rows. Rows are processed in blocks that stay in the cache, by
    several short loops, which keep the processor busier than one long loop.
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
    """Write the shares of a block of rows with classes; return the sums of their terms."""
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
    """Write the shares of a block of rows with targets; return the sums of their terms."""
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
    """Return r for x = q + s / h; `tube` is already divided by h."""
    return min(max(x - min(max(x, -tube), tube), low), top)


@njit(cache=True, nogil=True)
def score_rows(flat: FlatRows, begin: int, labels: Array, bias: float, w: Array, out: Array) -> None:
    """Write y - f(x) of consecutive rows to out; for classes, y times this is the slack."""
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
    """Score sparse rows. Unsigned indices avoid a test for negative ones, a fifth of the time for short rows."""
    for k in range(out.size):
        score = 0.0
        for e in range(np.uint64(starts[k]), np.uint64(starts[k + 1])):
            score += values[e] * w[np.uint64(columns[e])]
        out[k] = labels[k] - (score + bias)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _score_dense(block: Array, labels: Array, bias: float, w: Array, out: Array) -> None:
    """Score a block of dense rows, four at a time to read w less often. Slicing each row would cost more than the
    row."""
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
    """Add weights[k] h of the rows used[k], k < count, to out; four dense rows at a time read `out` less often."""
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
    """Add weights[k] h^2, entry by entry, of the rows used[k], k < count, to out."""
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
    """Find the rows of a sample whose weight in the Gram matrix changes; write them and the change to rows, changes.

    `summed` marks the rows of the sample that are in the matrix; it is updated. The matrix is summed from zero if the
    last argument is true or if more rows change than are curved. Returns (number of rows, whether the matrix is summed
    from zero).
    """
    h, low, top, tube, before = smoothing.h, smoothing.low, smoothing.top, smoothing.tube, smoothing.before
    has_before, steep = before.size > 0, 1.0 / h
    has_targets, least, most = low < 0.0, tube * steep, top + tube * steep
    if has_targets and tube == 0.0:
        least = -1.0  # a row with error 0 is curved
    n_between, count = 0, 0
    for m in range(slack.size // stride):
        i = row_of(m, stride, seed)
        x = (before[i] if has_before else 0.0) + slack[i] * steep
        x = abs(x) if has_targets else x
        is_between = (costs[i] > 0.0) & (x > least) & (x < most)  # no branches, which would be mispredicted
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
    """Write r_i into out[i]."""
    h, low, top, tube, before = smoothing.h, smoothing.low, smoothing.top, smoothing.tube, smoothing.before
    has_before = before.size > 0
    for i in range(slack.size):
        q = before[i] if has_before else 0.0
        out[i] = _share(q + slack[i] / h, low, top, tube / h)


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_with_places(numbers: Array) -> float:
    """Return a checksum that changes if the numbers or their order change."""
    total = 0.0
    for i in range(numbers.size):
        total += numbers[i] * (i + 1.0)
    return total
