"""The certificate of the joint logistic problem of several classes (multinomial).

With v_im = f_m(x_i) - f_yi(x_i), the loss of a row is l_i = log sum_m exp(v_im). For probabilities p_i, the dual point
A_i^m = C_i ([m = y_i] - p_i^m) has the value D = sum_i C_i H(p_i) - 1/2 |W(A)|^2, where H(p) = sum_m -p_m log p_m is
the entropy, and

    gap = 1/2 |W - W(A)|^2 + sum_i C_i [ l_i - H(p_i) - sum_m p_i^m v_im ]

The bracket is the Kullback-Leibler divergence of p_i from the probabilities that the scores imply. It is >= 0, and 0 if
both are equal.

The dual point is stored as the shares C_i p_i^m of the classes other than the row's own, as in multiclass.py. The share
of the own class is the rest of C_i. Rounding is accounted for as in multiclass.py. l_i increases with each v_im: if
e_im bounds the error of v_im, l_i lies between its values at v_im - e_im and at v_im + e_im. exp, log and log1p are
assumed to be correct to 4 units in the last place (8 u), as in problem/losses/logistic.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from solvers.certificates.circulation import balanced_shares
from solvers.certificates.evaluation import Evaluation, Precision, certificate_of
from solvers.certificates.multiclass import class_lengths, feasible_shares, signed_of, violations_and_sizes
from solvers.data.rows import read_only
from solvers.linalg.rounding import LEAST, LEAST_COST, UNIT, above, below, compensated_sum, gamma
from solvers.linalg.types import Floats
from solvers.problem.losses.logistic import LEAST_SHARE
from solvers.problem.problems import MulticlassProblem
from solvers.result import Certificate

__all__ = ["certify_multinomial", "evaluation_of_multinomial"]

LIBRARY = 8.0 * UNIT
"""Assumed largest relative error of exp, log and log1p: 4 units in the last place (8 u). Larger: larger published gaps.
"""


def certify_multinomial(
    problem: MulticlassProblem,
    coef: Floats,
    intercept: Floats | float,
    alpha: Floats | None,
    tol: float | None = None,
) -> Certificate:
    """Certify (coef, intercept). Without a dual point, one is derived from the probabilities that the scores imply.

    `tol` is the relative gap to prove. Data is read again only if rounding prevents that proof.
    """
    source = "dual point from the margins" if alpha is None else "dual point"
    return certificate_of(problem, evaluation_of_multinomial(problem, coef, intercept, alpha), source, tol)


def evaluation_of_multinomial(
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
    apart, sizes = violations_and_sizes(problem, coef, bias, is_compensated, margin=0.0)
    shares = feasible_shares(problem, _shares_of_scores(problem, apart) if alpha is None else alpha)
    if spec.bias == "free":
        shares = balanced_shares(problem, shares, apart)
    signed = signed_of(problem, shares)

    of_rows = 2.0 * (precision.scores * (sizes + float(np.abs(bias).max())) + precision.underflow)
    # v + e and v - e are rounded, too.
    errors = (precision.slack + 4.0 * UNIT) * np.abs(apart) + of_rows[:, None] * (1.0 + 4.0 * UNIT)
    errors[np.arange(problem.codes.size), problem.codes] = 0.0  # the value 0 of the row's own class is exact
    losses, most, least = _losses(apart), _losses(apart + errors), _losses(apart - errors)
    losses_at_most, losses_at_least = most.value + most.error, np.maximum(least.value - least.error, 0.0)
    entropies = _entropies(problem, shares)
    scaled_bias = bias / spec.bias_scale if spec.bias == "regularized" else np.zeros(k)
    lengths = class_lengths(problem, coef, scaled_bias, signed, precision, is_compensated)

    pulled = (shares * apart).sum(axis=1)
    moved = (shares * np.abs(apart)).sum(axis=1)
    doubt = gamma(k + 16) * (costs * losses_at_most + entropies.value + moved)
    terms = np.maximum(costs * losses_at_most - entropies.value - pulled, 0.0)
    terms += doubt + entropies.error + (shares * errors).sum(axis=1) * (1.0 + gamma(k + 16))
    nominal_terms = np.maximum(costs * losses.value - entropies.value - pulled, 0.0)
    totals = [_total(costs * one) for one in (losses.value, losses_at_most, losses_at_least)]
    underflow = (data.n_features + 4 * data.n_rows) * k * LEAST * (1.0 + float(costs.max()))
    rounding = gamma(k + 32)
    linear = _total(entropies.value) * (1.0 - rounding) - _total(entropies.error) * (1.0 + rounding) - underflow
    return Evaluation(
        primal=above((lengths.norm + totals[1]) * (1.0 + rounding) + underflow),
        least_primal=below((lengths.norm + totals[2]) * (1.0 - rounding) - underflow),
        nominal_primal=lengths.norm + totals[0],
        gap=above((0.5 * lengths.distance + _total(terms)) * (1.0 + rounding) + underflow),
        nominal_gap=0.5 * lengths.nominal + _total(nominal_terms),
        linear=linear,
        curved=above(lengths.curved * (1.0 + rounding)),
        losses_at_most=above(totals[1] * (1.0 + rounding) + underflow),
        losses_at_least=below(totals[2] * (1.0 - rounding) - underflow),
        dual_weights=lengths.weights,
        dual_error=lengths.error,
        multipliers=signed,
    )


class _Rows(NamedTuple):
    """One number per row, and an upper bound of its error. The bound itself is not corrected for rounding."""

    value: Floats
    error: Floats


def _losses(apart: Floats) -> _Rows:
    """Return log sum_m exp(v_m), computed as the largest v plus log(1 + the exponentials of the others relative to it).

    The exponent v_m - max v has a relative error of u, which adds |v_m - max v| u to the relative error of its
    exponential. The sum has k terms, and the derivative of log(1 + x) is at most 1.
    """
    k, rows = apart.shape[1], np.arange(apart.shape[0])
    first = apart.argmax(axis=1)
    top = apart[rows, first]
    below_top = top[:, None] - apart
    small = np.exp(-below_top)
    small[rows, first] = 0.0
    others = small.sum(axis=1)
    of_others = ((below_top + k) * small).sum(axis=1) * (2.0 * UNIT) + 2.0 * LIBRARY * others + k * LEAST
    logarithm = np.log1p(others)
    value = top + logarithm
    return _Rows(value, 2.0 * (of_others + LIBRARY * logarithm + UNIT * value))


def _entropies(problem: MulticlassProblem, shares: Floats) -> _Rows:
    """Return C_i H(p_i) of each row.

    A share divided by its cost has a relative error of 2 u, which changes -p log p by (1 + |log p|) 2 u p. The
    probability of the own class is 1 minus the others, with an error of at most d = gamma(k + 8). That changes the
    entropy by less than 3 d (2 + |log max(p, d)|): the derivative of -p log p is -1 - log p for p >= 2 d, and below
    that its whole value is less than 3 d |log 3 d|.
    """
    k, costs = problem.classes.size, problem.costs
    usable = costs >= LEAST_COST
    divisors = np.where(usable, costs, 1.0)
    others = shares / divisors[:, None]
    others[others < LEAST_SHARE] = 0.0
    own = np.clip((divisors - shares.sum(axis=1)) / divisors, 0.0, 1.0)
    doubt = gamma(k + 8)
    logarithms = np.log(np.where(others > 0.0, others, 1.0))
    of_own = np.log(np.where(own > 0.0, own, 1.0))
    value = -(others * logarithms).sum(axis=1) - own * of_own
    error = (others * (1.0 - logarithms)).sum(axis=1) * (4.0 * UNIT + LIBRARY)
    error += 3.0 * doubt * (2.0 - np.log(np.maximum(own, doubt))) + (LIBRARY + gamma(k + 8)) * np.abs(value)
    # A row of cost 0 contributes nothing; its shares are 0.
    return _Rows(np.where(usable, costs * np.maximum(value, 0.0), 0.0), np.where(usable, 2.0 * costs * error, 0.0))


def _shares_of_scores(problem: MulticlassProblem, apart: Floats) -> Floats:
    """Return the dual point of the probabilities that the scores imply: A of the classes other than the row's own."""
    small = np.exp(apart - apart.max(axis=1)[:, None])
    return np.asarray(-problem.costs[:, None] * small / small.sum(axis=1)[:, None])


def _total(values: Floats) -> float:
    return float(compensated_sum(read_only(np.ascontiguousarray(values))))
