"""The certificate of the joint multi-class problem.

With scores f_m(x_i) = w_m . x_i + b_m, the loss of a row l_i = max_m ([m != y_i] + f_m - f_yi), and any dual point A
with A_i^m <= C_i [m = y_i] and sum_m A_i^m = 0, so that w_m(A) = sum_i A_i^m x_i,

    gap = 1/2 |W - W(A)|^2 + sum_i [ C_i l_i - sum over m != y_i of -A_i^m (1 + f_m - f_yi) ]

The bracket is a sum of terms >= 0: each of the other classes takes the share -A_i^m of C_i with a loss of at most
l_i, and what is left of C_i takes a loss of 0.

A regularised bias is a feature, in W. A free one asks for sum_i A_i^m = 0 of every class, and A is balanced first
(circulation.py). Its sums S_m are then 0 up to the rounding of sums, in all 1e-13 of the shares. The optimum is at
least primal - gap + sum_m S_m (b*_m - b_m) with its own bias b*; what the last term is, is not known, and not counted.
"""

import numpy as np

from solvers.certificates.circulation import balanced_shares
from solvers.certificates.common import certificate_of, squared_norm
from solvers.linalg.types import Floats
from solvers.method import Point
from solvers.problem.problems import MulticlassProblem
from solvers.result import Certificate

__all__ = ["balanced_dual_point", "certify_multiclass"]


def certify_multiclass(
    problem: MulticlassProblem, coef: Floats, intercept: Floats | float, alpha: Floats | None
) -> Certificate:
    """What (coef, intercept) is worth; without a dual point the bound is the one of the margins' worst classes."""
    spec, data, costs = problem.spec, problem.data, problem.costs
    k = problem.classes.size
    bias = np.broadcast_to(np.asarray(intercept, dtype=np.float64), (k,))
    violations = _violations(problem, coef, bias)
    losses = violations.max(axis=1)
    scaled_bias = bias / spec.bias_scale if spec.bias == "regularized" else np.zeros(k)
    primal = 0.5 * squared_norm(coef) + 0.5 * squared_norm(scaled_bias) + float((costs * losses).sum())

    source = "dual point"
    if alpha is None:
        alpha, source = _worst_classes(problem, violations), "dual point from the margins"
    shares = _feasible_shares(problem, alpha)
    if spec.bias == "free":
        shares = balanced_shares(problem, shares, violations)
    signed = _signed(problem, shares)
    distance = 0.0
    for m in range(k):
        weights = np.empty(data.n_features)
        data.weighted_column_sums(np.ascontiguousarray(signed[:, m]), weights)
        bias_weight = problem.bias_feature * float(signed[:, m].sum())
        distance += squared_norm(coef[m] - weights) + (scaled_bias[m] - bias_weight) ** 2
    unused = np.maximum(costs - shares.sum(axis=1), 0.0)
    terms = (shares * (losses[:, None] - violations)).sum(axis=1) + unused * losses
    return certificate_of(problem, primal, 0.5 * distance + float(terms.sum()), source)


def balanced_dual_point(problem: MulticlassProblem, point: Point) -> Floats | None:
    """The dual point that the certificate makes of the one given if the bias is free."""
    if point.alpha is None:
        return None
    violations = _violations(problem, point.coef, np.asarray(point.intercept))
    shares = balanced_shares(problem, _feasible_shares(problem, point.alpha), violations)
    return _signed(problem, shares)


def _signed(problem: MulticlassProblem, shares: Floats) -> Floats:
    """A of the shares."""
    signed = -shares
    signed[np.arange(problem.codes.size), problem.codes] = shares.sum(axis=1)
    return np.asarray(signed)


def _violations(problem: MulticlassProblem, coef: Floats, bias: Floats) -> Floats:
    """v_im = [m != y_i] + f_m - f_yi"""
    rows, scores = np.arange(problem.codes.size), np.empty((problem.codes.size, problem.classes.size))
    problem.data.class_scores(np.column_stack([coef, bias]), 1.0, scores)
    violations = 1.0 + scores - scores[rows, problem.codes][:, None]
    violations[rows, problem.codes] = 0.0
    return np.asarray(violations)


def _worst_classes(problem: MulticlassProblem, violations: Floats) -> Floats:
    alpha = np.zeros_like(violations)
    alpha[np.arange(violations.shape[0]), violations.argmax(axis=1)] = -problem.costs
    return alpha


def _feasible_shares(problem: MulticlassProblem, alpha: Floats) -> Floats:
    """-A_i^m of the classes other than the row's own, moved into the dual's domain: >= 0, in all at most C_i."""
    shares = np.maximum(-alpha, 0.0)
    shares[np.arange(shares.shape[0]), problem.codes] = 0.0
    totals = shares.sum(axis=1)
    over = totals > problem.costs
    shares[over] *= (problem.costs[over] / totals[over])[:, None]
    return shares
