"""`choose_c`: a short search for C, and for the best of a few variants, for a training that names none.

The first fold tries a value of C for each factor of 10, in ascending order, until the metric has worsened twice. Then
it tries finer values around the best one. The other folds try only the values around the best. So every fold is
prepared once. Large values of C take longest; they are tried only while the metric improves. On small data every fold
tries every value.

Several variants (a loss or a strategy each) share the folds and their rows. The first fold decides which of them the
other folds try: those whose error is within one standard error of the best.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.linalg.types import Array, Floats
from solvers.problem.labels import Labels
from solvers.tuning.costs import Costs, spaced
from solvers.tuning.curve import Scorer, read_metric
from solvers.tuning.fold_work import FoldWork, Request
from solvers.tuning.folds import read_folds
from solvers.tuning.outcome import Trial, deviation
from solvers.tuning.path import FoldSolve, Training
from solvers.tuning.reports import Progress, Reporter
from solvers.tuning.source import Prepare, read_source
from solvers.tuning.variants import read_variants, trainings_of

__all__ = ["ChosenC", "choose_c"]

FOLDS = 5
"""Folds of the search. Larger: more trainings, a less random choice. On 23 real sets of two classes, six splits each,
the accuracy on test rows was 0.14 points higher with 5 folds than with 3."""
COARSE_STEPS, FINE_STEPS = 1, 2
"""Values of C per factor of 10: first over the whole range, then between the neighbours of the best. Larger: a finer
search, more trainings. The figure of FOLDS was measured with 2 values everywhere."""
SMALL_ENTRIES = 200_000
"""Stored entries times classes up to which every fold tries every value of C, FINE_STEPS per factor of 10: there the
first fold is too small to decide alone. Larger: more trainings on more sets. Set by hand; no measurement is
recorded."""
WORSE_VALUES = 2
"""The first fold stops its ascent after this many values of C in a row that are not better than the best. Larger: more
trainings at large C, which take longest. 3 changed the error on held-out rows on 1 of 14 sets, by 0.15 standard
errors."""
LESS_LOSS = 0.99
"""A value of C with the same error counts as better if its loss on the held-out rows is at most this share of the best
one's: with rare classes, small values of C all predict the frequent class. Smaller: the ascent ends earlier."""
MOST_JOINT_C = 10.0
"""Largest C for classes that are trained jointly with a hinge loss, in units of 1 / mean |x_i|^2. Larger: at 100
trainings take 7 to 26 times as long (letter, covtype, connect_4), and the accuracy on test rows changes by at most 0.3
points."""
SEARCH_TOL = 1e-2
"""Relative gap of the trainings, if the request's own is smaller. Smaller: more precise scores, longer trainings."""
LEAST_SECONDS = 2.0
"""Seconds that a search can always use, even if MOST_TRAININGS trainings take less. Larger: longer searches on small
data. Set by hand; no measurement is recorded."""
MOST_TRAININGS = 5.0
"""Maximum time of the search, in multiples of one training on all rows at the best C. Larger: more folds on large data,
longer searches. Set by hand; no measurement is recorded."""

Place = tuple[int, float]
"""A variant and a value of C."""


@dataclass(frozen=True)
class ChosenC:
    """A value of C and why it was chosen."""

    C: float
    reason: str
    trials: tuple[Trial, ...]
    """Trials by variant and C; empty if there were no folds. Some trials can have fewer folds than others."""
    metric: str
    folds: int
    """Folds that tried every candidate."""
    seconds: float
    variant: int = 0
    """The number of the chosen variant."""
    best: tuple[float | None, ...] = ()
    """For each variant the best mean of the metric, over the folds that tried it; None: it was not tried."""


def choose_c(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    variants: Sequence[Mapping[str, Any]] | None = None,
    prepare: Prepare | None = None,
    groups: Any = None,
    metric: str | Scorer | None = None,
    sample_weight: Any = None,
    query_groups: Any = None,
    tol: float = 1e-3,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    on_progress: Progress | None = None,
    **problem: Any,
) -> ChosenC:
    """Choose C, and one of the `variants`, by a short cross-validation; the arguments are those of `tune`.

    `prepare` is called once for each fold, with variant 0: all variants are trained on the same rows.
    """
    reporter = Reporter(on_progress, None)  # starts the clock, so that reading the rows counts
    source = read_source(
        X, y, problem.get("task", "auto"), sample_weight=sample_weight, query_groups=query_groups, prepare=prepare
    )
    definitions = read_variants(variants, problem)
    settings = {"solver": solver, "seed": seed, "threads": threads, "options": options}
    trainings = trainings_of(definitions, source.labels, **settings)
    task = trainings[0].spec(source.labels).task
    chosen = read_metric(metric, task)
    count = _possible_folds(source.labels, groups, has_ranks=task == "ordinal")
    if count < 2:
        data = source.data if source.data is not None else source.whole(0).data
        C = 1.0 / (data.mean_squared_norm() or 1.0)
        reason = "too few rows of a class or too few groups to hold any out: C is 1 / mean |x|^2"
        return ChosenC(C, reason, (), chosen.name, 0, 0.0, 0, (None,) * len(trainings))
    folds = read_folds(count, source.labels, groups=groups, repeats=1, seed=seed, has_ranks=task == "ordinal")
    work = FoldWork(trainings, source, folds, chosen, reporter, {}, shares_rows=True)
    reporter.best = work.best_so_far
    search = _QuickSearch(work, max(tol, SEARCH_TOL), -1.0 if chosen.is_higher_better else 1.0)
    search.run()
    return search.chosen()


class _QuickSearch:
    def __init__(self, work: FoldWork, tol: float, sign: float) -> None:
        self._work, self._tol, self._sign = work, tol, sign
        self._candidates: dict[int, list[float]] = {}
        """Values of C that all folds try, by variant."""
        self._complete = 0
        """Folds that tried every candidate."""
        self._copying = 0.0
        """Seconds of the first fold without its trainings."""
        rows = work.path(0, 0).subject
        self._range = Costs.auto(rows.data.mean_squared_norm() or 1.0).ends
        self._is_small = rows.data.stored_entries * max(1, rows.labels.classes.size) <= SMALL_ENTRIES

    def run(self) -> None:
        grids = [self._grid(training) for training in self._work.trainings]
        most = len(self._work.folds) if self._is_small else 1 + len(self._work.folds) // 2
        self._work.reporter.planned = most * sum(map(len, grids))
        best: dict[int, float] = {}
        for variant, grid in enumerate(grids):
            if (found := self._ascend(variant, grid)) is not None:
                best[variant] = found
        for variant in self._rivals(best):
            self._candidates[variant] = self._around(variant, grids[variant], best[variant])
        self._complete = 1
        for fold in range(1, len(self._work.folds)):
            if self._work.reporter.seconds + self._expected() > self._limit():
                break
            if not all(self._train(fold, place) for place in self._places):
                return  # the time is over, or the caller has ended the search
            self._complete += 1

    def chosen(self) -> ChosenC:
        """Return the candidate with the best mean over the folds that tried all of them.

        A candidate's mean counts half, those of its neighbours a quarter each: neighbours are nearly the same model, so
        this averages over more held-out rows. Of equal ones the one with the smallest loss counts, then the smallest C.
        """
        work, folds = self._work, range(self._complete)
        best: dict[int, tuple[float, float, float]] = {}
        for variant, costs in self._candidates.items():
            means = self._sign * np.array([self._mean(variant, C, folds) for C in costs])
            smooth = _smoothed(means)
            losses = [math.fsum(self._loss(variant, fold, C) for fold in folds) for C in costs]
            place = min(range(len(costs)), key=lambda k: (round(float(smooth[k]), 9), losses[k], costs[k]))
            best[variant] = float(smooth[place]), float(means[place]), costs[place]
        variant = min(best, key=lambda one: best[one][:2])
        C, mean = best[variant][2], self._sign * best[variant][1]
        tried = sum(len(work.of_fold(one, 0)) for one in range(len(work.trainings)))
        reason = f"it has the best {work.metric.name}, {mean:.4g}, of {tried} trials on {self._complete} folds"
        trials = tuple(
            self._trial(one, value) for one in range(len(work.trainings)) for value in sorted(work.of_fold(one, 0))
        )
        of_variants = tuple(self._best_mean(one) for one in range(len(work.trainings)))
        return ChosenC(C, reason, trials, work.metric.name, self._complete, work.reporter.seconds, variant, of_variants)

    def _grid(self, training: Training) -> list[float]:
        low, high = self._range
        spec = training.spec(self._work.source.labels)
        if spec.task == "multiclass" and spec.strategy != "ovr" and spec.loss != "logistic":
            high = math.sqrt(low * high) * MOST_JOINT_C
        return spaced(low, high, FINE_STEPS if self._is_small else COARSE_STEPS)

    def _ascend(self, variant: int, values: Sequence[float]) -> float | None:
        """Try values in ascending order on the first fold; return the best. None: there was no time for any."""
        best, worse = None, 0
        for C in values:
            if worse >= WORSE_VALUES and not self._is_small:
                break
            if not self._train(0, (variant, C)):
                break
            if best is None or self._is_better((variant, C), (variant, best)):
                best, worse = C, 0
            else:
                worse += 1
        return best

    def _is_better(self, one: Place, other: Place) -> bool:
        """Return whether the first fold has a better metric at `one`, or the same metric and a smaller loss."""
        values = [self._sign * self._value(variant, 0, C) for variant, C in (one, other)]
        if values[0] != values[1]:
            return values[0] < values[1]
        return self._loss(one[0], 0, one[1]) < LESS_LOSS * self._loss(other[0], 0, other[1])

    def _rivals(self, best: Mapping[int, float]) -> list[int]:
        """Return the variants that the other folds try."""
        values = {variant: self._sign * self._value(variant, 0, C) for variant, C in best.items()}
        least = min(values.values())
        if self._work.metric.name != "error":
            return [variant for variant, value in values.items() if value == least][:1]
        rows = self._work.folds[0].held_out.size
        within = math.sqrt(max(least * (1.0 - least), 1.0 / rows) / rows)
        return [variant for variant, value in values.items() if value <= least + within]

    def _around(self, variant: int, grid: Sequence[float], best: float) -> list[float]:
        """Try finer values around the best on the first fold; return all values that the other folds try."""
        if self._is_small:
            return sorted(self._work.of_fold(variant, 0))
        place = grid.index(best)
        ends = grid[max(0, place - 1)], grid[min(len(grid) - 1, place + 1)]
        tried = self._work.of_fold(variant, 0)
        for C in spaced(*ends, FINE_STEPS):
            if all(abs(C / one - 1.0) > 1e-6 for one in tried):
                self._train(0, (variant, C))
        return sorted(C for C in tried if ends[0] <= C <= ends[1])

    @property
    def _places(self) -> list[Place]:
        return [(variant, C) for variant, costs in self._candidates.items() for C in costs]

    def _expected(self) -> float:
        """Return the seconds that one more fold probably takes: its copy of the rows, a training that has no neighbour
        to start from, and the candidates."""
        tried = [self._work.of_fold(variant, 0) for variant in range(len(self._work.trainings))]
        if self._complete == 1:
            spent = sum(solve.seconds for one in tried for solve in one.values())
            self._copying = self._work.reporter.seconds - spent
        cold = sum(next(iter(tried[variant].values())).seconds for variant in self._candidates)
        return self._copying + cold + sum(tried[variant][C].seconds for variant, C in self._places)

    def _train(self, fold: int, place: Place) -> bool:
        """Train a fold, unless the time is over or the caller has ended the search; return whether it was trained."""
        variant, C = place
        if self._work.reporter.trainings:
            self._work.reporter.max_seconds = self._limit()
        self._work.run([Request(variant, fold, C, self._tol)])
        return C in self._work.of_fold(variant, fold)

    def _limit(self) -> float:
        """Return the seconds of the whole search: a fold trains on fewer rows than the model will."""
        every = [solve for one in range(len(self._work.trainings)) for solve in self._work.of_fold(one, 0).values()]
        best = min(every, key=lambda solve: (self._sign * self._work.value(solve), solve.seconds))
        share = 1.0 - 1.0 / len(self._work.folds)
        return max(LEAST_SECONDS, MOST_TRAININGS * best.seconds / share)

    def _value(self, variant: int, fold: int, C: float) -> float:
        return self._work.value(self._work.of_fold(variant, fold)[C])

    def _mean(self, variant: int, C: float, folds: range) -> float:
        return float(np.mean([self._value(variant, fold, C) for fold in folds]))

    def _best_mean(self, variant: int) -> float | None:
        """Return the best mean of a variant: of its candidates, or of the first fold if the others did not try it."""
        if variant in self._candidates:
            means = [self._mean(variant, C, range(self._complete)) for C in self._candidates[variant]]
        else:
            means = [self._value(variant, 0, C) for C in self._work.of_fold(variant, 0)]
        return self._sign * min(self._sign * mean for mean in means) if means else None

    def _loss(self, variant: int, fold: int, C: float) -> float:
        """Return the mean loss of the held-out rows, to compare values of C with the same metric."""
        solve = self._work.of_fold(variant, fold)[C]
        if self._work.source.labels.values is not None:
            return 0.0
        return _mean_loss(solve.scores, self._work.source.truth[self._work.folds[fold].held_out])

    def _trial(self, variant: int, C: float) -> Trial:
        solves: list[FoldSolve] = self._work.at(variant, C)
        values = tuple(self._work.value(solve) for solve in solves)
        gap, seconds = max(solve.relative_gap for solve in solves), sum(solve.seconds for solve in solves)
        return Trial(C, float(np.mean(values)), deviation(values), values, None, None, gap, seconds, variant)


def _smoothed(values: Floats) -> Floats:
    """Return a weighted mean of each value and its neighbours: a half, and a quarter each."""
    padded = np.pad(values, 1, mode="edge")
    return np.asarray(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:])


def _mean_loss(scores: Floats, codes: Array) -> float:
    """Return the mean squared hinge loss; several classes: of the own class against the best other one."""
    if scores.ndim == 1:
        margins = np.where(codes == 1, scores, -scores)
    else:
        rows = np.arange(codes.size)
        others = scores.copy()
        others[rows, codes] = -np.inf
        margins = 0.5 * (scores[rows, codes] - others.max(axis=1))
    return float(np.mean(np.maximum(0.0, 1.0 - margins) ** 2))


def _possible_folds(labels: Labels, groups: Any, *, has_ranks: bool) -> int:
    """Return how many folds the rows allow, at most FOLDS. A class of one row is never held out."""
    if groups is not None:
        return min(FOLDS, len(np.unique(groups)))
    if labels.values is not None or has_ranks:
        return min(FOLDS, labels.n_rows)
    counts = np.bincount(labels.codes, minlength=len(labels.classes))
    return min(FOLDS, int(counts[counts > 1].sum()))
