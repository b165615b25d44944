"""Kernels of the augmented Lagrangian methods: passes over X, and the minimiser over the residual of one row.

Symbols as in augmented_lagrangian.py: h_i = y_i (x_i, bias feature), weights v, residuals z, multipliers alpha, and the
feasible dual point alpha^ = alpha + mu (1 - h v - z) = p C z^(p - 1).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods._shared.signed_rows import SignedRows

__all__ = ["Penalties", "RowSums", "Split", "add_product", "move_rows", "write_dual_point"]


class Penalties(NamedTuple):
    """Constants of the rows' terms, in addition to their costs."""

    scales: Array
    """mu_i / mu of each row; 0 for rows of cost 0."""
    p: float
    """The exponent of the loss."""


class Split(NamedTuple):
    """The variables of each row. The kernels change them in place."""

    multipliers: Array
    """The multiplier alpha_i."""
    z: Array
    """The residual z_i."""
    slack: Array
    """1 - h_i v at the weights of the last pass."""


class RowSums(NamedTuple):
    """Sums over all rows from one pass."""

    loss: float
    """Sum of the losses at the weights v."""
    gap_terms: float
    """Sum of the rows' terms of the duality gap between v and alpha^."""
    violation: float
    """|1 - Hv - z|^2 with the residuals z before the pass."""
    split_loss: float
    """Sum of the losses at the residuals z before the pass."""
    multiplier_change: float
    """Sum of (change of alpha_i)^2 / scale_i."""
    residual_change: float
    """Sum of scale_i (change of z_i)^2."""


# --- kernels. y, C, mu: y_i, C_i, mu_i of the current row; s: its slack 1 - h_i v; a: its multiplier; t: s + a / mu ---


@njit(cache=True, nogil=True, error_model="numpy")
def move_rows(
    rows: SignedRows, penalties: Penalties, v: Array, multiplier_mu: float, next_mu: float, split: Split, sums: Array
) -> RowSums:
    """Update alpha with penalty `multiplier_mu`, then z with `next_mu`; add sum_i alpha^_i h_i to sums."""
    values, columns, starts, signs, costs = rows.values, rows.columns, rows.starts, rows.signs, rows.costs
    bias_feature, scales, p = rows.bias_feature, penalties.scales, penalties.p
    multipliers, z, slack = split.multipliers, split.z, split.slack
    dense, d = starts.size == 0, v.size - 1
    loss = terms = violation = split_loss = multiplier_change = z_change = 0.0
    for i in range(signs.size):
        C, y, scale = costs[i], signs[i], scales[i]
        if C == 0.0:
            continue
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], v) if dense else dot_sparse(values, columns, first, past, v)
        s, before = 1.0 - y * (score + bias_feature * v[d]), z[i]
        move = multiplier_mu * scale * (s - before)
        a, mu = multipliers[i] + move, next_mu * scale
        after = _minimise_residual(s + a / mu, C / mu, p)
        alpha = _dual_value(s, a, after, C, mu, p)
        loss += C * _power(max(s, 0.0), p)
        terms += _gap_term(s, after, alpha, C, p)
        violation += (s - before) * (s - before)
        split_loss += C * _power(max(before, 0.0), p)
        multiplier_change += move * move / scale
        z_change += scale * (after - before) * (after - before)
        multipliers[i], z[i], slack[i] = a, after, s
        if alpha == 0.0:
            continue
        multiplier = y * alpha
        sums[d] += multiplier * bias_feature
        if dense:
            add_dense(values[first:past], multiplier, sums)
        else:
            add_sparse(values, columns, first, past, multiplier, sums)
    return RowSums(loss, terms, violation, split_loss, multiplier_change, z_change)


@njit(cache=True, nogil=True)
def add_product(rows: SignedRows, scales: Array, mu: float, direction: Array, out: Array) -> None:
    """Add H' mu H direction to out."""
    values, columns, starts, bias_feature = rows.values, rows.columns, rows.starts, rows.bias_feature
    dense, d = starts.size == 0, direction.size - 1
    for i in range(scales.size):
        if scales[i] == 0.0:
            continue
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = (
            dot_dense(values[first:past], direction) if dense else dot_sparse(values, columns, first, past, direction)
        )
        multiplier = mu * scales[i] * (score + bias_feature * direction[d])
        out[d] += multiplier * bias_feature
        if dense:
            add_dense(values[first:past], multiplier, out)
        else:
            add_sparse(values, columns, first, past, multiplier, out)


@njit(cache=True, nogil=True, error_model="numpy")
def write_dual_point(costs: Array, penalties: Penalties, mu: float, split: Split, out: Array) -> None:
    """Write alpha^ of the last pass, for rows with a positive cost."""
    scales, p = penalties.scales, penalties.p
    multipliers, z, slack = split.multipliers, split.z, split.slack
    for i in range(costs.size):
        if costs[i] > 0.0:
            out[i] = _dual_value(slack[i], multipliers[i], z[i], costs[i], mu * scales[i], p)


@njit(cache=True, nogil=True)
def _dual_value(s: float, a: float, z: float, C: float, mu: float, p: float) -> float:
    """Return alpha^ = a + mu (s - z), which is p C z^(p - 1) if z > 0, in the form that rounds less."""
    if z < 0.0:
        return 0.0
    t = s + a / mu
    if p == 1.0:
        return C if z > 0.0 else min(max(mu * t, 0.0), C)
    return p * C * _power(z, p - 1.0) if 2.0 * z > t else max(mu * (t - z), 0.0)


@njit(cache=True, nogil=True)
def _gap_term(s: float, z: float, alpha: float, C: float, p: float) -> float:
    """Return C max(0, s)^p + conj(alpha) - alpha s, where conj(alpha) = (p - 1) C z^p for alpha = p C z^(p - 1)."""
    if p == 1.0:
        return (C - alpha) * s if s > 0.0 else -alpha * s
    conjugate = (p - 1.0) * C * _power(max(z, 0.0), p)
    if s <= 0.0:
        return conjugate - alpha * s
    if p == 2.0:
        return C * (s - max(z, 0.0)) ** 2
    return max(C * _power(s, p) + conjugate - alpha * s, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _minimise_residual(t: float, g: float, p: float) -> float:
    """Return the minimiser over z of g max(0, z)^p + (z - t)^2 / 2: for t > 0 the root of z + p g z^(p - 1) = t."""
    if not t > 0.0:
        return t
    if p == 1.0:
        return max(t - g, 0.0)
    if p == 2.0:
        return t / (1.0 + 2.0 * g)
    # Both terms are positive and sum to t, so z <= t and p g z^(p - 1) <= t. Each inequality gives an upper bound of z.
    # The left side is concave, so a Newton step from an upper bound lands left of the root, and Newton's method then
    # rises to the root.
    q, G = p - 1.0, p * g
    above = min(t, _power(t / G, 1.0 / q))
    if above == 0.0:
        return 0.0
    power = G * _power(above, q)
    z = above - (above + power - t) / (1.0 + q * power / above)
    if above < t:
        z = max(z, _power((t - above) / G, 1.0 / q))
    if not z > 0.0:
        return 0.0
    for _ in range(60):
        power = G * _power(z, q)
        higher = z + (t - z - power) / (1.0 + q * power / z)
        if not higher > z:
            break
        z = higher
    return z


@njit(cache=True, nogil=True)
def _power(base: float, exponent: float) -> float:
    if exponent == 1.0:
        return base
    return base * base if exponent == 2.0 else float(base**exponent)
