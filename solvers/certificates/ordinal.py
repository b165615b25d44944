"""The certificate of the ordinal problem, from cutting planes.

The loss of the pairs, R(w) = sum over pairs of C_ij max(0, 1 - w . (x_i - x_j)), lies above each of its planes. The
plane cut at w_k counts the pairs that w_k violates. With the counts v of the rows it is R(w) >= beta_k - a_k . w, where
a_k = sum_i v_i x_i. For multipliers g >= 0 with sum g <= 1 it follows that min P >= sum_k g_k beta_k - 1/2 |sum_k g_k
a_k|^2.

The planes are recomputed here from the w_k that a method kept, so the result does not depend on the method's own
counts. Any set of pairs gives a valid plane, so a pair that rounding puts on the wrong side of its margin only makes
the bound less tight. The weights of the counted pairs are sums of non-negative numbers, so rounding changes them by a
known fraction.

In the primal value, a pair on the wrong side of its margin has an error of at most the sum of the errors of its two
scores.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.certificates.evaluation import (
    Evaluation,
    Precision,
    certificate_of,
    length_at_most,
    read_scores,
    read_weights,
)
from solvers.data.rows import read_only
from solvers.linalg.compensated import two_sum
from solvers.linalg.rounding import (
    LEAST,
    SUM_ERROR,
    UNIT,
    above,
    add_total,
    below,
    compensated_sum,
    gamma,
)
from solvers.linalg.types import Array, Floats
from solvers.method import Planes, cut_margin
from solvers.problem.problems import OrdinalProblem
from solvers.result import Certificate

__all__ = ["certify_ordinal", "plane_at"]

PAIRWISE_ROWS = 4096
"""Maximum number of rows for which the primal value is summed pair by pair. This slow sum has no cancellation, and
replaces the fast sum if rounding errors dominate it. Larger: correct digits for more rows with extreme scores; time
grows with the square of the rows (50 ms at 4,096). Set by hand; no measurement is recorded."""


def certify_ordinal(
    problem: OrdinalProblem, coef: Floats, planes: Planes | None, tol: float | None = None
) -> Certificate:
    """Certify coef. Without planes, the plane at coef itself gives the bound.

    `tol` is the relative gap to prove. Data is read again only if rounding prevents that proof.
    """
    if planes is None or planes.multipliers.size == 0:
        planes = Planes(coef[None, :], np.ones(1))

    def evaluate(is_compensated: bool) -> Evaluation:
        return _evaluate(problem, coef, planes, is_compensated)

    return certificate_of(problem, evaluate, "cutting planes", tol)


def _evaluate(problem: OrdinalProblem, coef: Floats, planes: Planes, is_compensated: bool) -> Evaluation:
    data, ranks = problem.data, _ranks_within_groups(problem)
    precision = Precision.of(data, is_compensated=is_compensated)
    count_error = gamma(int(ranks.within.max()).bit_length() + 16)
    underflow = (data.n_features + data.n_rows) * LEAST

    scores, low, sizes = read_scores(data, coef, is_compensated=is_compensated)
    errors = precision.scores * sizes + precision.underflow
    if is_compensated and data.n_rows <= PAIRWISE_ROWS:
        rows = read_only(problem.costs * problem.pair_scale), problem.costs, problem.ranks, problem.groups
        losses = _sum_pairs(*rows, read_only(scores), read_only(low), read_only(errors), precision.slack)
    else:
        own = _plane(problem, scores, 1.0, ranks)
        # Every pair has the errors of its two scores, and counted pairs also the errors of their counts.
        of_scores = float((errors + precision.slack * (np.abs(scores) + 1.0)).max())
        of_counts = count_error * (own.level + float((own.magnitudes * np.abs(scores)).sum()))
        rounding = (4.0 * of_scores * problem.total_cost + of_counts) * (1.0 + gamma(data.n_rows + 8))
        loss = max(own.loss, 0.0)  # with the arguments in this order, NaN stays NaN
        losses = loss, loss + rounding, max(0.0, loss - rounding)
    norm = 0.5 * compensated_sum(read_only(coef * coef))
    if not np.isfinite(scores).all():
        losses = math.inf, math.inf, 0.0  # the order of scores that are not finite is meaningless

    # The factor keeps the sum of the multipliers at most 1 in exact arithmetic.
    multipliers = np.maximum(planes.multipliers, 0.0)
    multipliers = multipliers / max(1.0, float(multipliers.sum())) * (1.0 - gamma(multipliers.size + 8))
    counts, magnitudes, level = np.zeros(data.n_rows), np.zeros(data.n_rows), 0.0
    for weights, multiplier in zip(planes.weights, multipliers.tolist(), strict=True):
        if multiplier > 0.0:
            cut = plane_at(problem, weights, is_cut=True, ranks_known=ranks)
            counts += multiplier * cut.counts
            magnitudes += multiplier * cut.magnitudes
            level += multiplier * cut.level
    normal = read_weights(data, counts, is_compensated=is_compensated)
    # The errors of the counts are a fraction of their magnitudes, in which nothing cancels.
    of_planes = gamma(2 * multipliers.size + 16) + count_error
    error = (
        precision.sums * normal.size + of_planes * read_weights(data, magnitudes, is_compensated=is_compensated).size
    )
    error += LEAST * above(float(data.lengths().sum())) + underflow  # for counts that underflow
    steepness = above(length_at_most(normal.high) * (1.0 + 4.0 * UNIT) + error)
    nominal_bound = level - 0.5 * float((normal.high * normal.high).sum())
    return Evaluation(
        primal=above((norm + losses[1]) * (1.0 + SUM_ERROR) + underflow),
        least_primal=below((norm + losses[2]) * (1.0 - SUM_ERROR) - underflow),
        nominal_primal=norm + losses[0],
        gap=math.inf,
        nominal_gap=max(0.0, norm + losses[0] - max(0.0, nominal_bound)),
        linear=below(level * (1.0 - of_planes - gamma(64.0)) - underflow),
        curved=above(0.5 * steepness * steepness),
        losses_at_most=above(losses[1] * (1.0 + SUM_ERROR) + underflow),
        losses_at_least=below(losses[2] * (1.0 - SUM_ERROR) - underflow),
        dual_weights=np.append(normal.high, 0.0),
        dual_error=above(error + 4.0 * UNIT * steepness),
        multipliers=counts,
    )


class _Plane(NamedTuple):
    level: float
    """beta: the total cost of the counted pairs."""
    counts: Floats
    """v_i of each row: the cost of the counted pairs in which it is the higher row, minus that of the others."""
    magnitudes: Floats
    """The sum of both costs: the unit of the rounding errors of the counts."""
    loss: float
    """beta - sum_i v_i score_i: R at the scores where the plane was cut."""


def plane_at(
    problem: OrdinalProblem, w: Floats, *, is_cut: bool = False, ranks_known: "_Ranks | None" = None
) -> _Plane:
    """Return the plane of the pairs that w violates. With `is_cut`, the margin of a pair is `cut_margin`, as in the
    planes of methods. The `loss` of the plane is R(w) up to rounding."""
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(w, scores)
    margin = cut_margin(scores) if is_cut else 1.0
    return _plane(problem, scores, margin, ranks_known or _ranks_within_groups(problem))


def _plane(problem: OrdinalProblem, scores: Floats, margin: float, ranks: "_Ranks") -> _Plane:
    below, above = np.zeros_like(scores), np.zeros_like(scores)
    # Of two ranks the higher one has a 1 in the first binary digit in which they differ. For each digit, rows with a 1
    # are paired with rows with a 0 that have the same group and the same higher digits. This covers each pair once.
    for bit in range(int(ranks.within.max()).bit_length()):
        cells, is_higher = ranks.firsts + (ranks.within >> (bit + 1)), (ranks.within >> bit) & 1 == 1
        _count_violations(cells, is_higher, scores, margin, problem.costs, below, above)
    weights = problem.pair_scale * problem.costs
    counts, magnitudes = weights * (below - above), weights * (below + above)
    level = float(compensated_sum(read_only(weights * below)))
    return _Plane(level, counts, magnitudes, level - float(compensated_sum(read_only(counts * scores))))


class _Ranks(NamedTuple):
    within: NDArray[np.int64]
    """The rank of each row, counted within its group."""
    firsts: NDArray[np.int64]
    """For each row, the offset of its group: the number of ranks in all groups before it, or more."""


def _ranks_within_groups(problem: OrdinalProblem) -> _Ranks:
    n_ranks, groups = problem.classes.size, problem.groups.astype(np.int64)
    found, numbers = np.unique(groups * n_ranks + problem.ranks, return_inverse=True)
    firsts = np.searchsorted(found, np.arange(groups.max() + 1) * n_ranks)[groups]
    return _Ranks(numbers - firsts, firsts)


def _count_violations(
    cells: NDArray[np.int64],
    is_higher: NDArray[np.bool_],
    scores: Floats,
    margin: float,
    weights: Floats,
    below: Floats,
    above: Floats,
) -> None:
    """Add to `below`, for each higher row, the weight of the lower rows that violate a pair with it; add to `above` the
    same for each lower row.

    Only rows of the same cell form pairs. A pair is violated if score_low > score_high - margin. Sort all rows by
    score_low or score_high - margin. Then the violators of a higher row are the lower rows after it, and those of a
    lower row are the higher rows before it.
    """
    order = np.argsort(np.where(is_higher, scores - margin, scores))
    if cells.min() < cells.max():
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        order = np.argsort(cells * order.size + places)  # two plain sorts take half the time of np.lexsort
    sums = np.zeros_like(scores)
    _sum_along(cells, is_higher, weights, order, sums)
    below += np.where(is_higher, sums, 0.0)
    above += np.where(is_higher, 0.0, sums)


# --- kernels ----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_along(cells: Array, is_higher: Array, weights: Array, order: Array, sums: Array) -> None:
    """Write the weight of the higher rows before each lower row, and of the lower rows after each higher row, of the
    same cell. The sums are compensated: their relative error is at most 2 u."""
    for is_backward in (False, True):
        total, lost, cell = 0.0, 0.0, -1
        for place in range(order.size):
            i = order[order.size - 1 - place] if is_backward else order[place]
            if cells[i] != cell:
                total, lost, cell = 0.0, 0.0, cells[i]
            if is_higher[i] == is_backward:
                sums[i] = total + lost
            else:
                total, rest = two_sum(total, weights[i])
                lost += rest


@njit(cache=True, nogil=True)
def _sum_pairs(
    scaled: Array, costs: Array, ranks: Array, groups: Array, high: Array, low: Array, errors: Array, of_slack: float
) -> tuple[float, float, float]:
    """Return the sum of C_ij max(0, 1 - (s_i - s_j)) over all pairs, s = high + low: as computed, an upper and a lower
    bound."""
    totals = np.zeros((3, 2))
    for i in range(high.size):
        for j in range(high.size):
            if ranks[i] <= ranks[j] or groups[i] != groups[j]:
                continue
            apart, lost = two_sum(high[i], -high[j])
            slack, lost_too = two_sum(1.0, -apart)
            slack += (lost_too - lost) - (low[i] - low[j])
            error = errors[i] + errors[j] + of_slack * abs(slack)
            for k, value in enumerate((slack, slack + error, slack - error)):
                add_total(totals, k, scaled[i] * costs[j] * max(value, 0.0))
    return totals[0, 0] + totals[0, 1], totals[1, 0] + totals[1, 1], totals[2, 0] + totals[2, 1]
