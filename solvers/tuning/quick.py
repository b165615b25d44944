"""`choose_c`: a short search for C, for a training that names none.

The first fold tries a value of C for each factor of 10, in ascending order, until the metric has worsened twice. Then
it tries finer values around the best one. The other folds try only the values around the best. So every fold is
prepared once. Large values of C take longest; they are tried only while the metric improves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.problem.labels import Labels
from solvers.tuning.costs import Costs, spaced
from solvers.tuning.curve import Scorer, read_metric
from solvers.tuning.fold_work import FoldWork, Request
from solvers.tuning.folds import read_folds
from solvers.tuning.outcome import Trial, deviation
from solvers.tuning.path import FoldSolve
from solvers.tuning.reports import Progress, Reporter
from solvers.tuning.source import Prepare, read_source
from solvers.tuning.variants import read_variants, trainings_of

__all__ = ["ChosenC", "choose_c"]

FOLDS = 3
COARSE_STEPS, FINE_STEPS = 1, 4
"""Values of C per factor of 10: first over the whole range, then between the neighbours of the best. Larger: a finer
search, more trainings. On 13 real sets, three splits each, the error on held-out rows was on average 0.06 standard
errors below that of the full search with 5 folds, and at most 0.29 above (docs/benchmarks/tuning.md)."""
WORSE_VALUES = 2
"""The first fold stops its ascent after this many values of C in a row that are not better than the best. Larger: more
trainings at large C, which take longest. 3 changed the error on held-out rows on 1 of 14 sets, by 0.15 standard
errors; counting only values that are worse changed none."""
SEARCH_TOL = 1e-2
"""Relative gap of the trainings, if the request's own is smaller. Smaller: more precise scores, longer trainings. The
figures of COARSE_STEPS were measured with it."""
LEAST_SECONDS = 2.0
"""Seconds that a search can always use, even if MOST_TRAININGS trainings take less. Larger: longer searches on small
data. Set by hand; no measurement is recorded."""
MOST_TRAININGS = 5.0
"""Maximum time of the search, in multiples of one training on all rows at the best C. Larger: more folds on large data,
longer searches. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class ChosenC:
    """A value of C and why it was chosen."""

    C: float
    reason: str
    trials: tuple[Trial, ...]
    """Trials by C; empty if there were no folds. Some trials can have fewer folds than others."""
    metric: str
    folds: int
    """Folds that tried every candidate."""
    seconds: float


def choose_c(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
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
    """Choose C by a short cross-validation; the arguments are those of `tune`."""
    reporter = Reporter(on_progress, None)  # starts the clock, so that reading the rows counts
    source = read_source(
        X, y, problem.get("task", "auto"), sample_weight=sample_weight, query_groups=query_groups, prepare=prepare
    )
    definitions = read_variants(None, problem)
    settings = {"solver": solver, "seed": seed, "threads": threads, "options": options}
    trainings = trainings_of(definitions, source.labels, **settings)
    task = trainings[0].spec(source.labels).task
    chosen = read_metric(metric, task)
    count = _possible_folds(source.labels, groups)
    if count < 2:
        data = source.data if source.data is not None else source.whole(0).data
        C = 1.0 / (data.mean_squared_norm() or 1.0)
        reason = "too few rows of a class or too few groups to hold any out: C is 1 / mean |x|^2"
        return ChosenC(C, reason, (), chosen.name, 0, 0.0)
    folds = read_folds(count, source.labels, groups=groups, repeats=1, seed=seed, has_ranks=task == "ordinal")
    work = FoldWork(trainings, source, folds, chosen, reporter, {})
    reporter.best = work.best_so_far
    search = _QuickSearch(work, max(tol, SEARCH_TOL), -1.0 if chosen.is_higher_better else 1.0)
    search.run()
    return search.chosen()


class _QuickSearch:
    def __init__(self, work: FoldWork, tol: float, sign: float) -> None:
        self._work, self._tol, self._sign = work, tol, sign
        self._candidates: list[float] = []
        self._complete = 0
        """Folds that tried every candidate."""
        self._copying = 0.0
        """Seconds of the first fold without its trainings."""

    def run(self) -> None:
        costs = Costs.auto(self._work.path(0, 0).subject.data.mean_squared_norm() or 1.0)
        coarse = spaced(*costs.ends, COARSE_STEPS)
        self._work.reporter.planned = 3 * len(coarse) * len(self._work.folds) // 2
        best = self._ascend(coarse)
        place = coarse.index(best)
        ends = coarse[max(0, place - 1)], coarse[min(len(coarse) - 1, place + 1)]
        tried = self._work.of_fold(0, 0)
        for C in spaced(*ends, FINE_STEPS):
            if self._has_time and all(abs(C / one - 1.0) > 1e-6 for one in tried):
                self._train(0, C)
        self._candidates = sorted(C for C in tried if ends[0] <= C <= ends[1])
        self._complete = 1
        for fold in range(1, len(self._work.folds)):
            if self._work.reporter.seconds + self._expected() > self._limit():
                break
            for C in self._candidates:
                if not self._has_time or not self._train(fold, C):
                    return  # the time is over, or the caller has ended the search
            self._complete += 1

    def chosen(self) -> ChosenC:
        """Return the candidate with the best mean over the folds that tried all of them; of equal ones the smallest."""
        work, folds = self._work, self._complete
        means = {C: float(np.mean([self._value(fold, C) for fold in range(folds)])) for C in self._candidates}
        best = min(means, key=lambda C: (self._sign * means[C], C))
        tried = sorted(work.of_fold(0, 0))
        reason = f"it has the best {work.metric.name}, {means[best]:.4g}, of {len(tried)} values of C on {folds} folds"
        trials = tuple(self._trial(C) for C in tried)
        return ChosenC(best, reason, trials, work.metric.name, folds, work.reporter.seconds)

    def _ascend(self, values: Sequence[float]) -> float:
        """Try values in ascending order on the first fold; return the best."""
        best, worse = values[0], 0
        self._train(0, best)
        for C in values[1:]:
            if not self._has_time or worse >= WORSE_VALUES or not self._train(0, C):
                break
            is_better = self._sign * (self._value(0, C) - self._value(0, best)) < 0.0
            best, worse = (C, 0) if is_better else (best, worse + 1)
        return best

    @property
    def _has_time(self) -> bool:
        return self._work.reporter.seconds < self._limit()

    def _expected(self) -> float:
        """Return the seconds that one more fold probably takes: its copy of the rows, a training that has no neighbour
        to start from, and the candidates."""
        tried = self._work.of_fold(0, 0)
        if self._complete == 1:
            self._copying = self._work.reporter.seconds - sum(solve.seconds for solve in tried.values())
        cold = next(iter(tried.values())).seconds
        return self._copying + cold + sum(tried[C].seconds for C in self._candidates)

    def _train(self, fold: int, C: float) -> bool:
        """Train a fold at C, unless the caller has ended the search; return whether it was trained."""
        self._work.run([Request(0, fold, C, self._tol)])
        return C in self._work.of_fold(0, fold)

    def _limit(self) -> float:
        """Return the seconds of the whole search: a fold trains on fewer rows than the model will."""
        found = self._work.of_fold(0, 0)
        best = min(found, key=lambda C: (self._sign * self._value(0, C), C))
        share = 1.0 - 1.0 / len(self._work.folds)
        return max(LEAST_SECONDS, MOST_TRAININGS * found[best].seconds / share)

    def _value(self, fold: int, C: float) -> float:
        return self._work.value(self._work.of_fold(0, fold)[C])

    def _trial(self, C: float) -> Trial:
        solves: list[FoldSolve] = self._work.at(0, C)
        values = tuple(self._work.value(solve) for solve in solves)
        gap, seconds = max(solve.relative_gap for solve in solves), sum(solve.seconds for solve in solves)
        return Trial(C, float(np.mean(values)), deviation(values), values, None, None, gap, seconds, 0)


def _possible_folds(labels: Labels, groups: Any) -> int:
    """Return how many folds the rows allow, at most FOLDS."""
    if groups is not None:
        return min(FOLDS, len(np.unique(groups)))
    if labels.values is not None:
        return min(FOLDS, labels.n_rows)
    return min(FOLDS, int(np.bincount(labels.codes, minlength=len(labels.classes)).min()))
