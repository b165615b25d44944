"""Kernels of `tron`: passes over rows, conjugate gradients, and the line search along a step. Symbols as in tron.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods._shared.signed_rows import SignedRows

__all__ = ["CgLimits", "CgResult", "CgVectors", "EvaluationSums", "evaluate_rows", "run_products", "search_line"]


class EvaluationSums(NamedTuple):
    """Sums over the rows at given weights."""

    loss: float
    alpha: float
    """Sum of 2 C xi."""
    active: int
    """Number of active rows."""


class CgVectors(NamedTuple):
    """The vectors of conjugate gradients; changed in place."""

    s: Array
    r: Array
    d: Array


class CgLimits(NamedTuple):
    """When conjugate gradients end."""

    radius: float
    small: float
    """The rho at which s is precise enough for fast convergence of Newton's method."""
    enough: float
    """The |r|^2 / 2 at which s is precise enough for the target gap."""
    most: int
    """Maximum number of Hessian products."""


class CgResult(NamedTuple):
    rho: float
    solved: bool
    """Whether s is precise enough or on the boundary."""
    on_boundary: bool
    """Whether s reached the boundary of the trust region."""
    products: int


# --- kernels. y, C: y_i and C_i of the current row; k counts the active rows. Row numbers and entry indices are -------
# --- unsigned, because numba tests signed ones for negative values at each use ----------------------------------------


@njit(cache=True, nogil=True)
def evaluate_rows(
    rows: SignedRows, w: Array, slack: Array, active_rows: Array, gradient: Array, diagonal: Array
) -> EvaluationSums:
    """Write slacks and active rows; add the rows' terms to the gradient and to the Hessian's diagonal."""
    values, columns, starts, signs, costs = rows.values, rows.columns, rows.starts, rows.signs, rows.costs
    bias_feature = rows.bias_feature
    dense = starts.size == 0
    d = w.size - 1
    loss, alpha_sum, k = 0.0, 0.0, 0
    for i in range(signs.size):
        C, y = costs[i], signs[i]
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], w) if dense else dot_sparse(values, columns, first, past, w)
        xi = 1.0 - y * (score + bias_feature * w[d])
        slack[i] = xi
        if C == 0.0 or xi <= 0.0:
            continue
        active_rows[k] = i
        k += 1
        loss += C * xi * xi
        alpha = 2.0 * C * xi
        alpha_sum += alpha
        change = -y * alpha
        if dense:
            x = values[first:past]
            add_dense(x, change, gradient)
            for j in range(d):
                diagonal[j] += 2.0 * C * x[j] * x[j]
        else:
            add_sparse(values, columns, first, past, change, gradient)
            for e in range(first, past):
                diagonal[np.uint64(columns[e])] += 2.0 * C * values[e] * values[e]
        gradient[d] += change * bias_feature
        diagonal[d] += 2.0 * C * bias_feature * bias_feature
    return EvaluationSums(loss, alpha_sum, k)


@njit(cache=True, nogil=True, error_model="numpy")
def run_products(
    rows: SignedRows, active_rows: Array, M: Array, limits: CgLimits, rho: float, vectors: CgVectors
) -> CgResult:
    """Run conjugate gradients, starting from a given rho = r' M^-1 r."""
    s, r, d = vectors.s, vectors.r, vectors.d
    radius = limits.radius
    Hd = np.empty_like(d)
    for product in range(1, limits.most + 1):
        _multiply_hessian(rows, active_rows, d, Hd)
        dHd, sMs, sMd, dMd = 0.0, 0.0, 0.0, 0.0
        for j in range(d.size):
            dHd += d[j] * Hd[j]
            sMs += s[j] * M[j] * s[j]
            sMd += s[j] * M[j] * d[j]
            dMd += d[j] * M[j] * d[j]
        a = rho / dHd
        outside = sMs + 2.0 * a * sMd + a * a * dMd > radius * radius
        if outside:
            # a is the positive root of |s + a d|_M = radius, computed without cancellation.
            room = max(radius * radius - sMs, 0.0)
            root = np.sqrt(sMd * sMd + dMd * room)
            a = room / (sMd + root) if sMd > 0.0 else (root - sMd) / dMd
        rho_new, rr = 0.0, 0.0
        for j in range(d.size):
            s[j] += a * d[j]
            r[j] -= a * Hd[j]
            rr += r[j] * r[j]
            rho_new += r[j] * r[j] / M[j]
        if outside:
            return CgResult(rho_new, True, True, product)
        beta = rho_new / rho
        rho = rho_new
        if not rho > limits.small or 0.5 * rr <= limits.enough:
            return CgResult(rho, True, False, product)
        for j in range(d.size):
            d[j] = r[j] / M[j] + beta * d[j]
    return CgResult(rho, False, False, limits.most)


@njit(cache=True, nogil=True, error_model="numpy")
def search_line(before: Array, after: Array, costs: Array, ws: float, ss: float) -> float:
    """Find the t in [0, 1] that minimises P(w + t s), from the slacks at t = 0 and t = 1, w . s and s . s.

    The derivative is piecewise linear and increasing. Newton's method finds its zero; bisection replaces a Newton step
    that would leave the bracket.
    """
    low, high, t = 0.0, 1.0, 1.0
    for _ in range(100):
        slope, bend = ws + t * ss, ss
        for i in range(before.size):
            change = after[i] - before[i]
            slack = before[i] + t * change
            if slack > 0.0:
                slope += 2.0 * costs[i] * slack * change
                bend += 2.0 * costs[i] * change * change
        if slope > 0.0:
            high = t
        else:
            low = t
        following = t - slope / bend
        if not (low < following < high):
            following = 0.5 * (low + high)
        if not abs(following - t) > 1e-12 * t:
            return following
        t = following
    return t


@njit(cache=True, nogil=True)
def _multiply_hessian(rows: SignedRows, active_rows: Array, v: Array, out: Array) -> None:
    """Write H v into out. Reads each active row once."""
    values, columns, starts, costs, bias_feature = rows.values, rows.columns, rows.starts, rows.costs, rows.bias_feature
    dense, d = starts.size == 0, v.size - 1
    for j in range(v.size):
        out[j] = v[j]
    for i in active_rows:
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], v) if dense else dot_sparse(values, columns, first, past, v)
        change = 2.0 * costs[i] * (score + bias_feature * v[d])
        if dense:
            add_dense(values[first:past], change, out)
        else:
            add_sparse(values, columns, first, past, change, out)
        out[d] += change * bias_feature
