"""The reads of X of the augmented Lagrangian methods, and the minimiser over one residual at their heart.

Symbols as in augmented_lagrangian.py: h_i = y_i (x_i, bias feature), the weights v, residuals z, multipliers alpha,
and alpha^ = alpha + mu (1 - h v - z), which is p C z^(p - 1) and so a point of the dual's domain.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import BinaryProblem

__all__ = ["Penalties", "RowSums", "add_product", "dual_point", "move_multipliers_and_residuals"]


class Penalties(NamedTuple):
    """mu_i = mu scales_i of every row; 0 for rows without cost."""

    scales: Floats
    bias_feature: float


class RowSums(NamedTuple):
    """What a read adds up over the rows."""

    loss: float
    """Of the weights."""
    gap_terms: float
    """The rows' part of the gap between the weights and alpha^."""
    violation: float
    """|1 - Hv - z|^2 with the residuals before the read."""
    split_loss: float
    """Of those residuals."""
    multiplier_change: float
    """sum of (change of alpha_i)^2 / scale_i"""
    residual_change: float
    """sum of scale_i (change of z_i)^2"""


def move_multipliers_and_residuals(
    problem: BinaryProblem,
    penalties: Penalties,
    v: Floats,
    multiplier_mu: float,
    next_mu: float,
    multipliers: Floats,
    z: Floats,
    slack: Floats,
    out: Floats,
) -> RowSums:
    """Moves the multipliers by `multiplier_mu`, then minimises over z with `next_mu`; out += sum_i alpha^_i h_i."""
    sums = _update_rows(
        *problem.data.flat(), problem.signs, problem.costs, penalties.scales, penalties.bias_feature,
        problem.spec.exponent, read_only(v), multiplier_mu, next_mu, multipliers, z, slack, out,
    )  # fmt: skip
    return RowSums(*sums)


def add_product(problem: BinaryProblem, penalties: Penalties, mu: float, direction: Floats, out: Floats) -> None:
    """out += H' mu H direction"""
    _add_product(*problem.data.flat(), penalties.scales, penalties.bias_feature, mu, read_only(direction), out)


def dual_point(
    problem: BinaryProblem, penalties: Penalties, mu: float, multipliers: Floats, z: Floats, slack: Floats
) -> Floats:
    """alpha^ of the last read."""
    alpha = np.zeros_like(z)
    _dual_values(problem.costs, penalties.scales, problem.spec.exponent, mu, multipliers, z, slack, alpha)
    return alpha


# --- kernels. y, C, mu: y_i, C_i, mu_i of the row at hand; s: its slack 1 - h_i v; a: its multiplier; t: s + a / mu ---


@njit(cache=True, nogil=True, error_model="numpy")
def _update_rows(
    values: Array, columns: Array, starts: Array, signs: Array, costs: Array, scales: Array, bias_feature: float,
    p: float, v: Array, multiplier_mu: float, next_mu: float, multipliers: Array, z: Array, slack: Array, sums: Array,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    """The fields of `RowSums`."""
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
    return loss, terms, violation, split_loss, multiplier_change, z_change


@njit(cache=True, nogil=True)
def _add_product(
    values: Array, columns: Array, starts: Array, scales: Array, bias_feature: float, mu: float, direction: Array,
    out: Array,
) -> None:  # fmt: skip
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
def _dual_values(
    costs: Array, scales: Array, p: float, mu: float, multipliers: Array, z: Array, slack: Array, out: Array
) -> None:
    for i in range(costs.size):
        if costs[i] > 0.0:
            out[i] = _dual_value(slack[i], multipliers[i], z[i], costs[i], mu * scales[i], p)


@njit(cache=True, nogil=True)
def _dual_value(s: float, a: float, z: float, C: float, mu: float, p: float) -> float:
    """alpha^ = a + mu (s - z), which is p C z^(p - 1) if z > 0, in the form that rounds less."""
    if z < 0.0:
        return 0.0
    t = s + a / mu
    if p == 1.0:
        return C if z > 0.0 else min(max(mu * t, 0.0), C)
    return p * C * _power(z, p - 1.0) if 2.0 * z > t else max(mu * (t - z), 0.0)


@njit(cache=True, nogil=True)
def _gap_term(s: float, z: float, alpha: float, C: float, p: float) -> float:
    """C max(0, s)^p + conj(alpha) - alpha s, where conj(alpha) = (p - 1) C z^p for alpha = p C z^(p - 1)."""
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
    """The minimiser over z of g max(0, z)^p + (z - t)^2 / 2: for t > 0 the root of z + p g z^(p - 1) = t."""
    if not t > 0.0:
        return t
    if p == 1.0:
        return max(t - g, 0.0)
    if p == 2.0:
        return t / (1.0 + 2.0 * g)
    # Neither term is above t. Newton's step from there lands left of the root, because the left side is concave, and
    # so does putting the bound of one term into the other; from the left, Newton's method climbs to the root.
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
