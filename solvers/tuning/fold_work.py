"""Runs the trainings of a search, fold by fold, and keeps their results.

A training that an earlier run of the search finished is not repeated: its result is looked up. With the same arguments
the search requests the same trainings in the same order, so a killed search loses only the training that was running.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from solvers.linalg.types import Floats
from solvers.tuning.bounds import Judged
from solvers.tuning.curve import Metric
from solvers.tuning.folds import Fold
from solvers.tuning.path import FoldPath, FoldSolve, Training
from solvers.tuning.reports import BestSoFar, Reporter, Tried
from solvers.tuning.source import FoldRows, Source

__all__ = ["Earlier", "FoldWork", "Request", "TrainingKey", "key_of"]

KEPT_BYTES = 64 << 20
"""Maximum bytes of prepared rows that are cached for folds other than the current one. Larger: fewer copies for
searches that visit the folds in turn, more memory. Set by hand; no measurement is recorded."""

TrainingKey = tuple[int, int, int, float, float]
"""Outer fold, variant, fold, C and tolerance: no two trainings of a search share all of them."""
Earlier = Mapping[TrainingKey, FoldSolve]
"""Trainings that an earlier run of the same search finished."""


class Request(NamedTuple):
    """One training to do."""

    variant: int
    fold: int
    C: float
    tol: float
    wanted: Floats | None = None
    """For each part, the gap that bounds can use."""


class FoldWork:
    """The trainings of all folds and variants."""

    def __init__(
        self,
        trainings: Sequence[Training],
        source: Source,
        folds: Sequence[Fold],
        metric: Metric,
        reporter: Reporter,
        earlier: Earlier,
        *,
        shares_rows: bool = False,
    ) -> None:
        """`shares_rows`: all variants are trained on the rows that `prepare` makes for variant 0."""
        self.trainings, self.source, self.folds, self.metric = trainings, source, folds, metric
        self.reporter = reporter
        self.with_ends = False
        """Whether trainings keep what bounds need."""
        self._earlier = earlier
        self._shares_rows = shares_rows or source.prepare is None
        self._found: dict[tuple[int, int], dict[float, FoldSolve]] = {
            (variant, fold): {} for variant in range(len(trainings)) for fold in range(len(folds))
        }
        self._values: dict[tuple[int, int, float], float] = {}
        self._rows: dict[tuple[int, int], FoldRows] = {}
        self._paths: dict[tuple[int, int], FoldPath] = {}
        self._judged: dict[tuple[int, int], Judged] = {}
        self._current: FoldPath | None = None

    @property
    def is_over(self) -> bool:
        """Whether no more training may start."""
        return self.reporter.is_over

    def of_fold(self, variant: int, fold: int) -> dict[float, FoldSolve]:
        """Return the trainings of a fold by C."""
        return self._found[variant, fold]

    def at(self, variant: int, C: float) -> list[FoldSolve]:
        """Return the trainings at C, in order of the folds."""
        every = (self._found[variant, fold] for fold in range(len(self.folds)))
        return [found[C] for found in every if C in found]

    def is_complete(self, variant: int, C: float) -> bool:
        return len(self.at(variant, C)) == len(self.folds)

    def path(self, variant: int, fold: int) -> FoldPath:
        """Return the trainings of a fold with its rows. The rows of other folds stay in memory only if they are
        small."""
        if (variant, fold) not in self._paths:
            self._paths[variant, fold] = FoldPath(
                self.trainings[variant], self._rows_of(variant, fold), uses_differences=self.metric.uses_differences
            )
            self._judged[variant, fold] = self._paths[variant, fold].held_out.judged
        return self._paths[variant, fold]

    def judged(self, variant: int, fold: int) -> Judged:
        """Return the figures of a fold's held-out rows that the bounds need. They are computed once."""
        if (variant, fold) not in self._judged:
            self.path(variant, fold)
        return self._judged[variant, fold]

    def run(self, requests: Iterable[Request]) -> bool:
        """Run these trainings, fold by fold, variant by variant and with rising C; return False if the search ended
        before all were done."""
        reporter = self.reporter
        for request in sorted(requests, key=lambda one: (one.fold, one.variant, one.C)):
            if self.is_over and reporter.trainings > 0:
                return False
            fold = self.folds[request.fold]
            found = self._earlier.get((fold.outer, request.variant, fold.number, request.C, request.tol))
            if found is None or (self.with_ends and not found.has_ends):
                found = self._solve(request)
                if self.is_over and reporter.trainings > 0 and found.relative_gap > request.tol:
                    return False  # the training was cut short: a resumed search repeats it
            self._found[request.variant, request.fold][request.C] = found
            value = self.metric.figure(found.scores, self.source.truth[fold.held_out], fold.held_out)
            self._values[request.variant, fold.number, request.C] = value
            solves = self.at(request.variant, request.C)
            reporter.count(found, Tried(request.variant, request.C, tuple(map(self.value, solves))))
        return not self.is_over

    def forget_vectors(self, needed: set[tuple[int, float]], *, keep_models: bool) -> None:
        """Drop the vectors of trainings at all other (variant, C); `keep_models`: keep the weights of the models."""
        nothing = np.empty((1, 0))
        for (variant, _), found in self._found.items():
            for C, one in found.items():
                if (variant, C) not in needed and one.ends.weights.size:
                    one.ends.weights = one.ends.dual_weights = nothing
                    if not keep_models:
                        one.coef = np.empty(0)

    def value(self, solve: FoldSolve) -> float:
        """Return the metric of a training on its held-out rows."""
        return self._values[solve.variant, solve.fold, solve.C]

    def best_so_far(self) -> BestSoFar | None:
        """Return the C with the best mean metric, that mean and the variant; see `means`."""
        means = self.means()
        if not means:
            return None
        pick = max if self.metric.is_higher_better else min
        best = pick(means, key=lambda one: means[one])
        return best[1], means[best], best[0]

    def means(self) -> dict[tuple[int, float], float]:
        """Return the mean of the metric for each (variant, C).

        A search that ended early can have trained some C on fewer folds than others. Means over different folds are not
        comparable, so only the C with the most folds are included.
        """
        counts: dict[tuple[int, float], int] = {}
        for (variant, _), found in self._found.items():
            for C in found:
                counts[variant, C] = counts.get((variant, C), 0) + 1
        most = max(counts.values(), default=0)
        return {
            one: math.fsum(self.value(solve) for solve in self.at(*one)) / count
            for one, count in sorted(counts.items())
            if count == most
        }

    def _rows_of(self, variant: int, fold: int) -> FoldRows:
        key = (0 if self._shares_rows else variant), fold
        if key not in self._rows:
            if sum(rows.nbytes for rows in self._rows.values()) > KEPT_BYTES:
                self._rows.clear()
                self._paths.clear()
            self._rows[key] = self.source.rows_of(self.folds[fold], key[0])
        return self._rows[key]

    def _solve(self, request: Request) -> FoldSolve:
        self.reporter.begin_training()
        path = self.path(request.variant, request.fold)
        if self._current is not path:
            if self._current is not None:
                self._current.forget_state()  # keep one state at a time: a state can be as large as the rows
            self._current = path
        return path.solve(
            request.C,
            request.tol,
            neighbours=self._neighbours(request),
            wanted=request.wanted,
            with_ends=self.with_ends,
            max_seconds=self.reporter.seconds_left,
            callback=self.reporter.listener,
        )

    def _neighbours(self, request: Request) -> list[FoldSolve]:
        """Return the trainings of the fold at C itself, or at the next smaller and larger C."""
        found, C = self._found[request.variant, request.fold], request.C
        if C in found and found[C].coef.size:
            return [found[C]]
        known = sorted(one for one, solve in found.items() if solve.coef.size)
        place = bisect_left(known, C)
        return [found[one] for one in known[max(0, place - 1) : place + 1]]


def key_of(solve: FoldSolve) -> TrainingKey:
    return solve.outer, solve.variant, solve.fold, solve.C, solve.tol
