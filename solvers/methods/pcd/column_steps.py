"""Kernels of `pcd` that read columns: steps on single weights, and sums over the columns. Symbols as in pcd.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.rng import shuffle
from solvers.linalg.types import Array, Floats

__all__ = ["Sweep", "Visited", "WeightedColumns", "curvatures", "sum_gradient", "sum_losses", "visit_columns"]

Entry = np.uint64

SIGMA, BETA = 0.01, 0.5
"""Constants of the line search (Chang, Hsieh, Lin 2008): a step is multiplied by BETA until P falls by at least SIGMA
times the square of the step. Larger SIGMA: shorter steps. Smaller BETA: fewer trials, shorter steps."""


class WeightedColumns(NamedTuple):
    """The transposed copy of the rows y_i x_i (data/columns.py), with a factor for each row and column."""

    values: Array
    rows: Array
    starts: Array
    u: Array
    """u_i = 2 C_i of each row."""
    scales: Array
    """Factor of each column: 1, or the bias feature for the last one."""


class Sweep(NamedTuple):
    """The arrays that a sweep changes."""

    order: Array
    w: Array
    b: Array
    random_state: Array


class Visited(NamedTuple):
    """Results of the steps on some columns."""

    position: int
    """Index of the next column in the order; 0 if the sweep is complete."""
    read: int
    """Number of entries read."""
    moved: int
    """Number of columns whose weight changed."""
    seen: float
    """Sum of the squared derivatives."""


def curvatures(columns: WeightedColumns) -> Floats:
    """Return H_j of each column: the second derivative if every row were active."""
    found = np.empty_like(columns.scales)
    _sum_curvatures(columns, found)
    return found


# --- kernels. e: an entry of a column, i: its row. Entry indices are unsigned, because numba tests signed ones for ----
# --- negative values at each use --------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True)
def visit_columns(
    columns: WeightedColumns, H: Array, sweep: Sweep, position: int, most: int, is_shuffled: bool
) -> Visited:
    """Take steps on the columns of `order`, starting at `position`, until `most` entries have been read."""
    values, rows, starts, u, scales = columns.values, columns.rows, columns.starts, columns.u, columns.scales
    order, w, b = sweep.order, sweep.w, sweep.b
    if position == 0 and is_shuffled:
        shuffle(order, order.size, 1, sweep.random_state)
    read, moved, seen = 0, 0, 0.0
    while position < order.size:
        if read >= most:
            return Visited(position, read, moved, seen)
        j = order[position]
        first, past = np.uint64(starts[j]), np.uint64(starts[j + 1])
        size, scale = starts[j + 1] - starts[j], scales[j]
        position += 1
        D1, D2 = _derive(values, rows, first, past, u, b)
        D1, D2 = w[j] - scale * D1, 1.0 + scale * scale * D2
        read += size
        seen += D1 * D1
        z = -D1 / D2
        # A step of at most this length decreases P enough for any set of active rows.
        safe = D2 / (0.5 * H[j] + SIGMA)
        fraction = 1.0
        while fraction > safe:
            step = fraction * z
            change = step * (w[j] + 0.5 * step) + _loss_change(values, rows, first, past, u, b, step * scale)
            read += size
            if change <= -SIGMA * step * step:
                break
            fraction *= BETA
        step = fraction * z
        if w[j] + step != w[j]:
            moved += 1
            w[j] += step
            _lower_slacks(values, rows, first, past, b, step * scale)
    return Visited(0, read, moved, seen)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derive(values: Array, rows: Array, first: Entry, past: Entry, u: Array, b: Array) -> tuple[float, float]:
    """Return (sum of u b x, sum of u x x) over the active rows of a column."""
    slope, bend = 0.0, 0.0
    if rows.size == 0:
        column = values[first:past]
        for i in range(column.size):
            ux = u[i] * column[i] if b[i] > 0.0 else 0.0
            slope += ux * b[i]
            bend += ux * column[i]
        return slope, bend
    for e in range(first, past):
        i = rows[e]
        if b[i] > 0.0:
            ux = u[i] * values[e]
            slope += ux * b[i]
            bend += ux * values[e]
    return slope, bend


@njit(cache=True, nogil=True, fastmath=_SUM)
def _loss_change(values: Array, rows: Array, first: Entry, past: Entry, u: Array, b: Array, step: float) -> float:
    """Return the change of the losses if each slack falls by step * x."""
    total = 0.0
    for e in range(first, past):
        i = np.uint64(rows[e]) if rows.size > 0 else e - first
        before = max(b[i], 0.0)
        after = max(b[i] - step * values[e], 0.0)
        total += 0.5 * u[i] * (after - before) * (after + before)
    return total


@njit(cache=True, nogil=True)
def _lower_slacks(values: Array, rows: Array, first: Entry, past: Entry, b: Array, step: float) -> None:
    """Lower each slack by step * x."""
    if rows.size == 0:
        column = values[first:past]
        for i in range(column.size):
            b[i] -= step * column[i]
    else:
        for e in range(first, past):
            b[rows[e]] -= step * values[e]


@njit(cache=True, nogil=True)
def sum_gradient(columns: WeightedColumns, w: Array, b: Array, out: Array) -> None:
    """Write the gradient of P at w, whose slacks are b."""
    values, rows, starts, u, scales = columns.values, columns.rows, columns.starts, columns.u, columns.scales
    for j in range(w.size):
        out[j] = w[j] - scales[j] * _derive(values, rows, np.uint64(starts[j]), np.uint64(starts[j + 1]), u, b)[0]


@njit(cache=True, nogil=True)
def _sum_curvatures(columns: WeightedColumns, out: Array) -> None:
    values, rows, starts, u, scales = columns.values, columns.rows, columns.starts, columns.u, columns.scales
    active = np.ones(u.size)
    for j in range(out.size):
        out[j] = (
            1.0 + scales[j] ** 2 * _derive(values, rows, np.uint64(starts[j]), np.uint64(starts[j + 1]), u, active)[1]
        )


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_losses(b: Array, u: Array) -> float:
    """Return the sum of C xi^2 over the rows."""
    total = 0.0
    for i in range(b.size):
        xi = max(b[i], 0.0)
        total += 0.5 * u[i] * xi * xi
    return total
