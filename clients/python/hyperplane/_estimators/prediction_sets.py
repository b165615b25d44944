"""Prediction sets by CV+, as the service gives them: fold models, and the held-out rows that they did not see.

A candidate answer is left out if it is stranger than most held-out rows are, each compared under the fold model that
held it out. Strangeness of a number is its distance from the prediction. Strangeness of a label is how far the best
other score exceeds its own, and a label is compared with the held-out rows of that label only. With folds that were
drawn at random the sets contain the truth with a probability of at least 2 coverage - 1, less a term that shrinks with
the number of rows (Barber, Candes, Ramdas and Tibshirani 2021).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hyperplane._estimators.problems import Problem, Solution

__all__ = ["FoldModels", "fold_models"]

Array = Any
CELLS = 4_000_000
"""Sums of a score and a distance in memory at once, 8 bytes each. Larger: more memory, fewer rounds. Set by hand; no
measurement is recorded."""


@dataclass(frozen=True)
class FoldModels:
    """The models of all folds, and the strangeness of the rows that each of them did not see."""

    solutions: Sequence[Solution]
    strangeness: Sequence[Sequence[Array]]
    """By class (numbers: one entry), then by fold: the strangeness of the held-out rows, ascending."""

    def labels(self, X: Any, coverage: float) -> Array:
        """Return whether the set of each row contains each class."""
        candidates = [_strangeness(_scores(X, one)) for one in self.solutions]
        kept = np.empty(candidates[0].shape, dtype=bool)
        for place, parts in enumerate(self.strangeness):
            counts = [np.searchsorted(part, one[:, place]) for part, one in zip(parts, candidates, strict=True)]
            kept[:, place] = np.sum(counts, axis=0) < _rank(coverage, parts)
        return kept

    def intervals(self, X: Any, coverage: float) -> Array:
        """Return the lower and the upper end of each row's interval; infinite: there is no bound on this side."""
        (parts,) = self.strangeness
        centres = np.column_stack([_scores(X, one) for one in self.solutions])
        place = _rank(coverage, parts) - 1
        ends = np.full((X.shape[0], 2), [-np.inf, np.inf])
        distances = np.concatenate(parts)
        if place >= distances.size:
            return ends
        fold_of_distance = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        step = max(1, CELLS // distances.size)
        for start in range(0, len(centres), step):
            around = centres[start : start + step, fold_of_distance]
            ends[start : start + step, 1] = np.partition(around + distances, place, axis=1)[:, place]
            ends[start : start + step, 0] = -np.partition(distances - around, place, axis=1)[:, place]
        return np.sort(ends, axis=1)


def fold_models(problem: Problem, count: int, train: Callable[[Problem], Solution]) -> FoldModels:
    """Train `count` models, each without the rows of one fold. Labels of classes are 0, 1, 2 and so on."""
    has_classes = problem.parameters["task"] != "regression"
    fold_of_row = _drawn(problem.y, count, problem.seed, has_classes)
    group = problem.y if has_classes else np.zeros(len(problem.y), dtype=np.intp)
    parts: list[list[Array]] = [[] for _ in range(int(group.max()) + 1)]
    solutions = []
    for fold in range(count):
        seen, unseen = np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)
        weight = None if problem.weight is None else problem.weight[seen]
        solutions.append(train(replace(problem, X=problem.X[seen], y=problem.y[seen], weight=weight)))
        scores = _scores(problem.X[unseen], solutions[-1])
        if has_classes:
            strange = _strangeness(scores)[np.arange(len(unseen)), group[unseen]]
        else:
            strange = np.abs(problem.y[unseen] - scores)
        for place, part in enumerate(parts):
            part.append(np.sort(strange[group[unseen] == place]))
    return FoldModels(solutions, parts)


def _drawn(y: Array, count: int, seed: int, has_classes: bool) -> Array:
    """Draw the fold of each row: those of a job with the same seed. The rows of each class are spread evenly."""
    fewest = int(np.bincount(y).min()) if has_classes else len(y)
    if not 2 <= count <= fewest:
        things = "rows of the smallest class" if has_classes else "rows"
        raise ValueError(f"cross_validation={count} must be from 2 to the number of {things}, which is {fewest}")
    order = np.random.default_rng(seed).permutation(len(y))
    if has_classes:
        order = order[np.argsort(y[order], kind="stable")]
    fold_of_row = np.empty(len(y), dtype=np.intp)
    fold_of_row[order] = np.arange(len(y)) % count
    return fold_of_row


def _scores(X: Any, solution: Solution) -> Array:
    return np.asarray(X @ np.asarray(solution.coef).T) + solution.intercept


def _strangeness(scores: Array) -> Array:
    """Return how far the best other score exceeds that of each class: one column for each class."""
    if scores.ndim == 1:
        return np.column_stack([scores, -scores])
    others = [np.delete(scores, place, axis=1).max(axis=1) for place in range(scores.shape[1])]
    return np.column_stack(others) - scores


def _rank(coverage: float, parts: Sequence[Array]) -> int:
    """Return the number of held-out rows, from the least strange, that a candidate may be as strange as."""
    return math.ceil(Fraction(repr(float(coverage))) * (sum(map(len, parts)) + 1))
