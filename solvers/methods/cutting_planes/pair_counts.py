"""Counts the pairs of rows that scores violate, in O(n log n) for n rows and any number of pairs, ranks and groups.

A pair is two rows i, j of one group with rank_i > rank_j. Its weight is s_i s_j. It is violated if score_i - score_j is
below 1, or below the slightly smaller `cut_margin`. The rows are sorted by score once. A sweep from high to low scores
inserts rows into a Fenwick tree over the ranks of their group, as soon as their score is above score_i - 1. The sum
over the ranks below that of row i is then the weight of the rows that row i should outscore by 1: c+ of Joachims
(2006). A second sweep, from low to high, yields c-, the weight of the rows that should outscore row i. Weights are
doubles, so integer counts are exact up to 2^53. No pair is visited.
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
    """The violated pairs of given scores, as the plane R(w) >= beta - sum_i counts_i x_i . w."""

    counts: Floats
    """pair_scale s_i (c+_i - c-_i) of each row."""
    beta: float
    """Total cost of the violated pairs."""
    loss: float
    """R at the given scores, where the plane touches it."""


class PairCounter:
    """Counts violated pairs for one vector of scores after another, always for the same rows."""

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
        """Count the pairs that these scores violate."""
        own = scores[self._rows]
        order = self._order(own)
        counts = np.zeros(self._n_rows)
        members = _Members(own[order], self._ranks[order], self._weights[order], self._rows[order])
        groups = _Groups(self._starts, self._n_ranks)
        work = _Work(self._tree, self._below, self._above)
        weight = _count_pairs(cut_margin(scores), members, groups, work, counts)
        counts *= self._scale
        beta = self._scale * weight
        return PairCounts(counts, beta, beta - float((counts * scores).sum()))

    def _order(self, scores: Floats) -> NDArray[np.intp]:
        """Return the members sorted by group, then by ascending score."""
        order = np.argsort(scores)
        if self._n_ranks.size == 1:
            return order
        grouped = np.empty_like(order)
        _split_by_group(order, self._group_of, self._starts[:-1].copy(), grouped)
        return grouped


def _ranks_within_groups(ranks: Array, group_of: Array, starts: Array) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the ranks renumbered within each group, and the number of ranks in each group. A tree is then no larger
    than its group."""
    cells, cell_of = np.unique(group_of * (int(ranks.max()) + 1) + ranks, return_inverse=True)
    first_cells = np.minimum.reduceat(cell_of, starts)
    n_ranks = np.diff(first_cells, append=cells.size)
    return (cell_of - first_cells[group_of]).astype(np.uint32), n_ranks.astype(np.uint32)


# --- kernels ----------------------------------------------------------------------------------------------------------

_ONE = np.uint32(1)


class _Members(NamedTuple):
    """The rows with a positive cost, by group and ascending score."""

    scores: Array
    ranks: Array
    weights: Array
    rows: Array
    """Row numbers in X."""


class _Groups(NamedTuple):
    """The index of each group's first member, and its number of ranks."""

    starts: Array
    n_ranks: Array


class _Work(NamedTuple):
    tree: Array
    """Fenwick tree: sums of weights over ranks."""
    below: Array
    """c+ of each member."""
    above: Array
    """c- of each member."""


@njit(cache=True, nogil=True)
def _split_by_group(order: Array, group_of: Array, places: Array, out: Array) -> None:
    for member in order:
        group = group_of[member]
        out[places[group]] = member
        places[group] += 1


@njit(cache=True, nogil=True)
def _count_pairs(margin: float, members: _Members, groups: _Groups, work: _Work, counts: Array) -> float:
    """Write s_i (c+_i - c-_i) for every row and return the weight of all violated pairs."""
    scores, ranks, weights, rows = members.scores, members.ranks, members.weights, members.rows
    starts, n_ranks = groups.starts, groups.n_ranks
    tree, below, above = work.tree, work.below, work.above
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
    """Compute c+ and c- of the members of one group."""
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
    """Compute c+ and c- of a group with two ranks, by a running sum instead of a tree. Multiplying by the rank, 0 or 1,
    avoids unpredictable branches."""
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
    """Return the total weight of the ranks below this one."""
    total = 0.0
    while rank > 0:
        total += tree[rank - _ONE]
        rank &= rank - _ONE
    return total
