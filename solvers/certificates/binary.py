"""The certificate of a binary problem.

With slack_i = 1 - y_i f(x_i), xi_i = max(0, slack_i) and any dual point alpha (section by section in
docs/solvers.md),

    gap = 1/2 |w - w(alpha)|^2 + sum_i [ C_i xi_i^p + conj_i(alpha_i) - alpha_i slack_i ]

where every term is >= 0, so nothing cancels. Rounding is counted: slack_terms.py, rounding.py. The kernels are short
enough to be checked by reading; whole-array operations of numpy took longer than the one read of the data.
"""

import numpy as np
from numba import njit

from solvers.certificates.balance import balanced
from solvers.certificates.evaluation import (
    Evaluation,
    SlackError,
    certificate_of,
    evaluation_of,
    read_products,
    slack_error,
)
from solvers.certificates.rounding import BLOCK, LEAST_COST, Precision, add_total
from solvers.certificates.slack_terms import loss_of, most_loss_of, share_of, term_of, totals_of
from solvers.data.rows import read_only
from solvers.linalg.compensated import two_sum
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import BinaryProblem
from solvers.result import Certificate

__all__ = ["certify_binary", "feasible_dual_point"]


def certify_binary(
    problem: BinaryProblem, coef: Floats, intercept: float, alpha: Floats | None, tol: float | None = None
) -> Certificate:
    """What (coef, intercept) is worth; alpha is made feasible first, or derived if the solver has none.

    `tol` is the relative gap that would do: rounding that does not matter for it is not worth another read.
    """
    signed = None if alpha is None else _signed_dual_point(problem, alpha)
    source = "dual point from the margins" if alpha is None else "dual point"

    def evaluate(is_compensated: bool) -> Evaluation:
        return _evaluate(problem, coef, intercept, signed, is_compensated)

    return certificate_of(problem, evaluate, source, tol)


def _evaluate(
    problem: BinaryProblem, coef: Floats, intercept: float, signed: Floats | None, is_compensated: bool
) -> Evaluation:
    data = problem.data

    def suggested(scores: Floats) -> Floats:
        return _signed_dual_point(problem, _dual_point_of(problem, scores, intercept))

    read = read_products(data, coef, suggested if signed is None else signed, is_compensated=is_compensated)
    precision = Precision.of(data, is_compensated=is_compensated)
    slacks = np.empty(data.n_rows)
    _form_slacks(read_only(read.scores), read_only(read.scores_low), intercept, problem.signs, slacks)
    rows = read_only(slacks), read_only(read.dual), problem.costs, read_only(read.sizes)
    error = slack_error(data, coef, abs(intercept), read, precision)
    sums = _sum_rows(problem.spec.exponent, rows, error)
    return evaluation_of(problem, coef, intercept, read, totals_of(sums), precision)


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
    return np.abs(_signed_dual_point(problem, alpha))


def _signed_dual_point(problem: BinaryProblem, alpha: Floats) -> Floats:
    """y_i alpha_i of every row, alpha moved into the dual's domain."""
    if alpha.shape != problem.costs.shape:
        raise ValueError(f"a dual point of shape {alpha.shape} for {problem.costs.size} rows")
    signed = np.empty(alpha.size)
    given = read_only(np.ascontiguousarray(alpha, dtype=np.float64))
    _move_into_domain(given, problem.signs, problem.costs, problem.spec.exponent == 1.0, signed)
    return balanced(signed) if problem.spec.bias == "free" else signed


# --- kernels. C: cost, a: alpha_i -------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def _move_into_domain(alpha: Array, signs: Array, costs: Array, is_capped: bool, out: Array) -> None:
    """out[i] = y_i alpha_i with alpha_i in [0, C_i], or where it is not capped, in [0, inf) if the row has a cost that
    can be divided by."""
    for i in range(alpha.size):
        top = costs[i] if is_capped else (np.inf if costs[i] >= LEAST_COST else 0.0)
        out[i] = signs[i] * min(max(alpha[i], 0.0), top)


@njit(cache=True, nogil=True)
def _form_slacks(scores: Array, low: Array, intercept: float, signs: Array, out: Array) -> None:
    """out[i] = 1 - y_i (scores_i + low_i + intercept); `low` may be empty."""
    if low.size == 0:
        for i in range(scores.size):
            out[i] = 1.0 - signs[i] * (scores[i] + intercept)
        return
    for i in range(scores.size):
        value, lost = two_sum(scores[i], intercept)
        slack, lost_too = two_sum(1.0, -signs[i] * value)
        out[i] = slack + (lost_too - signs[i] * (low[i] + lost))


@njit(cache=True, nogil=True)
def _sum_rows(p: float, rows: tuple[Array, Array, Array, Array], error: SlackError) -> Array:
    """The compensated sums of RowTotals."""
    sums = np.zeros((10, 2))
    slacks, signed, costs, sizes = rows
    for first in range(0, slacks.size, BLOCK):
        last = min(first + BLOCK, slacks.size)
        block = slacks[first:last], signed[first:last], costs[first:last], sizes[first:last]
        # With a constant exponent the loop over a block is one of plain arithmetic.
        if p == 1.0:
            parts = _sum_block(1.0, block, error)
        elif p == 2.0:
            parts = _sum_block(2.0, block, error)
        else:
            parts = _sum_block(p, block, error)
        for k in range(10):
            add_total(sums, k, parts[k])
    return sums


@njit(cache=True, nogil=True, fastmath=_SUM, forceinline=True)
def _sum_block(
    p: float, rows: tuple[Array, Array, Array, Array], error: SlackError
) -> tuple[float, float, float, float, float, float, float, float, float, float]:
    slacks, signed, costs, sizes = rows
    losses, most, least, terms, most_terms = 0.0, 0.0, 0.0, 0.0, 0.0
    conjugates, mass, reach = 0.0, 0.0, 0.0
    for i in range(slacks.size):
        slack, C, a = slacks[i], costs[i], abs(signed[i])
        size = np.sqrt(sizes[i]) if error.are_squares else sizes[i]
        off = error.of_size * size + (error.of_all + error.of_slack * abs(slack))
        share, conjugate = share_of(p, C, a)
        losses += loss_of(p, C, slack) + 0.0 * slack  # a slack that is not finite makes the sum so
        most += most_loss_of(p, C, slack + off)
        least += loss_of(p, C, slack - off)
        terms += term_of(p, C, a, share, conjugate, slack)
        low = term_of(p, C, a, share, conjugate, slack - off)
        most_terms += max(low, term_of(p, C, a, share, conjugate, slack + off))
        conjugates += conjugate
        mass += a
        reach += a * size
    return losses, most, least, terms, most_terms, conjugates, mass, 0.0, mass, reach
