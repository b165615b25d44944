"""Judges of the solvers that share no code with them: an interior-point optimum and the plain definitions.

A judge is a problem as its definition has it, in dense numpy: `primal(coef, intercept)`, `interval()`, `total_cost`.
The interval contains the true optimum: clarabel solves the problem, and then nothing of it is trusted, but the
definitions are evaluated at its primal and dual points. Multi-class and ordinal judges are in task_reference.py.
"""

from dataclasses import dataclass
from typing import NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Dense:
    """A problem as its definition has it: float64 table, signs, costs."""

    X: np.ndarray
    signs: np.ndarray
    costs: np.ndarray
    p: float
    bias: str
    bias_scale: float

    @property
    def total_cost(self):
        return self.costs.sum()

    def primal(self, w, b):
        return plain_primal(self, w, b)

    def interval(self):
        return reference_interval(self)


class Interval(NamedTuple):
    """low <= optimum <= high"""

    low: float
    high: float


def row_costs(labels, *, C, c_scale, sample_weight, class_weight):
    """C_i by its definition."""
    classes, codes = np.unique(labels, return_inverse=True)
    per_class = np.ones(classes.size)
    if class_weight == "balanced":
        per_class = labels.size / (classes.size * np.bincount(codes))
    elif class_weight is not None:
        per_class = np.array([class_weight.get(label, 1.0) for label in classes.tolist()])
    per_row = np.ones(labels.size) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    scale = C / per_row.sum() if c_scale == "mean" else C
    return scale * per_class[codes] * per_row


def plain_primal(problem, w, b):
    xi = np.maximum(0.0, 1.0 - problem.signs * (problem.X @ w + b))
    bias_term = 0.5 * (b / problem.bias_scale) ** 2 if problem.bias == "regularized" else 0.0
    return 0.5 * w @ w + bias_term + (problem.costs * xi**problem.p).sum()


def best_multiple(dual):
    """The largest of dual(t), t in [0, 1], which is quadratic in t."""
    linear = 4.0 * dual(0.5) - dual(1.0)
    curved = linear - dual(1.0)
    best = min(1.0, max(0.0, 0.5 * linear / curved)) if curved > 0.0 else 1.0
    return max(0.0, dual(1.0), dual(best))


def plain_dual(problem, alpha):
    """D(alpha) of a feasible alpha: sum alpha - sum conj - 1/2 |w(alpha)|^2, straight from the definition."""
    p, costs = problem.p, problem.costs
    assert (alpha >= 0.0).all()
    assert (alpha[costs == 0.0] == 0.0).all()
    conjugate = np.zeros_like(alpha)
    if p == 1.0:
        assert (alpha <= costs).all()
    else:
        rows = costs > 0.0
        conjugate[rows] = (p - 1) * costs[rows] * (alpha[rows] / (p * costs[rows])) ** (p / (p - 1))
    w = problem.X.T @ (alpha * problem.signs)
    bias_term = 0.0
    if problem.bias == "regularized":
        bias_term = 0.5 * (problem.bias_scale * (alpha @ problem.signs)) ** 2
    elif problem.bias == "free":
        assert abs(alpha @ problem.signs) <= 1e-12 * max(1.0, alpha.sum())
    return alpha.sum() - conjugate.sum() - 0.5 * w @ w - bias_term


def reference_interval(problem):
    """Bounds of the optimum from clarabel's points, each evaluated here."""

    def bounds(tolerance):
        w, b, alpha = _solve_by_clarabel(problem, tolerance)
        return plain_dual(problem, _made_feasible(problem, alpha)), plain_primal(problem, w, b)

    return combined(bounds)


def combined(bounds):
    """The tightest (low, high) of several attempts, each of which gives true bounds.

    Asked for more than it can do, an interior-point method sometimes ends at a worse point than it would
    have for less.
    """
    low, high = -np.inf, np.inf
    for tolerance in (1e-13, 1e-11, 1e-9):
        one_low, one_high = bounds(tolerance)
        low, high = max(low, one_low), min(high, one_high)
        if high - low <= 1e-10 * high:
            break
    return Interval(low, high)


def _made_feasible(problem, alpha):
    alpha = np.where(problem.costs > 0.0, np.maximum(alpha, 0.0), 0.0)
    if problem.p == 1.0:
        alpha = np.minimum(alpha, problem.costs)
    if problem.bias == "free":
        positive = problem.signs > 0
        up, down = alpha[positive].sum(), alpha[~positive].sum()
        alpha[positive] *= min(1.0, down / up) if up > 0 else 1.0
        alpha[~positive] *= min(1.0, up / down) if down > 0 else 1.0
    return alpha


def _solve_by_clarabel(problem, tolerance):
    """Variables (w, b, xi [, t]); rows without cost are left out. Returns (w, b, alpha)."""
    kept = problem.costs > 0.0
    X, signs, costs, p = problem.X[kept], problem.signs[kept], problem.costs[kept], problem.p
    n, d = X.shape
    b_weight = 0.0 if problem.bias != "regularized" else problem.bias_scale**-2
    zeros, eye = sp.csc_array((n, d + 1)), sp.eye_array(n, format="csc")
    # y_i (w . x_i + b) + xi_i >= 1 and xi >= 0, written as A z + s = rhs with s >= 0.
    margins = -signs[:, None] * np.hstack([X, np.full((n, 1), 0.0 if problem.bias == "none" else 1.0)])
    if p in (1.0, 2.0):
        quadratic = np.concatenate([np.ones(d), [b_weight], np.full(n, 2.0 * costs if p == 2.0 else 0.0)])
        linear = np.concatenate([np.zeros(d + 1), costs if p == 1.0 else np.zeros(n)])
        A = sp.block_array([[sp.csc_array(margins), -eye], [zeros, -eye]], format="csc")
        rhs = np.concatenate([-np.ones(n), np.zeros(n)])
        cones = [clarabel.NonnegativeConeT(2 * n)]
    else:
        # t_i >= xi_i^p is the power cone (t, 1, xi) with exponent 1/p.
        quadratic = np.concatenate([np.ones(d), [b_weight], np.zeros(2 * n)])
        linear = np.concatenate([np.zeros(d + 1 + n), costs])
        power_rows, power_rhs = _power_cone_rows(n, d)
        margin_rows = sp.hstack([sp.csc_array(margins), -eye, sp.csc_array((n, n))])
        sign_rows = sp.hstack([zeros, -eye, sp.csc_array((n, n))])
        A = sp.vstack([margin_rows, sign_rows, power_rows], format="csc")
        rhs = np.concatenate([-np.ones(n), np.zeros(n), power_rhs])
        cones = [clarabel.NonnegativeConeT(2 * n), *[clarabel.PowerConeT(1.0 / p)] * n]
    z, multipliers = solve_cone_program(quadratic, linear, A, rhs, cones, tolerance)
    alpha = np.zeros(kept.size)
    alpha[kept] = multipliers[:n]
    return z[:d], z[d] if problem.bias != "none" else 0.0, alpha


def solve_cone_program(quadratic, linear, A, rhs, cones, tolerance):
    """min 1/2 z' diag(quadratic) z + linear . z with A z + s = rhs, s in the cones: (z, multipliers)."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.iterative_refinement_reltol = settings.iterative_refinement_abstol = 1e-15
    settings.iterative_refinement_max_iter = 50
    settings.max_iter = 200
    P = sp.diags_array(quadratic, format="csc")
    solution = clarabel.DefaultSolver(P, linear, A, rhs, cones, settings).solve()
    return np.array(solution.x), np.array(solution.z)


def _power_cone_rows(n, d):
    columns = d + 1 + 2 * n
    rows = sp.lil_array((3 * n, columns))
    rhs = np.zeros(3 * n)
    for i in range(n):
        rows[3 * i, d + 1 + n + i] = -1.0
        rhs[3 * i + 1] = 1.0
        rows[3 * i + 2, d + 1 + i] = -1.0
    return rows.tocsc(), rhs
