"""Counts the pairs that scores violate: for n rows in O(n log n), however many pairs, ranks and groups there are.

A pair is two rows i, j of one group with rank_i > rank_j. It weighs s_i s_j, and it is violated if score_i - score_j is
below 1 (or just below, see `cut_margin`). Rows are sorted by score once. A sweep down the scores enters rows into a
Fenwick tree over the ranks of their group as soon as their score is above score_i - 1, so that a sum over the ranks
below row i's is the weight of the rows that it should have beaten by 1: c+ of Joachims (2006). A second sweep, up
the scores, gives the weight of the rows that should have beaten row i, c-. All weights are floats, so counts are exact
up to 2^53, and no pair is ever looked at.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.method import cut_margin
from solvers.problem.problems import OrdinalProblem

__all__ = ["PairCounter", "PairCounts"]


class PairCounts(NamedTuple):
    """The violated pairs of some scores, with their costs, as the plane R(w) >= beta - sum_i counts_i x_i . w."""

    counts: Floats
    """For each row: pair_scale s_i (c+_i - c-_i)."""
    beta: float
    """The cost of all violated pairs."""
    loss: float
    """R at the scores that were counted, where the plane touches it."""


class PairCounter:
    """Counts for any number of scores of the same rows, one after another."""

    def __init__(self, problem: OrdinalProblem) -> None:
        self._n_rows, self._scale = problem.data.n_rows, problem.pair_scale
        rows = np.flatnonzero(problem.costs > 0.0)
        rows = rows[np.argsort(problem.groups[rows], kind="stable")]
        starts_group = np.diff(problem.groups[rows], prepend=-1) != 0
        starts = np.flatnonzero(starts_group)
        self._rows = rows
        self._group_of = np.cumsum(starts_group) - 1
        self._starts = read_only(np.append(starts, rows.size))
        self._ranks, n_ranks = _ranks_within_groups(problem.ranks[rows], self._group_of, starts)
        self._n_ranks = read_only(n_ranks)
        self._weights = problem.costs[rows]
        self._below, self._above, self._tree = np.empty(rows.size), np.empty(rows.size), np.empty(int(n_ranks.max()))

    def count(self, scores: Floats) -> PairCounts:
        """What these scores violate."""
        own = scores[self._rows]
        order = self._order(own)
        counts = np.zeros(self._n_rows)
        weight = _count_pairs(
            cut_margin(scores),
            own[order],
            self._ranks[order],
            self._weights[order],
            self._starts,
            self._n_ranks,
            self._rows[order],
            self._tree,
            self._below,
            self._above,
            counts,
        )
        counts *= self._scale
        beta = self._scale * weight
        return PairCounts(counts, beta, beta - float((counts * scores).sum()))

    def _order(self, scores: Floats) -> NDArray[np.intp]:
        """The members by rising score, group after group."""
        order = np.argsort(scores)
        if self._n_ranks.size == 1:
            return order
        grouped = np.empty_like(order)
        _split_by_group(order, self._group_of, self._starts[:-1].copy(), grouped)
        return grouped


def _ranks_within_groups(ranks: Array, group_of: Array, starts: Array) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Ranks numbered within each group, so that no tree has more places than its group has rows; and how many."""
    cells, cell_of = np.unique(group_of * (int(ranks.max()) + 1) + ranks, return_inverse=True)
    first_cells = np.minimum.reduceat(cell_of, starts)
    n_ranks = np.diff(first_cells, append=cells.size)
    return (cell_of - first_cells[group_of]).astype(np.uint32), n_ranks.astype(np.uint32)


# --- kernels. below, above: a row's c+ and c-; tree: Fenwick sums of weights over ranks ------------------------------

_ONE = np.uint32(1)


@njit(cache=True, nogil=True)
def _split_by_group(order: Array, group_of: Array, places: Array, out: Array) -> None:
    for member in order:
        group = group_of[member]
        out[places[group]] = member
        places[group] += 1


@njit(cache=True, nogil=True)
def _count_pairs(
    margin: float,
    scores: Array,
    ranks: Array,
    weights: Array,
    starts: Array,
    n_ranks: Array,
    rows: Array,
    tree: Array,
    below: Array,
    above: Array,
    counts: Array,
) -> float:
    """Writes s_i (c+_i - c-_i) for every row, and returns the weight of all violated pairs.

    Scores, ranks, weights and rows come by rising score within their groups.
    """
    for group in range(n_ranks.size):
        part = slice(starts[group], starts[group + 1])
        if n_ranks[group] == 2:
            _count_two_ranks(margin, scores[part], ranks[part], weights[part], below[part], above[part])
        else:
            places = tree[: n_ranks[group]]
            _count_ranks(margin, scores[part], ranks[part], weights[part], places, below[part], above[part])
    total = 0.0
    for k in range(rows.size):
        total += weights[k] * below[k]
        counts[rows[k]] = weights[k] * (below[k] - above[k])
    return total


@njit(cache=True, nogil=True)
def _count_ranks(
    margin: float, scores: Array, ranks: Array, weights: Array, tree: Array, below: Array, above: Array
) -> None:
    n, highest = scores.size, np.uint32(tree.size - 1)
    tree[:] = 0.0
    entering = n - 1
    for i in range(n - 1, -1, -1):
        while entering >= 0 and scores[i] - margin < scores[entering]:
            _enter(tree, ranks[entering], weights[entering])
            entering -= 1
        below[i] = _sum_before(tree, ranks[i])
    tree[:] = 0.0
    entering = 0
    for j in range(n):
        while entering < n and scores[entering] - margin < scores[j]:
            _enter(tree, highest - ranks[entering], weights[entering])
            entering += 1
        above[j] = _sum_before(tree, highest - ranks[j])


@njit(cache=True, nogil=True)
def _count_two_ranks(margin: float, scores: Array, ranks: Array, weights: Array, below: Array, above: Array) -> None:
    """The same without a tree: one running sum stands for it. Products with ranks 0 and 1 spare unpredictable jumps."""
    n, total, entering = scores.size, 0.0, scores.size - 1
    for i in range(n - 1, -1, -1):
        while entering >= 0 and scores[i] - margin < scores[entering]:
            total += weights[entering] * (1 - ranks[entering])
            entering -= 1
        below[i] = total * ranks[i]
    total, entering = 0.0, 0
    for j in range(n):
        while entering < n and scores[entering] - margin < scores[j]:
            total += weights[entering] * ranks[entering]
            entering += 1
        above[j] = total * (1 - ranks[j])


@njit(cache=True, nogil=True)
def _enter(tree: Array, rank: Any, weight: float) -> None:
    while rank < np.uint32(tree.size):
        tree[rank] += weight
        rank |= rank + _ONE


@njit(cache=True, nogil=True)
def _sum_before(tree: Array, rank: Any) -> float:
    """The weight of the ranks below this one."""
    total = 0.0
    while rank > 0:
        total += tree[rank - _ONE]
        rank &= rank - _ONE
    return total
