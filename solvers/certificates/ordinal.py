"""The certificate of the ordinal problem: what the cutting planes prove.

The pairs' loss R(w) = sum over pairs of C_ij max(0, 1 - w . (x_i - x_j)) lies above each of its planes. The plane cut
at w_k counts the pairs that w_k violates; with the rows' counts v it is R(w) >= beta_k - a_k . w, a_k = sum_i v_i x_i.
For multipliers g >= 0 with sum g <= 1 therefore min P >= sum_k g_k beta_k - 1/2 |sum_k g_k a_k|^2.

Planes are recomputed here from the w_k that a method kept, so its own counting is not trusted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.common import certificate_of, squared_norm
from solvers.linalg.types import Floats
from solvers.method import Planes, cut_margin
from solvers.problem.problems import OrdinalProblem
from solvers.result import Certificate

__all__ = ["certify_ordinal", "plane_at"]


def certify_ordinal(problem: OrdinalProblem, coef: Floats, planes: Planes | None) -> Certificate:
    """What coef is worth; without planes the bound is that of the plane at coef itself."""
    ranks = _ranks_within_groups(problem)
    _, _, loss = plane_at(problem, coef, ranks_known=ranks)
    primal = 0.5 * squared_norm(coef) + loss
    if planes is None or planes.multipliers.size == 0:
        planes = Planes(coef[None, :], np.ones(1))
    multipliers = np.maximum(planes.multipliers, 0.0)
    multipliers = multipliers / max(1.0, float(multipliers.sum()))
    counts, level = np.zeros(problem.data.n_rows), 0.0
    for weights, multiplier in zip(planes.weights, multipliers.tolist(), strict=True):
        if multiplier > 0.0:
            beta, of_plane, _ = plane_at(problem, weights, is_cut=True, ranks_known=ranks)
            counts += multiplier * of_plane
            level += multiplier * beta
    normal = np.empty(problem.data.n_features)
    problem.data.weighted_column_sums(counts, normal)
    bound = level - 0.5 * squared_norm(normal)
    return certificate_of(problem, primal, max(0.0, primal - bound), "cutting planes")


def plane_at(
    problem: OrdinalProblem, w: Floats, *, is_cut: bool = False, ranks_known: "_Ranks | None" = None
) -> tuple[float, Floats, float]:
    """(beta, v, R(w)) of the plane of the pairs that w violates; if `is_cut`, as methods cut it, R but for rounding."""
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(w, scores)
    margin = cut_margin(scores) if is_cut else 1.0
    below, above = np.zeros_like(scores), np.zeros_like(scores)
    ranks, firsts = ranks_known or _ranks_within_groups(problem)
    # The higher row of a pair has a 1 where the two ranks' binary numbers first differ: a bit at a time, all pairs
    # are met once, as rows with a 1 against rows with a 0 among those that agree in the group and all higher bits.
    for bit in range(int(ranks.max()).bit_length()):
        cells, is_higher = firsts + (ranks >> (bit + 1)), (ranks >> bit) & 1 == 1
        _count_violations(cells, is_higher, scores, margin, problem.costs, below, above)
    counts = problem.pair_scale * problem.costs * (below - above)
    beta = problem.pair_scale * float((problem.costs * below).sum())
    return beta, counts, beta - float((counts * scores).sum())


class _Ranks(NamedTuple):
    within: NDArray[np.int64]
    """Each row's rank, counted within its group."""
    firsts: NDArray[np.int64]
    """For each row a number of its group; the next group's leaves room for this one's ranks."""


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
    """Adds, for the higher rows, the weight of the lower rows of their cell that come too close or pass them; and back.

    A pair is violated if score_low > score_high - margin, so in the order of score_low and score_high - margin a higher
    row's violators are the lower rows after it, and a lower row's are the higher rows before it.
    """
    order = np.argsort(np.where(is_higher, scores - margin, scores))
    if cells.min() < cells.max():
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        order = np.argsort(cells * order.size + places)  # two plain sorts take half the time of np.lexsort
    cells, is_higher, weights = cells[order], is_higher[order], weights[order]
    starts_cell = np.diff(cells, prepend=-1) != 0
    number = np.cumsum(starts_cell) - 1
    edges = np.append(np.flatnonzero(starts_cell), order.size)
    low = np.concatenate([[0.0], np.cumsum(np.where(is_higher, 0.0, weights))])
    high = np.concatenate([[0.0], np.cumsum(np.where(is_higher, weights, 0.0))])
    below[order] += np.where(is_higher, low[edges[1:]][number] - low[:-1], 0.0)
    above[order] += np.where(is_higher, 0.0, high[:-1] - high[edges[:-1]][number])
