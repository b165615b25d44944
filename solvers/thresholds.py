"""Thresholds that turn the scores of an ordinal model into ranks."""

import numpy as np

from .problem import OrdinalProblem
from .rows import Floats

__all__ = ["MOST_RANKS", "rank_thresholds"]

MOST_RANKS = 256
"""With more distinct labels they are taken for real-valued relevance, which scores order but no threshold names."""


def rank_thresholds(problem: OrdinalProblem, coef: Floats) -> Floats | None:
    """The thresholds with the smallest weighted sum of rank errors |predicted - true| on the training rows.

    That sum is one count of mistakes a threshold (rows of rank <= k above it, others not above it), so each threshold
    is an exact one-dimensional optimum of its own, and taking the lowest one of ties keeps them in order. Each lies
    in the middle between two scores; at the ends, half a unit of the pair loss's margin beyond them.
    """
    if problem.classes.size > MOST_RANKS:
        return None
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(coef, scores)
    order = np.argsort(scores, kind="stable")
    scores, ranks, weights = scores[order], problem.ranks[order], problem.costs[order]
    # A cut before position c has rows c, c + 1, ... above it; equal scores cannot be cut apart.
    possible = np.concatenate([[True], scores[1:] > scores[:-1], [True]])
    edges = np.concatenate([[scores[0] - 1.0], scores, [scores[-1] + 1.0]])
    places = 0.5 * (edges[:-1] + edges[1:])
    thresholds = np.empty(problem.classes.size - 1)
    for k in range(thresholds.size):
        is_above = np.where(ranks > k, weights, -weights)
        mistakes = np.concatenate([[0.0], np.cumsum(is_above)])
        thresholds[k] = places[np.argmin(np.where(possible, mistakes, np.inf))]
    return thresholds
