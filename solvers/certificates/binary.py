"""The certificate of a binary problem.

With s_i = margin - y_i f(x_i) and any dual point alpha (docs/solvers.md has the derivation),

    gap = 1/2 |w - w(alpha)|^2 + sum_i [ C_i l(s_i) + conj_i(alpha_i) - alpha_i s_i ].

Every term is >= 0, so nothing cancels. The loss object computes l, its conjugate and the sums over the rows, with
rounding accounted for. These sums are kernels, because whole-array operations of numpy took longer than the pass over
the data.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from solvers.certificates.balance import balanced
from solvers.certificates.evaluation import (
    Evaluation,
    Precision,
    certificate_of,
    evaluation_of,
    read_products,
    slack_error,
)
from solvers.data.rows import read_only
from solvers.linalg.compensated import two_sum
from solvers.linalg.rounding import LEAST_COST
from solvers.linalg.types import Array, Floats
from solvers.problem.losses.loss import SlackRows
from solvers.problem.problems import BinaryProblem
from solvers.result import Certificate

__all__ = ["certify_binary", "evaluation_of_binary", "feasible_dual_point"]


def certify_binary(
    problem: BinaryProblem, coef: Floats, intercept: float, alpha: Floats | None, tol: float | None = None
) -> Certificate:
    """Certify (coef, intercept). alpha is made feasible first. If it is None, a dual point is derived from the margins.

    `tol` is the relative gap to prove. Data is read again only if rounding prevents that proof.
    """
    source = "dual point from the margins" if alpha is None else "dual point"
    return certificate_of(problem, evaluation_of_binary(problem, coef, intercept, alpha), source, tol)


def evaluation_of_binary(
    problem: BinaryProblem, coef: Floats, intercept: float, alpha: Floats | None
) -> Callable[[bool], Evaluation]:
    """Return the function that evaluates the primal-dual pair; its argument selects compensated products."""
    signed = None if alpha is None else _signed_dual_point(problem, alpha)

    def evaluate(is_compensated: bool) -> Evaluation:
        return _evaluate(problem, coef, intercept, signed, is_compensated)

    return evaluate


def _evaluate(
    problem: BinaryProblem, coef: Floats, intercept: float, signed: Floats | None, is_compensated: bool
) -> Evaluation:
    data = problem.data

    def suggested(scores: Floats) -> Floats:
        return _signed_dual_point(problem, _dual_point_of(problem, scores, intercept))

    read = read_products(data, coef, suggested if signed is None else signed, is_compensated=is_compensated)
    precision = Precision.of(data, is_compensated=is_compensated)
    _form_slacks(read.scores, read_only(read.scores_low), intercept, problem.loss.margin, problem.signs)
    rows = SlackRows(read_only(read.scores), read_only(read.dual), problem.costs, read_only(read.sizes))
    error = slack_error(data, coef, abs(intercept), read, precision)
    return evaluation_of(problem, coef, intercept, read, problem.loss.row_totals(rows, error), precision)


def _dual_point_of(problem: BinaryProblem, scores: Floats, intercept: float) -> Floats:
    """Return the dual point that the optimality conditions imply for these scores."""
    slack = problem.loss.margin - problem.signs * (scores + intercept)
    rounding = 1e-9 * max(1.0, float(np.abs(slack).max()))
    low, high = problem.loss.dual_bounds(slack, problem.costs, rounding)
    if problem.spec.bias != "free":
        return 0.5 * (low + high)
    # The two classes must have the same sum of alpha. In the class with the smaller sum, rows at a kink of the loss
    # take the fraction of their range that makes both sums equal.
    room = high - low
    excess = float((low * problem.signs).sum())
    lighter = problem.signs * excess < 0.0
    total = float(room[lighter].sum())
    if total > 0.0:
        low[lighter] += min(1.0, abs(excess) / total) * room[lighter]
    return low


def feasible_dual_point(problem: BinaryProblem, alpha: Floats) -> Floats:
    """Move alpha into the dual's domain. A solver's own dual point changes only by rounding."""
    return np.abs(_signed_dual_point(problem, alpha))


def _signed_dual_point(problem: BinaryProblem, alpha: Floats) -> Floats:
    """Return y_i alpha_i of every row, with alpha moved into the dual's domain."""
    if alpha.shape != problem.costs.shape:
        raise ValueError(
            f"the dual point has shape {alpha.shape} for {problem.costs.size} rows; one number per row is needed"
        )
    signed = np.empty(alpha.size)
    given = read_only(np.ascontiguousarray(alpha, dtype=np.float64))
    loss = problem.loss
    _move_into_domain(given, problem.signs, problem.costs, loss.is_capped, loss.divides_by_cost, signed)
    return balanced(signed) if problem.spec.bias == "free" else signed


# --- kernels. C: cost, a: alpha_i -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _move_into_domain(
    alpha: Array, signs: Array, costs: Array, is_capped: bool, divides_by_cost: bool, out: Array
) -> None:
    """Write y_i alpha_i to out, with alpha_i clipped to [0, dual_top] (see `Loss.dual_top`). No array of upper bounds
    is made."""
    least = LEAST_COST if divides_by_cost else 0.0
    for i in range(alpha.size):
        top = costs[i] if is_capped else np.inf
        out[i] = signs[i] * min(max(alpha[i], 0.0), top if costs[i] >= least else 0.0)


@njit(cache=True, nogil=True)
def _form_slacks(scores: Array, low: Array, intercept: float, margin: float, signs: Array) -> None:
    """Replace scores_i by the slack margin - y_i (scores_i + low_i + intercept); `low` can be empty."""
    if low.size == 0:
        for i in range(scores.size):
            scores[i] = margin - signs[i] * (scores[i] + intercept)
        return
    for i in range(scores.size):
        value, lost = two_sum(scores[i], intercept)
        slack, lost_too = two_sum(margin, -signs[i] * value)
        scores[i] = slack + (lost_too - signs[i] * (low[i] + lost))
