"""The certificate of the ordinal problem: what the cutting planes prove.

The pairs' loss R(w) = sum over pairs of C_ij max(0, 1 - w . (x_i - x_j)) lies above each of its planes. The plane cut
at w_k counts the pairs that w_k violates; with the rows' counts v it is R(w) >= beta_k - a_k . w, a_k = sum_i v_i x_i.
For multipliers g >= 0 with sum g <= 1 therefore min P >= sum_k g_k beta_k - 1/2 |sum_k g_k a_k|^2.

Planes are recomputed here from the w_k that a method kept, so its own counting is not trusted.
"""

import numpy as np
from numpy.typing import NDArray

from solvers.problem import OrdinalProblem
from solvers.protocol import Planes
from solvers.result import Certificate
from solvers.rows import Floats

from .common import certificate_of, squared_norm

__all__ = ["certify_ordinal", "plane_at"]


def certify_ordinal(problem: OrdinalProblem, coef: Floats, planes: Planes | None) -> Certificate:
    """What coef is worth; without planes the bound is that of the plane at coef itself."""
    _, _, loss = plane_at(problem, coef)
    primal = 0.5 * squared_norm(coef) + loss
    if planes is None or planes.multipliers.size == 0:
        planes = Planes(coef[None, :], np.ones(1))
    multipliers = np.maximum(planes.multipliers, 0.0)
    multipliers = multipliers / max(1.0, float(multipliers.sum()))
    normal, level = np.zeros(problem.data.n_features), 0.0
    for weights, multiplier in zip(planes.weights, multipliers, strict=True):
        if multiplier > 0.0:
            beta, counts, _ = plane_at(problem, weights)
            slope = np.empty(problem.data.n_features)
            problem.data.weighted_column_sums(counts, slope)
            normal += multiplier * slope
            level += multiplier * beta
    bound = level - 0.5 * squared_norm(normal)
    return certificate_of(problem, primal, max(0.0, primal - bound), "cutting planes")


def plane_at(problem: OrdinalProblem, w: Floats) -> tuple[float, Floats, float]:
    """(beta, v, R(w)) of the plane of the pairs that w violates."""
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(w, scores)
    below, above = np.zeros_like(scores), np.zeros_like(scores)
    ranks = problem.ranks.astype(np.int64)
    # The higher row of a pair has a 1 where the two ranks' binary numbers first differ: a bit at a time, all pairs
    # are met once, as rows with a 1 against rows with a 0 among those that agree in the group and all higher bits.
    for bit in range(int(ranks.max()).bit_length()):
        cells = problem.groups.astype(np.int64) * (int(ranks.max()) + 1) + (ranks >> (bit + 1))
        is_higher = (ranks >> bit) & 1 == 1
        _count_violations(cells, is_higher, scores, problem.costs, below, above)
    counts = problem.pair_scale * problem.costs * (below - above)
    beta = problem.pair_scale * float((problem.costs * below).sum())
    return beta, counts, beta - float((counts * scores).sum())


def _count_violations(
    cells: NDArray[np.int64],
    is_higher: NDArray[np.bool_],
    scores: Floats,
    weights: Floats,
    below: Floats,
    above: Floats,
) -> None:
    """Adds, for the higher rows, the weight of the lower rows of their cell that come too close or pass them; and back.

    A pair is violated if score_low > score_high - 1, so in the order of score_low and score_high - 1 a higher
    row's violators are the lower rows after it, and a lower row's are the higher rows before it.
    """
    order = np.lexsort((np.where(is_higher, scores - 1.0, scores), cells))
    cells, is_higher, weights = cells[order], is_higher[order], weights[order]
    ends = np.searchsorted(cells, cells, side="right")
    starts = np.searchsorted(cells, cells, side="left")
    low = np.concatenate([[0.0], np.cumsum(np.where(is_higher, 0.0, weights))])
    high = np.concatenate([[0.0], np.cumsum(np.where(is_higher, weights, 0.0))])
    places = np.arange(order.size)
    below[order] += np.where(is_higher, low[ends] - low[places], 0.0)
    above[order] += np.where(is_higher, 0.0, high[places] - high[starts])
