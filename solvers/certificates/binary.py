"""The certificate of a binary problem.

With slack_i = 1 - y_i f(x_i), xi_i = max(0, slack_i) and any dual point alpha (section by section in
docs/solvers.md),

    gap = 1/2 |w - w(alpha)|^2 + sum_i [ C_i xi_i^p + conj_i(alpha_i) - alpha_i slack_i ]

where every term is >= 0, so nothing cancels. Its kernels are short enough to be checked by reading; whole-array
operations of numpy took longer than the one read of the data.
"""

import numpy as np
from numba import njit

from solvers.certificates.common import certificate_of
from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import BinaryProblem
from solvers.result import Certificate

__all__ = ["certify_binary", "feasible_dual_point"]


def certify_binary(problem: BinaryProblem, coef: Floats, intercept: float, alpha: Floats | None) -> Certificate:
    """What (coef, intercept) is worth; alpha is made feasible first, or derived if the solver has none."""
    spec, data = problem.spec, problem.data
    scores, weights = np.empty(data.n_rows), np.zeros(data.n_features)
    if alpha is None:
        source = "dual point from the margins"
        data.margins(coef, scores)
        signed, balance = _signed_dual_point(problem, _dual_point_of(problem, scores, intercept))
        data.add_weighted_column_sums(signed, weights)
    else:
        source = "dual point"
        signed, balance = _signed_dual_point(problem, alpha)
        data.margins_and_column_sums(coef, signed, scores, weights)
    rows = read_only(scores), problem.signs, problem.costs, read_only(signed)
    losses, terms = _sum_of_rows(spec.exponent, intercept, *rows)
    norm, distance = _squared_lengths(read_only(np.ascontiguousarray(coef)), read_only(weights))
    scaled_bias = intercept / spec.bias_scale if spec.bias == "regularized" else 0.0
    primal = 0.5 * norm + 0.5 * scaled_bias**2 + losses
    gap = 0.5 * distance + 0.5 * (scaled_bias - problem.bias_feature * balance) ** 2 + terms
    return certificate_of(problem, primal, gap, source)


def _dual_point_of(problem: BinaryProblem, scores: Floats, intercept: float) -> Floats:
    """The dual point that the optimality conditions suggest for the margins of some weights."""
    slack = 1.0 - problem.signs * (scores + intercept)
    p = problem.spec.exponent
    if p > 1.0:
        over = np.maximum(slack, 0.0)
        return np.asarray(p * problem.costs * (over if p == 2.0 else over ** (p - 1.0)))
    rounding = 1e-9 * max(1.0, float(np.abs(slack).max()))
    alpha = np.where(slack > rounding, problem.costs, 0.0)
    on_margin = np.abs(slack) <= rounding
    if problem.spec.bias != "free":
        alpha[on_margin] = 0.5 * problem.costs[on_margin]
        return alpha
    # The rows on the margin of the lighter side take the fraction that balances the two sides.
    excess = float((alpha * problem.signs).sum())
    lighter = on_margin & (problem.signs * excess < 0.0)
    room = float(problem.costs[lighter].sum())
    if room > 0.0:
        alpha[lighter] = min(1.0, abs(excess) / room) * problem.costs[lighter]
    return alpha


def feasible_dual_point(problem: BinaryProblem, alpha: Floats) -> Floats:
    """alpha moved into the dual's domain: rounding for a solver's own point, more for a derived one."""
    return np.abs(_signed_dual_point(problem, alpha)[0])


def _signed_dual_point(problem: BinaryProblem, alpha: Floats) -> tuple[Floats, float]:
    """(y_i alpha_i of every row, their sum), alpha moved into the dual's domain."""
    if alpha.shape != problem.costs.shape:
        raise ValueError(f"a dual point of shape {alpha.shape} for {problem.costs.size} rows")
    signed = np.empty(alpha.size)
    given = read_only(np.ascontiguousarray(alpha, dtype=np.float64))
    up, down = _move_into_domain(given, problem.signs, problem.costs, problem.spec.exponent == 1.0, signed)
    if problem.spec.bias != "free" or up == down:
        return signed, up - down
    with np.errstate(invalid="ignore"):  # an infinite one proves nothing
        signed[signed > 0.0 if up > down else signed < 0.0] *= min(up, down) / max(up, down)
    return signed, 0.0


# --- kernels. C: cost, a: alpha_i -------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True, fastmath=_SUM)
def _move_into_domain(alpha: Array, signs: Array, costs: Array, is_capped: bool, out: Array) -> tuple[float, float]:
    """out[i] = y_i alpha_i with alpha_i in [0, C_i], or where it is not capped, in [0, inf) if the row has a cost;
    returns the sums of the alpha_i of both classes."""
    up, down = 0.0, 0.0
    for i in range(alpha.size):
        top = costs[i] if is_capped else (np.inf if costs[i] > 0.0 else 0.0)
        a = min(max(alpha[i], 0.0), top)
        out[i] = signs[i] * a
        up += a if signs[i] > 0.0 else 0.0
        down += a if signs[i] <= 0.0 else 0.0
    return up, down


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_of_rows(
    p: float, intercept: float, scores: Array, signs: Array, costs: Array, signed: Array
) -> tuple[float, float]:
    """(the losses, the rows' terms of the gap)"""
    losses, terms = 0.0, 0.0
    for i in range(scores.size):
        slack = 1.0 - signs[i] * (scores[i] + intercept)
        loss, term = _loss_and_term(p, costs[i], abs(signed[i]), slack)
        losses, terms = losses + loss, terms + term
    return losses, terms


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _loss_and_term(p: float, C: float, a: float, slack: float) -> tuple[float, float]:
    """C xi^p and C xi^p + conj(a) - a slack, as a sum of terms >= 0, which compilers must leave in this order."""
    over = max(slack, 0.0)
    of_under = a * (over - slack)
    if p == 1.0:
        return C * over, (C - a) * over + of_under
    share = a / (p * C) if C > 0.0 else 0.0
    if p == 2.0:
        # The square is completed: C (xi - a / (2 C))^2, where xi = 0 leaves a |slack| beside it.
        return C * (over * over), C * ((over - share) * (over - share)) + of_under
    loss = C * over**p
    # Through logarithms: the exponent p / (p - 1) has no bound as p approaches 1.
    conjugate = (p - 1.0) * C * np.exp(p / (p - 1.0) * np.log(share))
    return loss, max(loss + conjugate - a * over, 0.0) + of_under


@njit(cache=True, nogil=True, fastmath=_SUM)
def _squared_lengths(w: Array, u: Array) -> tuple[float, float]:
    """|w|^2 and |w - u|^2"""
    norm, distance = 0.0, 0.0
    for j in range(w.size):
        difference = w[j] - u[j]
        norm, distance = norm + w[j] * w[j], distance + difference * difference
    return norm, distance
