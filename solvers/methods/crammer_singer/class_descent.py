"""Kernels of dual coordinate descent for all classes jointly. A step minimises exactly over the variables of one row.

Symbols: q and v are the shares and violations of the current row, one per class (crammer_singer.py). The last row of W
belongs to the bias: b = bias_feature W[d]. If the bias is free, `balance` holds S_m = sum_i A_i^m, and a proximal term
of strength 1 / bias_feature^2 holds b near a centre (class_bias.py); otherwise `balance` is empty.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.rng import shuffle
from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array

__all__ = ["ACTIVE_SHARE", "ClassPoint", "ClassTerms", "ClassVisits", "Goal", "PassReport", "move_shares", "run_pass"]


_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
ACTIVE_SHARE = 0.1
"""An epoch over all rows follows once the gap of the active rows is below this fraction of the gap in the last epoch
over all rows. Larger: shrunk rows are visited more often. Set by hand; no measurement is recorded."""
_SETTLED = 1e-12
"""Largest difference of violations that counts as rounding error: a smaller one does not change a row's variables.
Larger: less precise results. Set by hand; no measurement is recorded."""


class ClassTerms(NamedTuple):
    """Constants of a run."""

    rows: FlatRows
    costs: Array
    norms: Array
    """|x_i|^2 without the bias feature."""
    codes: Array
    """The class of each row, as an index."""
    shrinking: bool


class ClassPoint(NamedTuple):
    """The variables that a step changes, and the bias feature that belongs to W[d]."""

    A: Array
    W: Array
    balance: Array
    bias_feature: float


class ClassVisits(NamedTuple):
    """The rows that an epoch visits, and how often it moves the centre of a free bias."""

    order: Array
    active: int
    random_state: Array
    moves: int


class Goal(NamedTuple):
    """When the active rows count as solved, so that the next epoch visits all rows."""

    active_goal: float
    """Gap of the active rows at which they count as solved; set by the last epoch over all rows."""
    target: float
    """Target of the relative gap."""
    floor: float
    """Smallest divisor of a relative gap, used if the primal value is below it."""
    violation_tol: float


class EpochReport(NamedTuple):
    active: int
    """Number of rows still active."""
    violation: float
    """Largest violation of any visited row."""
    gap: float
    """Sum of the visited rows' terms of the gap."""
    updates: int


class PassReport(NamedTuple):
    """The active set after a pass, the counts of the pass, and the results of its last epoch."""

    active: int
    active_goal: float
    epochs: int
    visited: int
    is_whole: bool
    """Whether the last epoch visited every row."""
    gap: float
    violation: float
    updates: int
    dual: float


@njit(cache=True, nogil=True)
def run_pass(terms: ClassTerms, point: ClassPoint, visits: ClassVisits, goal: Goal) -> PassReport:
    """Run one epoch over all rows, or several epochs over the active rows that together visit at most as many rows.

    All rows become active again once the gap of the active ones is below the target or below `active_goal`.
    """
    A, W, balance, _ = point
    order, active, random_state, moves = visits
    active_goal, target, floor, violation_tol = goal
    size = order.size
    summed = W[: W.shape[0] - 1] if balance.size > 0 else W
    dual = _dual_value(A, terms.codes, summed)
    epochs, visited = 0, 0
    while True:
        is_whole = active == size
        visited += active
        epochs += 1
        seen = _run_epoch(terms, point, ClassVisits(order, active, random_state, moves))
        active, gap = seen.active, seen.gap
        if is_whole:
            active_goal = ACTIVE_SHARE * gap
        is_close = gap <= max(active_goal, target * max(dual + gap, floor))
        is_solved = seen.updates == 0 or seen.violation < violation_tol or is_close
        if active == 0 or (is_solved and not is_whole):
            active = size
        if is_whole or active == size or visited + active > size:
            break
    dual = _dual_value(A, terms.codes, summed)
    return PassReport(active, active_goal, epochs, visited, is_whole, gap, seen.violation, seen.updates, dual)


@njit(cache=True, nogil=True, error_model="numpy")
def _run_epoch(terms: ClassTerms, point: ClassPoint, visits: ClassVisits) -> EpochReport:
    """Visit the active rows in a new random order, and move the centre of a free bias to the bias `moves` times."""
    values, columns, starts = terms.rows
    costs, norms, codes, shrinking = terms.costs, terms.norms, terms.codes, terms.shrinking
    A, W, balance, bias_feature = point
    order, active, random_state, moves = visits
    dense = starts.size == 0
    d, k = W.shape[0] - 1, W.shape[1]
    entries, places = np.empty(d + 1), np.empty(d + 1, np.uint32)
    v, q, change = np.empty(k), np.empty(k), np.empty(k)
    largest, gap, updates = 0.0, 0.0, 0
    shuffle(order, active, 1, random_state)
    is_free, curvature = balance.size > 0, bias_feature * bias_feature
    stretch = active // moves + 1 if moves > 0 else active + 1
    until_move = stretch
    s = 0
    while s < active:
        until_move -= 1
        if until_move == 0:
            W[d] += bias_feature * balance
            until_move = stretch
        i = order[s]
        C, y = costs[i], codes[i]
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        count = _gather_nonzeros(values[first:past], entries, places) if dense else 0
        v[:] = 0.0
        if dense:
            _add_scores(entries[:count], places[:count], W, v)
        else:
            _add_scores(values[first:past], columns[first:past], W, v)
        a = A[i]
        highest, lowest, rest, used = _find_violations(a, C, y, bias_feature, W[d], v, q)
        for m in range(k):
            gap += q[m] * (highest - v[m])
        if shrinking and used == 1 and lowest > rest:
            active -= 1
            order[s], order[active] = order[active], order[s]
            continue
        s += 1
        largest = max(largest, highest - lowest)
        if highest - lowest <= _SETTLED:
            continue
        move_shares(norms[i] + curvature, C, v, q)
        if _replace_variables(q, C, y, a, change):
            updates += 1
            if dense:
                _add_products(entries[:count], places[:count], change, W)
            else:
                _add_products(values[first:past], columns[first:past], change, W)
            W[d] += bias_feature * change
            if is_free:
                balance += change
    return EpochReport(active, largest, gap, updates)


@njit(cache=True, nogil=True)
def _find_violations(
    a: Array, C: float, y: int, bias_feature: float, bias_weights: Array, v: Array, q: Array
) -> tuple[float, float, float, int]:
    """Turn the scores in v into violations, and compute the shares q.

    Returns the highest violation, the lowest among classes with a share, the highest among classes without one, and the
    number of classes with a share.
    """
    own = v[y] + bias_feature * bias_weights[y]
    highest, lowest, rest, used = 0.0, np.inf, -np.inf, 0
    for m in range(v.size):
        v[m] += bias_feature * bias_weights[m] - own + 1.0
        q[m] = -a[m]
        if m == y:
            v[m], q[m] = 0.0, C - a[m]
        highest = max(highest, v[m])
        if q[m] > 0.0:
            used += 1
            lowest = min(lowest, v[m])
        else:
            rest = max(rest, v[m])
    return highest, lowest, rest, used


@njit(cache=True, nogil=True)
def move_shares(h: float, C: float, v: Array, q: Array) -> None:
    """Project q + v / h onto {q >= 0, sum_m q_m = C} (Michelot 1986). Writes the result to q; overwrites v."""
    top = -np.inf
    for m in range(v.size):
        v[m] += h * q[m]
        top = max(top, v[m])
    if not h * C > 0.0:  # an empty row or cost 0: the class with the highest violation takes the whole cost
        for m in range(v.size):
            q[m] = 0.0
        q[v.argmax()] = C
        return
    # With v measured from its maximum, the shares are max(v - level, 0) / h; the level is never below -h C.
    level, count = -h * C, v.size + 1
    while True:
        total, above = 0.0, 0
        for m in range(v.size):
            if v[m] - top > level:
                total += v[m] - top
                above += 1
        if above >= count:
            break
        level, count = (total - h * C) / above, above
    for m in range(v.size):
        q[m] = max(v[m] - top - level, 0.0) / h


@njit(cache=True, nogil=True)
def _replace_variables(q: Array, C: float, y: int, a: Array, change: Array) -> bool:
    """Write the dual variables that belong to the shares q into a, and their change into `change`.

    The variables sum to 0 up to rounding. Returns whether any variable changed.
    """
    total = 0.0
    for m in range(q.size):
        if m != y:
            total += q[m]
    is_full = q[y] == 0.0 or total > C
    factor = C / total if is_full else 1.0
    is_changed = False
    for m in range(q.size):
        new = -q[m] * factor
        if m == y:
            new = C if is_full else total
        change[m] = new - a[m]
        a[m] = new
        is_changed = is_changed or change[m] != 0.0
    return is_changed


@njit(cache=True, nogil=True)
def _gather_nonzeros(row: Array, entries: Array, places: Array) -> int:
    """Copy the nonzeros of a dense row to entries and places, without a branch; return their number."""
    count = 0
    for j in range(row.size):
        entries[count], places[count] = row[j], j
        count += row[j] != 0.0
    return count


@njit(cache=True, nogil=True)
def _add_scores(entries: Array, places: Array, W: Array, out: Array) -> None:
    for e in range(entries.size):
        x, weights = entries[e], W[places[e]]
        for m in range(out.size):
            out[m] += x * weights[m]


@njit(cache=True, nogil=True)
def _add_products(entries: Array, places: Array, change: Array, W: Array) -> None:
    for e in range(entries.size):
        x, weights = entries[e], W[places[e]]
        for m in range(change.size):
            weights[m] += x * change[m]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dual_value(A: Array, codes: Array, W: Array) -> float:
    total = 0.0
    for i in range(codes.size):
        total += A[i, codes[i]]
    for j in range(W.shape[0]):
        for m in range(W.shape[1]):
            total -= 0.5 * W[j, m] * W[j, m]
    return total
