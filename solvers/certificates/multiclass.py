"""The certificate of the joint multi-class problem.

The scores are f_m(x_i) = w_m . x_i + b_m, and the loss of a row is l_i = max_m ([m != y_i] + f_m - f_yi). For any dual
point A with A_i^m <= C_i [m = y_i] and sum_m A_i^m = 0, and with w_m(A) = sum_i A_i^m x_i,

    gap = 1/2 |W - W(A)|^2 + sum_i [ C_i l_i - sum over m != y_i of -A_i^m (1 + f_m - f_yi) ]

The bracket is a sum of terms >= 0. Each other class m has the share -A_i^m of C_i, with a violation 1 + f_m - f_yi of
at most l_i. The rest of C_i belongs to the row's own class, whose violation is 0.

A regularised bias is a feature in W. A free bias requires sum_i A_i^m = 0 for every class; A is first balanced exactly
(circulation.py).

Rounding is accounted for as in rounding.py. If e_im bounds the error of a violation v_im, the loss is at most the
largest v_im + e_im, and the violations in the bracket are at least v_im - e_im.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from solvers.certificates.circulation import balanced_shares
from solvers.certificates.evaluation import (
    Evaluation,
    Precision,
    certificate_of,
    length_at_most,
    read_scores,
    read_weights,
)
from solvers.data.rows import read_only
from solvers.linalg.rounding import LEAST, LEAST_COST, UNIT, above, below, compensated_sum, gamma
from solvers.linalg.types import Floats
from solvers.method import Point
from solvers.problem.problems import MulticlassProblem
from solvers.result import Certificate

__all__ = ["balanced_dual_point", "certify_multiclass", "class_lengths", "evaluation_of_multiclass"]
__all__ += ["feasible_shares", "signed_of", "violations_and_sizes"]


def certify_multiclass(
    problem: MulticlassProblem,
    coef: Floats,
    intercept: Floats | float,
    alpha: Floats | None,
    tol: float | None = None,
) -> Certificate:
    """Certify (coef, intercept). If alpha is None, a dual point is derived from the class with the largest violation in
    each row.

    `tol` is the relative gap to prove. Data is read again only if rounding prevents that proof.
    """
    source = "dual point from the margins" if alpha is None else "dual point"
    return certificate_of(problem, evaluation_of_multiclass(problem, coef, intercept, alpha), source, tol)


def evaluation_of_multiclass(
    problem: MulticlassProblem, coef: Floats, intercept: Floats | float, alpha: Floats | None
) -> Callable[[bool], Evaluation]:
    """Return the function that evaluates the primal-dual pair; its argument selects compensated products."""
    bias = np.broadcast_to(np.asarray(intercept, dtype=np.float64), (problem.classes.size,))

    def evaluate(is_compensated: bool) -> Evaluation:
        return _evaluate(problem, coef, bias, alpha, is_compensated)

    return evaluate


def _evaluate(
    problem: MulticlassProblem, coef: Floats, bias: Floats, alpha: Floats | None, is_compensated: bool
) -> Evaluation:
    spec, data, costs, k = problem.spec, problem.data, problem.costs, problem.classes.size
    precision = Precision.of(data, is_compensated=is_compensated)
    violations, sizes = violations_and_sizes(problem, coef, bias, is_compensated)
    shares = feasible_shares(problem, _worst_classes(problem, violations) if alpha is None else alpha)
    if spec.bias == "free":
        shares = balanced_shares(problem, shares, violations)
    signed = signed_of(problem, shares)

    of_rows = 2.0 * (precision.scores * (sizes + float(np.abs(bias).max())) + precision.underflow)
    errors = precision.slack * np.abs(violations) + of_rows[:, None]
    errors[np.arange(problem.codes.size), problem.codes] = 0.0  # the violation 0 of the row's own class is exact
    losses, most = violations.max(axis=1), (violations + errors).max(axis=1)
    least = (violations - errors).max(axis=1)
    scaled_bias = bias / spec.bias_scale if spec.bias == "regularized" else np.zeros(k)

    lengths = class_lengths(problem, coef, scaled_bias, signed, precision, is_compensated)
    # Shares sum to at most C_i in exact arithmetic, so the unused rest of C_i is not negative.
    unused = np.maximum(costs - shares.sum(axis=1), 0.0) + gamma(k + 16) * costs
    terms = compensated_sum(read_only((shares * (most[:, None] - violations + errors)).sum(axis=1) + unused * most))
    nominal_terms = (shares * (losses[:, None] - violations)).sum() + (unused * losses).sum()
    totals = [float(compensated_sum(read_only(costs * one))) for one in (losses, most, least)]
    underflow = (data.n_features + data.n_rows) * k * LEAST
    rounding = gamma(k + 32)
    is_positive = bool(coef.any() or scaled_bias.any() or (most[costs > 0.0] > 0.0).any())
    return Evaluation(
        primal=above((lengths.norm + totals[1]) * (1.0 + rounding) + (underflow if is_positive else 0.0)),
        least_primal=below((lengths.norm + totals[2]) * (1.0 - rounding) - underflow),
        nominal_primal=lengths.norm + totals[0],
        gap=above((0.5 * lengths.distance + terms) * (1.0 + rounding) + underflow),
        nominal_gap=0.5 * lengths.nominal + float(nominal_terms),
        linear=below(compensated_sum(read_only(np.ascontiguousarray(shares).reshape(-1)))),
        curved=above(lengths.curved * (1.0 + rounding)),
        losses_at_most=above(totals[1] * (1.0 + rounding) + underflow),
        losses_at_least=below(totals[2] * (1.0 - rounding) - underflow),
        dual_weights=lengths.weights,
        dual_error=lengths.error,
        multipliers=signed,
    )


class ClassLengths(NamedTuple):
    """Sums over the classes, each of non-negative terms."""

    distance: float
    """Upper bound of |W - W(A)|^2."""
    nominal: float
    """|W - W(A)|^2 as computed, without rounding errors."""
    norm: float
    """1/2 |W|^2 with the biases, as computed."""
    curved: float
    """Upper bound of 1/2 |W(A)|^2."""
    weights: Floats
    """W(A) as computed; the last entry is the weight of the bias feature."""
    error: float
    """Upper bound of the distance of `weights` from W(A)."""


def class_lengths(
    problem: MulticlassProblem,
    coef: Floats,
    scaled_bias: Floats,
    signed: Floats,
    precision: Precision,
    is_compensated: bool,
) -> ClassLengths:
    """Compare the weights of each class with those of the dual point. Costs one pass per class."""
    data, k = problem.data, problem.classes.size
    distance = norm = curved = nominal = squared_error = 0.0
    dual_weights = np.empty((k, data.n_features + 1))
    for m, own_bias in enumerate(scaled_bias.tolist()):
        multipliers = np.ascontiguousarray(signed[:, m])
        weights = read_weights(data, multipliers, is_compensated=is_compensated)
        bias_weight = problem.bias_feature * compensated_sum(read_only(multipliers))
        # The multiplier of the row's own class is itself a sum of k shares.
        error = (precision.sums + gamma(k + 8)) * weights.size
        mass = problem.bias_feature * float(np.abs(multipliers).sum())
        error += gamma(k + 16) * (mass + abs(own_bias))
        difference = coef[m] - weights.high
        if is_compensated:
            difference -= weights.low
        of_bias = own_bias - bias_weight
        apart = above(math.hypot(length_at_most(difference) * (1.0 + 4.0 * UNIT), of_bias) + error)
        distance += apart * apart
        nominal += float((difference * difference).sum()) + of_bias * of_bias
        reach = above(math.hypot(length_at_most(weights.high) * (1.0 + 4.0 * UNIT), bias_weight) + error)
        curved += 0.5 * reach * reach
        dual_weights[m, :-1], dual_weights[m, -1] = weights.high, bias_weight
        of_weights = error + 4.0 * UNIT * reach
        squared_error += of_weights * of_weights  # not ** 2, which raises an error where the square overflows
        norm += 0.5 * compensated_sum(read_only(coef[m] * coef[m])) + 0.5 * own_bias * own_bias
    return ClassLengths(
        distance, nominal, norm, curved, dual_weights, above(math.sqrt(squared_error)) * (1.0 + gamma(k))
    )


def balanced_dual_point(problem: MulticlassProblem, point: Point) -> Floats | None:
    """Return the dual point, balanced as the certificate of a free bias requires."""
    if point.alpha is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # overflowing numbers prove nothing
        violations, _ = violations_and_sizes(problem, point.coef, np.asarray(point.intercept), is_compensated=False)
        return signed_of(problem, balanced_shares(problem, feasible_shares(problem, point.alpha), violations))


def signed_of(problem: MulticlassProblem, shares: Floats) -> Floats:
    """Return the dual point A of the shares."""
    signed = -shares
    signed[np.arange(problem.codes.size), problem.codes] = shares.sum(axis=1)
    return np.asarray(signed)


def violations_and_sizes(
    problem: MulticlassProblem, coef: Floats, bias: Floats, is_compensated: bool, margin: float = 1.0
) -> tuple[Floats, Floats]:
    """Return v_im = margin [m != y_i] + f_m - f_yi, and for each row an upper bound of the sum of magnitudes |x_ij
    w_mj| of any class m."""
    rows, n, k = np.arange(problem.codes.size), problem.codes.size, problem.classes.size
    scores, low = np.empty((n, k)), np.zeros((n, k))
    if is_compensated:
        sizes = np.zeros(n)
        for m in range(k):
            high, rest, of_class = read_scores(problem.data, np.ascontiguousarray(coef[m]), is_compensated=True)
            scores[:, m], lost = _two_sums(high, np.full(n, bias[m]))
            low[:, m] = rest + lost
            np.maximum(sizes, of_class, out=sizes)
    else:
        problem.data.class_scores(np.column_stack([coef, bias]), 1.0, scores)
        sizes = problem.data.lengths() * max(length_at_most(of_class) for of_class in coef)
    apart, lost = _two_sums(scores, -scores[rows, problem.codes][:, None])
    violations, lost_too = _two_sums(np.full_like(apart, margin), apart)
    violations += lost + lost_too + (low - low[rows, problem.codes][:, None])
    violations[rows, problem.codes] = 0.0
    return np.asarray(violations), sizes


def _two_sums(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a + b rounded, and the rounding error."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _worst_classes(problem: MulticlassProblem, violations: Floats) -> Floats:
    alpha = np.zeros_like(violations)
    alpha[np.arange(violations.shape[0]), violations.argmax(axis=1)] = -problem.costs
    return alpha


def feasible_shares(problem: MulticlassProblem, alpha: Floats) -> Floats:
    """Return the shares -A_i^m of the classes other than the row's own, moved into the domain: each >= 0, with a sum of
    at most C_i in exact arithmetic."""
    shares = np.maximum(-alpha, 0.0)
    shares[np.arange(shares.shape[0]), problem.codes] = 0.0
    shares[problem.costs < LEAST_COST] = 0.0
    room = 4.0 * (shares.shape[1] + 4) * UNIT
    totals = shares.sum(axis=1)
    over = totals > problem.costs * (1.0 - room)
    shares[over] *= (problem.costs[over] * (1.0 - 2.0 * room) / totals[over])[:, None]
    return shares
