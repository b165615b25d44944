"""The kernels of dual coordinate descent: exact steps in one alpha_i after another, for rows of both kinds.

Symbols: y, a, U, C, D: y_i, alpha_i, its upper bound, C_i and the diagonal D_ii that squared hinge adds; g the gradient
in alpha_i. A row whose gradient pushes it against its bound is shrunk (shrinking.py). S = sum_i alpha_i y_i; the
intercept b is held beside it in `balance` = [b, S] (proximal_bias.py).
"""

import numpy as np
from numba import njit

from solvers.linalg.prefetch import AHEAD, LINE, prefetch
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods.dcd.proximal_bias import bias_mismatch, bias_share, settle_bias
from solvers.methods.dcd.sampled_gap import are_even, best_bias, gap_of, gap_term, sample_size, sampled_gap
from solvers.methods.dcd.shrinking import due_epoch, gather_pool, keep_awake, nap_rate, wake_all

__all__ = ["Sweep", "descend", "dual_value", "end_epoch", "foretell_gap", "run_pass"]

Sweep = tuple[float, float, float, float, float, float, int, int]
"""Sum of the gap's terms and of their squares, gain of the dual without its bias term, largest and smallest gradient
that is not pushing against a bound, the sum of their squares, their number, number of updates."""

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_FAR, _NEAR = 8, 3  # how many rows ahead row numbers, then row contents, are prefetched
_SEGMENTS = 4
"""How often an epoch moves the centre of the bias."""
_LEAST_SAMPLE, _SAMPLE, _SAMPLE_SHARE = 64, 1024, 8
"""Rows by whose scores the centre of the bias is chosen in the first epoch: one of so many, within these bounds. Of
4,600 rows, 1,024 four times took twice as long as the epoch itself."""
_DOUBT = 1.5
"""Times what the fall of the gap foretells: a certificate that fails costs as much as half an epoch."""
_CLOSE, _LEFT = 2.0, 0.15
"""Times the gap that is wanted: where it is likely to be less, some rows are asked what it is. What is left of a row's
term after an epoch, as a rule."""
_CAUTION = 1.5
"""Standard errors by which the gap may be more than those rows say that an epoch has visited so far. Of 152 runs 5
then pay for a certificate that fails (7 with 1, 3 if the rows are not asked); w8a, C = 0.01, takes a tenth fewer
reads."""
_FEW = 4
"""Rows for each one that is awake from which on those that are awake are few: all of them, and no sample, tell the gap.
What they told when they were visited was up to 1.8 times too little (w8a, ijcnn1, hinge, C = 0.01, 1e-6)."""
_SAMPLE_WORTH = 8
"""Rows to visit for each one that is asked, before others are asked: of few rows every one was read twice as often."""


@njit(cache=True, nogil=True)
def run_pass(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    pull: float,
    may_nap: bool,
    usual: float,
    now: int,
    pool_size: int,
    until_scan: int,
    until_sample: int,
    last_gap: float,
    pool: Array,
    together: int,
    wake: Array,
    alpha: Array,
    w: Array,
    balance: Array,
    random_state: Array,
    target: float,
    floor: float,
    violation_tol: float,
) -> tuple[float, float, int, int, int, int, float, int, bool, float, float, int, float]:
    """Epochs over the rows that are awake until they have visited as many rows as there are, or the target is met.

    Returns (pull, usual gradient, now, size of the pool, rows until the sleepers are looked through, rows until some
    are asked for the gap again, gap seen in the last epoch, rows visited, whether that saw all rows, the gap after it,
    its violation, its updates, the dual objective).
    """
    d = w.size - 1
    quadratic = dual_value(alpha, constants, w[:d])
    visited = 0
    is_new = now == 0 and quadratic == 0.0 and bias_feature > 0.0
    while True:
        is_fresh = until_scan <= 0 or pool_size == 0 or pool_size == pool.size  # no row that is awake is left out
        pool_size, until_scan = gather_pool(wake, now, pool, pool_size, until_scan, together, random_state)
        is_whole = pool_size == pool.size
        gap, gap_squares, sampled, past = 0.0, 0.0, np.inf, 0
        largest, smallest, squares, pushed, updates = 0.0, 0.0, 0.0, 0, 0
        naps = nap_rate(usual, may_nap)
        share = bias_share(bias_feature, pull)
        for k in range(1, _SEGMENTS + 1):
            first, past = past, pool_size * k // _SEGMENTS
            balance[0] = share * (balance[1] + pull * balance[0])
            if is_new and now == 0:
                size = min(_SAMPLE, max(_LEAST_SAMPLE, (past - first) // _SAMPLE_SHARE))
                sample = pool[first : min(past, first + size)]
                balance[0] = best_bias(values, columns, starts, constants, bias_feature, w, sample)
            terms, term_squares, gain, high, low, more, count, changed = descend(
                values, columns, starts, constants, share, naps, now,
                pool[first:past], alpha, w, balance, wake,
            )  # fmt: skip
            gap, gap_squares, quadratic = gap + terms, gap_squares + term_squares, quadratic + gain
            largest, smallest, squares = max(largest, high), min(smallest, low), squares + more
            pushed, updates = pushed + count, updates + changed
            w[d] = bias_feature * balance[1]
            dual = quadratic - 0.5 * w[d] * w[d]
            # Of rows that were not visited the gap is as it was seen; of the others, some of it is left.
            is_close = (_SEGMENTS - (1.0 - _LEFT) * k) * terms <= _CLOSE * target * max(dual, floor)
            until_sample -= past - first
            likely = np.inf
            if is_close and _FEW * pool_size >= pool.size:
                if not are_even(terms, term_squares, past - first, alpha.size):
                    # No sample tells of these, but the rows visited so far: they are many more, and in random order.
                    if is_fresh and k < _SEGMENTS:
                        likely = (gap + _CAUTION * np.sqrt(gap_squares)) * _SEGMENTS / k
                elif until_sample <= 0:
                    until_sample = _SAMPLE_WORTH * sample_size(alpha.size)
                    likely = sampled_gap(values, columns, starts, constants, balance[0], w, alpha, _SEGMENTS * now + k)
                    sampled = likely
            whole = likely + bias_mismatch(bias_feature, balance)
            if whole < np.inf and whole <= target * max(dual + whole, floor):
                sampled = likely
                break
        now += 1
        visited += past
        until_scan -= past
        usual = np.sqrt(squares / pushed) if pushed > 0 else 0.0
        if not are_even(gap, gap_squares, past, alpha.size):
            until_sample = max(until_sample, pool_size + 1)  # a segment of the next epoch may not show it
        is_whole = is_whole and past == pool.size
        pull, mismatch = settle_bias(bias_feature, pull, balance, gap, updates)
        foretold = foretell_gap(gap, last_gap) if is_whole else gap
        last_gap, gap = gap, (sampled if sampled < np.inf else foretold) + mismatch
        violation = largest - smallest
        is_near = gap <= target * max(dual + gap, floor)
        if is_near and is_fresh and _FEW * pool_size < pool.size:
            terms, _ = gap_of(values, columns, starts, constants, balance[0], w, alpha, pool[:past])
            gap = terms + mismatch
            is_near = gap <= target * max(dual + gap, floor)
        pool_size = keep_awake(wake, now, pool, pool_size)
        is_done = updates == 0 or violation < violation_tol
        if is_done and not is_whole:
            wake_all(wake, now)
            until_scan = 0
        if is_near and not is_fresh and sampled == np.inf:
            until_scan = 0  # rows that have woken since may have a say
        elif is_near or (is_done and is_whole) or visited >= pool.size or not np.isfinite(gap):
            break
    scalars = pull, usual, now, pool_size, until_scan, until_sample, last_gap
    return *scalars, visited, is_whole, gap, violation, updates, dual


@njit(cache=True, nogil=True)
def foretell_gap(gap: float, last_gap: float) -> float:
    """The rows' gap after an epoch, of which `gap` was seen in the middle, so to speak, and before that `last_gap`."""
    return gap * min(1.0, _DOUBT * np.sqrt(gap / last_gap)) if 0.0 < last_gap < np.inf else gap


@njit(cache=True, nogil=True)
def end_epoch(
    constants: Array,
    bias_feature: float,
    pull: float,
    alpha: Array,
    w: Array,
    balance: Array,
    gap: float,
    updates: int,
    now: int,
    pool: Array,
    pool_size: int,
    wake: Array,
) -> tuple[float, int, float, float]:
    """(pull from now on, rows in the pool that stay awake, whole gap, dual objective)"""
    w[w.size - 1] = bias_feature * balance[1]
    pull, mismatch = settle_bias(bias_feature, pull, balance, gap, updates)
    pool_size = keep_awake(wake, now, pool, pool_size)
    return pull, pool_size, gap + mismatch, dual_value(alpha, constants, w)


@njit(cache=True, nogil=True, error_model="numpy")
def descend(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    share: float,
    naps: float,
    now: int,
    rows: Array,
    alpha: Array,
    w: Array,
    balance: Array,
    wake: Array,
) -> Sweep:
    """A step in each of the rows' alphas, in this order; several threads may do so at once for different rows.

    A row that its gradient pushes against a bound naps for as many epochs as that gradient is times 1 / `naps`.
    """
    dense = starts.size == 0
    d = w.size - 1
    gap, term_squares, gain, largest, smallest, squares, pushed, updates = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0
    a_line = LINE // values.itemsize
    for s in range(rows.size):
        # A random row is a cache miss in every array: ask for the rows ahead while this one is worked on.
        if s + _FAR < rows.size:
            ahead = rows[s + _FAR]
            prefetch(alpha, ahead)
            prefetch(constants, 4 * ahead)
            if not dense:
                prefetch(starts, ahead)
        if s + _NEAR < rows.size:
            ahead = rows[s + _NEAR]
            start = ahead * d if dense else starts[ahead]
            # Not by prefetch_row: a call for each row may cost more than short rows do.
            stop = min(start + d if dense else starts[ahead + 1], start + AHEAD)
            for k in range(start, stop, a_line):
                prefetch(values, k)
            if not dense:
                for k in range(start, stop, LINE // columns.itemsize):
                    prefetch(columns, k)
        i = rows[s]
        y, C, D, curvature = constants[i, 0], constants[i, 1], constants[i, 2], constants[i, 3] + share
        U = np.inf if D > 0.0 else C
        a, b = alpha[i], balance[0]
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], w) if dense else dot_sparse(values, columns, first, past, w)
        margin = y * (score + b)
        g = margin - 1.0 + D * a
        term = gap_term(margin, g, a, C, D)
        gap += term
        term_squares += term * term
        if (a == 0.0 and g >= 0.0) or (a == U and g <= 0.0):
            nap = abs(g) * naps
            if nap >= 1.0:
                wake[i] = due_epoch(nap, now)
        else:
            largest, smallest = max(largest, g), min(smallest, g)
            squares += g * g
            pushed += 1
            if abs(g) > 1e-12:
                alpha[i] = min(max(a - g / curvature, 0.0), U)
                step = alpha[i] - a
                change = step * y
                if change != 0.0:
                    updates += 1
                    gain -= step * (g - y * b + 0.5 * step * constants[i, 3])
                    balance[0] = b + share * change
                    balance[1] += change
                    if dense:
                        add_dense(values[first:past], change, w)
                    else:
                        add_sparse(values, columns, first, past, change, w)
    return gap, term_squares, gain, largest, smallest, squares, pushed, updates


@njit(cache=True, nogil=True, fastmath=_SUM)
def dual_value(alpha: Array, constants: Array, w: Array) -> float:
    total = 0.0
    for i in range(alpha.size):
        total += alpha[i] * (1.0 - 0.5 * constants[i, 2] * alpha[i])
    for j in range(w.size):
        total -= 0.5 * w[j] * w[j]
    return total
