"""Ranking metrics: pairs of rows in the right order, Kendall's tau and NDCG."""

from typing import Any, NamedTuple

import numpy as np

from app.models.metrics.classification import ratio
from app.models.metrics.curves import Ranking
from app.models.metrics.regression import regression_metrics
from app.tabular.types import Array

NDCG_PLACES = (5, 10)


def ordinal_metrics(
    relevance: Array,
    scores: Array,
    predicted: Array | None,
    group: Array | None = None,
    weight: Array | None = None,
) -> dict[str, Any]:
    """Return the metrics. Pairs are rows of one group with different relevance. `predicted`: ranks, if any."""
    one_group = np.zeros(len(scores), dtype=np.int64) if group is None else group
    pairs = count_pairs(relevance, scores, one_group, weight)
    levels = np.unique(relevance)
    two_ranks = Ranking.of(relevance == levels[-1], scores, weight) if len(levels) == 2 else None
    accuracy = mae = None
    if predicted is not None:
        accuracy = ratio(*_hit_weight(predicted == relevance, weight))
        mae = regression_metrics(relevance, predicted, weight)["mae"]
    return {
        "rows": len(scores),
        "accuracy": accuracy,
        "error": None if accuracy is None else 1.0 - accuracy,
        "mae": mae,
        "swapped_pairs": ratio(pairs.swapped + 0.5 * pairs.tied, pairs.all),
        "kendall_tau": pairs.kendall_tau(),
        "roc_auc": two_ranks.roc_auc() if two_ranks is not None else None,
        "ndcg": None if group is None else {str(k): ndcg(relevance, scores, group, k) for k in NDCG_PLACES},
        "groups": len(np.unique(one_group)),
        "groups_without_pairs": _count_idle(relevance, one_group),
    }


class PairCounts(NamedTuple):
    """Weights of pairs of rows of one group. The weight of a pair is the product of the rows' weights."""

    all: float
    """Pairs with different relevance."""
    swapped: float
    """Pairs of `all` that the scores order wrongly."""
    tied: float
    """Pairs of `all` with equal scores."""
    apart: float
    """Pairs with different scores, of any relevance."""

    def kendall_tau(self) -> float | None:
        """Return Kendall's tau-b."""
        if not (self.all > 0 and self.apart > 0):
            return None
        right = self.all - self.swapped - self.tied
        tau = float((right - self.swapped) / np.sqrt(self.all) / np.sqrt(self.apart))
        return min(1.0, max(-1.0, tau))  # rounding


def count_pairs(relevance: Array, scores: Array, group: Array, weight: Array | None = None) -> PairCounts:
    """Count the pairs in O(n log n)."""
    ranks = np.unique(relevance, return_inverse=True)[1]
    weights = np.ones(len(scores)) if weight is None else weight
    order = np.lexsort((ranks, group))
    of_group, of_level = _steps(group[order]), _steps(group[order], ranks[order])
    comparable = _pair_weight(of_level, of_group, weights[order])
    order = np.lexsort(
        (ranks, scores, group)
    )  # equal scores in the order of their ranks, so that they do not count as wrong
    group, scores, ranks, weights = group[order], scores[order], ranks[order], weights[order]
    of_group, of_score, of_cell = _steps(group), _steps(group, scores), _steps(group, scores, ranks)
    return PairCounts(
        all=comparable,
        swapped=_inversion_weight(of_group, ranks, weights),
        tied=_pair_weight(of_cell, of_score, weights),
        apart=_pair_weight(of_score, of_group, weights),
    )


def ndcg(relevance: Array, scores: Array, group: Array, k: int) -> float | None:
    """Return the mean over groups of DCG@k / ideal DCG@k, with gain = relevance and ties averaged.

    Groups without a relevant row are skipped; None if any relevance is negative or no group is left.
    """
    if (relevance < 0).any():
        return None
    groups = np.unique(group, return_inverse=True)[1]
    found = _discounted_gain(relevance, -scores, groups, k)
    possible = _discounted_gain(relevance, -relevance, groups, k)
    known = possible > 0
    return float(np.mean(found[known] / possible[known])) if known.any() else None


def _discounted_gain(relevance: Array, descending: Array, groups: Array, k: int) -> Array:
    """Return DCG@k of each group with its rows ordered by `descending`; tied rows share their positions evenly."""
    order = np.lexsort((descending, groups))
    groups, ties = groups[order], _steps(groups[order], descending[order])
    place = np.arange(len(order)) - np.searchsorted(groups, groups)
    discount = np.where(place < k, 1.0 / np.log2(place + 2.0), 0.0)
    shared = np.bincount(ties, discount) / np.bincount(ties)
    return np.bincount(groups, relevance[order] * shared[ties])


def _steps(*sorted_keys: Array) -> Array:
    """Number the runs of rows with equal keys, from 0."""
    changed: Array = np.zeros(len(sorted_keys[0]), dtype=bool)
    for key in sorted_keys:
        changed[1:] |= key[1:] != key[:-1]
    return np.cumsum(changed)


def _pair_weight(fine: Array, coarse: Array, weights: Array) -> float:
    """Return the weight of pairs in the same coarse cell but in different fine cells."""
    of_fine, of_coarse = np.bincount(fine, weights), np.bincount(coarse, weights)
    parent = np.zeros(len(of_fine), dtype=np.int64)
    parent[fine] = coarse
    return 0.5 * float(np.sum(of_fine * (of_coarse[parent] - of_fine)))


def _inversion_weight(segments: Array, ranks: Array, weights: Array) -> float:
    """Return the weight of the inversions: pairs of a segment whose earlier row has the higher rank.

    Works bit by bit from the highest: two ranks first differ in one bit, so a row without that bit is inverted with the
    earlier rows that have it. Then each segment is split by the bit, keeping its order, and the next bit decides.
    """
    n = len(ranks)
    start, stop = np.searchsorted(segments, segments), np.searchsorted(segments, segments, side="right")
    total = 0.0
    for bit in reversed(range(int(ranks.max(initial=0)).bit_length())):
        high = (ranks >> bit & 1).astype(bool)
        heavier = np.concatenate([[0.0], np.cumsum(np.where(high, weights, 0.0))])
        total += float(np.sum(np.where(high, 0.0, weights * (heavier[:n] - heavier[start]))))
        lows = np.concatenate([[0], np.cumsum(~high)])
        lows_before, border = lows[:n] - lows[start], start + lows[stop] - lows[start]
        place = np.where(high, border + (np.arange(n) - start - lows_before), start + lows_before)
        start, stop = np.where(high, border, start), np.where(high, stop, border)
        order = np.empty(n, dtype=np.int64)
        order[place] = np.arange(n)
        ranks, weights, start, stop = ranks[order], weights[order], start[order], stop[order]
    return total


def _count_idle(relevance: Array, group: Array) -> int:
    """Count the groups whose rows are all equally relevant: they have no order."""
    order = np.lexsort((relevance, group))
    of_group, of_level = _steps(group[order]), _steps(group[order], relevance[order])
    levels: Array = np.bincount(of_group[np.flatnonzero(np.diff(of_level, prepend=-1))])
    return int(np.sum(levels == 1))


def _hit_weight(hit: Array, weight: Array | None) -> tuple[float, float]:
    weights = np.ones(len(hit)) if weight is None else weight
    return float(weights[hit].sum()), float(weights.sum())
