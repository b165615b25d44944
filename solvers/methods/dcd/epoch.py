"""Kernels of dual coordinate descent: exact steps in one alpha_i after another, for dense and sparse rows.

A step of the method calls `run_pass`: it runs epochs over the active set until they have visited n rows in total.
Symbols are those of dual_problem.py.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.prefetch import AHEAD, LINE, prefetch
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms, dual_value, gap_term
from solvers.methods.dcd.proximal_bias import adapt_pull, bias_mismatch, bias_share
from solvers.methods.dcd.sampled_gap import are_even, best_bias, gap_of, sample_size, sampled_gap
from solvers.methods.dcd.shrinking import Schedule, due_epoch, gather_active, keep_active, make_all_due, skip_rate

__all__ = ["Carried", "Goal", "PassReport", "Sweep", "add_sweeps", "descend", "end_epoch", "predict_gap", "run_pass"]

_FAR, _NEAR = 8, 3  # prefetch distance, in rows: of a row's numbers, then of its entries
_SEGMENTS = 4
"""Number of segments of an epoch. The proximal centre of the bias moves before each segment. Larger: the bias adapts
faster, with more work per epoch. Set by hand; no measurement is recorded."""
_LEAST_SAMPLE, _SAMPLE, _SAMPLE_SHARE = 64, 1024, 8
"""Rows whose scores determine the first proximal centre of the bias: 1/8 of the segment's rows, at least 64, at most
1,024. Larger: a better centre, a longer first epoch. With 4,600 rows, four samples of 1,024 took twice as long as the
epoch."""
_DOUBT = 1.5
"""Factor on the gap predicted from the last two epochs. Larger: fewer failed certificates (each costs half an epoch),
more epochs beyond the target. Set by hand; no measurement is recorded."""
_CLOSE, _LEFT = 2.0, 0.15
"""Within an epoch the gap is estimated only if it is likely to be below _CLOSE times the target. The visit of a row is
assumed to reduce its term of the gap to the fraction _LEFT. Larger _CLOSE: earlier and more estimates. Set by hand; no
measurement is recorded."""
_CAUTION = 1.5
"""Standard errors added to the gap that is extrapolated from the rows visited so far. Larger: fewer failed
certificates, more visits. Of 152 runs, 5 had a failed certificate (7 with a value of 1, 3 without extrapolation). With
extrapolation w8a, C = 0.01, takes 10 % fewer reads."""
_FEW = 4
"""An active set of fewer than 1/_FEW of the rows counts as small. Its gap is then computed from all of its rows,
because the terms seen at the visits were up to 1.8 times too low (w8a, ijcnn1, hinge, C = 0.01, 1e-6). Larger: fewer
active sets count as small, and estimates are less certain."""
_SAMPLE_WORTH = 8
"""Least number of visits, per row of a sample, before the gap is sampled again. Smaller: more samples, up to twice the
reads on data with few rows. Set by hand; no measurement is recorded."""


class Sweep(NamedTuple):
    """Sums over the visits of some rows."""

    gap: float
    """Sum of the rows' terms of the gap, each before the row's step."""
    gap_squares: float
    """Sum of the squares of these terms."""
    gain: float
    """Increase of the dual, without its bias term."""
    largest: float
    """Largest gradient of a row that is not pushed against its bound; at least 0."""
    smallest: float
    """Smallest such gradient; at most 0."""
    squares: float
    """Sum of the squares of these gradients."""
    free: int
    """Number of these gradients."""
    updates: int


class Carried(NamedTuple):
    """Numbers that one epoch passes to the next."""

    pull: float
    typical_gradient: float
    epoch: int
    size: int
    until_scan: int
    until_sample: int
    """Visits until the gap can be sampled again."""
    last_gap: float
    """Sum of the rows' terms of the gap in the last epoch; infinite after other steps."""


class Goal(NamedTuple):
    """When a pass ends early."""

    target: float
    """Target of the relative gap."""
    floor: float
    """Smallest divisor of a relative gap, used if the primal value is below it."""
    violation_tol: float


class PassReport(NamedTuple):
    """Results of a pass."""

    visited: int
    """Number of visits; a row can count several times."""
    is_whole: bool
    """Whether the last epoch visited every row."""
    gap: float
    """Estimate of the gap after the last epoch."""
    violation: float
    """Largest minus smallest projected gradient in the last epoch."""
    updates: int
    """Number of alphas that the last epoch changed."""
    dual: float


@njit(cache=True, nogil=True)
def run_pass(
    terms: DualTerms, point: DualPoint, schedule: Schedule, carried: Carried, goal: Goal
) -> tuple[Carried, PassReport]:
    """Run epochs over the active set until they have visited n rows in total or the goal is met."""
    alpha, w, balance = point
    bias_feature, pool, due = terms.bias_feature, schedule.pool, schedule.due
    pull, typical_gradient, epoch, size, until_scan, until_sample, last_gap = carried
    target, floor, violation_tol = goal
    d = w.size - 1
    quadratic = dual_value(alpha, terms.constants, w[:d])
    visited = 0
    is_new = epoch == 0 and quadratic == 0.0 and bias_feature > 0.0
    while True:
        is_fresh = until_scan <= 0 or size == 0 or size == pool.size  # the active set contains every due row
        size, until_scan = gather_active(schedule, epoch, size, until_scan)
        is_whole = size == pool.size
        seen, sampled, past = Sweep(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0), np.inf, 0
        rate = skip_rate(typical_gradient, schedule.may_shrink)
        share = bias_share(bias_feature, pull)
        for k in range(1, _SEGMENTS + 1):
            first, past = past, size * k // _SEGMENTS
            rows = pool[first:past]
            balance[0] = share * (balance[1] + pull * balance[0])
            if is_new and epoch == 0:
                balance[0] = best_bias(terms, w, rows[: min(_SAMPLE, max(_LEAST_SAMPLE, rows.size // _SAMPLE_SHARE))])
            sweep = descend(terms, point, rows, share, rate, epoch, due)
            seen = add_sweeps(seen, sweep)
            quadratic += sweep.gain
            w[d] = bias_feature * balance[1]
            dual = quadratic - 0.5 * w[d] * w[d]
            # Rows not yet visited in this epoch still have their term of the last epoch; the terms of visited rows have
            # fallen to about the fraction _LEFT.
            is_close = (_SEGMENTS - (1.0 - _LEFT) * k) * sweep.gap <= _CLOSE * target * max(dual, floor)
            until_sample -= rows.size
            likely = np.inf
            if is_close and _FEW * size >= pool.size:
                if not are_even(sweep.gap, sweep.gap_squares, rows.size, alpha.size):
                    # A sample would miss the few large terms. The rows visited so far are a larger random sample.
                    if is_fresh and k < _SEGMENTS:
                        likely = (seen.gap + _CAUTION * np.sqrt(seen.gap_squares)) * _SEGMENTS / k
                elif until_sample <= 0:
                    until_sample = _SAMPLE_WORTH * sample_size(alpha.size)
                    likely = sampled_gap(terms, point, _SEGMENTS * epoch + k)
                    sampled = likely
            whole = likely + bias_mismatch(bias_feature, balance)
            if whole < np.inf and whole <= target * max(dual + whole, floor):
                sampled = likely
                break
        epoch += 1
        visited += past
        until_scan -= past
        typical_gradient = np.sqrt(seen.squares / seen.free) if seen.free > 0 else 0.0
        if not are_even(seen.gap, seen.gap_squares, past, alpha.size):
            until_sample = max(until_sample, size + 1)  # one segment of the next epoch can miss the large terms
        is_whole = is_whole and past == pool.size
        pull, mismatch = adapt_pull(bias_feature, pull, balance, seen.gap, seen.updates)
        predicted = predict_gap(seen.gap, last_gap) if is_whole else seen.gap
        last_gap, gap = seen.gap, (sampled if sampled < np.inf else predicted) + mismatch
        violation = seen.largest - seen.smallest
        is_near = gap <= target * max(dual + gap, floor)
        if is_near and is_fresh and _FEW * size < pool.size:
            total, _ = gap_of(terms, point, pool[:past])
            gap = total + mismatch
            is_near = gap <= target * max(dual + gap, floor)
        size = keep_active(schedule, epoch, size)
        is_done = seen.updates == 0 or violation < violation_tol
        if is_done and not is_whole:
            make_all_due(due, epoch)
            until_scan = 0
        if is_near and not is_fresh and sampled == np.inf:
            until_scan = 0  # rows that have become due can add to the gap
        elif is_near or (is_done and is_whole) or visited >= pool.size or not np.isfinite(gap):
            break
    left = Carried(pull, typical_gradient, epoch, size, until_scan, until_sample, last_gap)
    return left, PassReport(visited, is_whole, gap, violation, seen.updates, dual)


@njit(cache=True, nogil=True)
def predict_gap(gap: float, last_gap: float) -> float:
    """Predict the sum of the rows' terms of the gap after an epoch. `gap` is the sum of the terms at the visits of this
    epoch, `last_gap` the same for the epoch before."""
    return gap * min(1.0, _DOUBT * np.sqrt(gap / last_gap)) if 0.0 < last_gap < np.inf else gap


@njit(cache=True, nogil=True)
def end_epoch(
    terms: DualTerms, point: DualPoint, schedule: Schedule, pull: float, epoch: int, size: int, gap: float, updates: int
) -> tuple[float, int, float, float]:
    """Finish an epoch of several threads. Return (pull, size of the active set, gap, dual objective)."""
    alpha, w, balance = point
    w[w.size - 1] = terms.bias_feature * balance[1]
    pull, mismatch = adapt_pull(terms.bias_feature, pull, balance, gap, updates)
    size = keep_active(schedule, epoch, size)
    return pull, size, gap + mismatch, dual_value(alpha, terms.constants, w)


@njit(cache=True, nogil=True)
def add_sweeps(one: Sweep, other: Sweep) -> Sweep:
    return Sweep(
        one.gap + other.gap,
        one.gap_squares + other.gap_squares,
        one.gain + other.gain,
        max(one.largest, other.largest),
        min(one.smallest, other.smallest),
        one.squares + other.squares,
        one.free + other.free,
        one.updates + other.updates,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def descend(
    terms: DualTerms, point: DualPoint, rows: Array, share: float, rate: float, epoch: int, due: Array
) -> Sweep:
    """Take a step in the alpha of each row, in this order. Several threads can call this at the same time for different
    rows.

    A row whose gradient pushes alpha against its bound is skipped for |gradient| * rate epochs.
    """
    values, columns, starts = terms.rows
    constants = terms.constants
    alpha, w, balance = point
    dense = starts.size == 0
    d = w.size - 1
    gap, gap_squares, gain, largest, smallest, squares, free, updates = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0
    a_line = LINE // values.itemsize
    for s in range(rows.size):
        # A random row is a cache miss in every array: prefetch the rows ahead while this one is processed.
        if s + _FAR < rows.size:
            ahead = rows[s + _FAR]
            prefetch(alpha, ahead)
            prefetch(constants, 4 * ahead)
            if not dense:
                prefetch(starts, ahead)
        if s + _NEAR < rows.size:
            ahead = rows[s + _NEAR]
            start = ahead * d if dense else starts[ahead]
            # Not by prefetch_row: for short rows a call can cost more than the row itself.
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
        gap_squares += term * term
        if (a == 0.0 and g >= 0.0) or (a == U and g <= 0.0):
            skipped = abs(g) * rate
            if skipped >= 1.0:
                due[i] = due_epoch(skipped, epoch)
        else:
            largest, smallest = max(largest, g), min(smallest, g)
            squares += g * g
            free += 1
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
    return Sweep(gap, gap_squares, gain, largest, smallest, squares, free, updates)
