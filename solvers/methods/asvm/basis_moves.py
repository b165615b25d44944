"""Kernels of `asvm`: the two passes over the rows that a move of u takes. Symbols as in asvm.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods._shared.signed_rows import SignedRows

__all__ = ["DualSums", "Move", "evaluate_move", "update_dual"]


class Move(NamedTuple):
    """Sums that decide how u moves. s is a row's slack 1 - h_i z; W s is its component of the minimiser over u_B."""

    n_clipped: int
    """Number of clipped rows: rows of B with s < 0."""
    clipped_energy: float
    """Sum of W s^2 over the clipped rows."""
    kept_energy: float
    """Sum of W s^2 over the kept rows: rows of B with s >= 0."""
    kept_total: float
    """Sum of W s over the kept rows."""
    distance: float
    """Sum of (u - W s)^2 / W over B."""
    longest: float
    """Largest fraction of the way from u to the minimiser that keeps every component >= 0."""
    enter_energy: float
    """Sum of W s^2 over the violators: rows outside B with s > 0."""
    enter_squares: float
    """Sum of s^2 over the violators."""


class DualSums(NamedTuple):
    """Sums over the rows at the new u."""

    mismatch: float
    """Sum of the rows' terms of the duality gap."""
    total: float
    """Sum of u."""
    squares: float
    """Sum of u^2 / W."""


# --- kernels. s: slack 1 - h_i z of the current row, W: 2 C_i, W s: the row's component of the minimiser --------------


@njit(cache=True, nogil=True)
def evaluate_move(rows: SignedRows, z: Array, u: Array, basis: Array, slack: Array, parts: Array) -> Move:
    """Compute the slack of every row and the sums that decide the move.

    Adds W s h to parts[0] for the rows of B with s >= 0, to parts[1] for the other rows of B, and to parts[2] for the
    violators outside B.
    """
    values, columns, starts, signs, costs = rows.values, rows.columns, rows.starts, rows.signs, rows.costs
    bias_feature = rows.bias_feature
    dense, d = starts.size == 0, z.size - 1
    n_clipped, clipped_energy, kept_energy, kept_total, distance, longest = 0, 0.0, 0.0, 0.0, 0.0, 1.0
    enter_energy, enter_squares = 0.0, 0.0
    for i in range(costs.size):
        slack[i] = 0.0
        W = 2.0 * costs[i]
        if W == 0.0:
            continue
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], z) if dense else dot_sparse(values, columns, first, past, z)
        s = 1.0 - signs[i] * (score + bias_feature * z[d])
        slack[i] = s
        component = W * s
        if basis[i]:
            distance += W * (u[i] / W - s) ** 2
            if s >= 0.0:
                part = 0
                kept_energy += component * s
                kept_total += component
            else:
                part = 1
                n_clipped += 1
                clipped_energy += component * s
                longest = min(longest, u[i] / (u[i] - component))
        elif s > 0.0:
            part = 2
            enter_energy += component * s
            enter_squares += s * s
        else:
            continue
        multiplier, out = component * signs[i], parts[part]
        out[d] += multiplier * bias_feature
        if dense:
            add_dense(values[first:past], multiplier, out)
        else:
            add_sparse(values, columns, first, past, multiplier, out)
    return Move(n_clipped, clipped_energy, kept_energy, kept_total, distance, longest, enter_energy, enter_squares)


@njit(cache=True, nogil=True)
def update_dual(costs: Array, slack: Array, basis: Array, u: Array, along: float, entry: float) -> DualSums:
    """Move u_B by the fraction `along` towards the minimiser, clipped at 0. Set u of each violator to `entry` * W s."""
    mismatch, total, squares = 0.0, 0.0, 0.0
    for i in range(costs.size):
        W, s = 2.0 * costs[i], slack[i]
        if W == 0.0:
            continue
        if basis[i]:
            leaves = s < 0.0 and u[i] / (u[i] - W * s) <= along
            u[i] = W * s if along == 1.0 else u[i] + along * (W * s - u[i])
            if leaves or u[i] <= 0.0:
                u[i] = 0.0
                basis[i] = False
        elif entry > 0.0 and s > 0.0:
            u[i] = entry * W * s
            basis[i] = u[i] > 0.0
        share = u[i] / W
        mismatch += 0.5 * W * (max(s, 0.0) - share) ** 2 + u[i] * max(-s, 0.0)
        total += u[i]
        squares += u[i] * share
    return DualSums(mismatch, total, squares)
