"""Runs the trainings of a search, fold by fold, and keeps their results.

A training that an earlier run finished is looked up instead. With the same arguments the search requests the same
trainings in the same order, so a killed search loses only the training that was running.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.result import StepReport
from solvers.state import StoredState
from solvers.tuning.bounds import Judged
from solvers.tuning.curve import Metric
from solvers.tuning.folds import Fold
from solvers.tuning.path import FoldPath, FoldSolve, Subject, Training

__all__ = ["FoldWork", "Progress", "Request", "TuneProgress"]

KEPT_BYTES = 64 << 20
"""Bytes of copied rows of folds that are kept besides those in use. Larger: fewer copies for searches that visit the
folds in turn, more memory."""
REPORT_SECONDS = 0.5
"""Seconds between two reports within a training. Larger: less load, coarser progress. Chosen."""


@dataclass(frozen=True)
class TuneProgress:
    """The progress of a search, after a training or within one."""

    phase: str
    """search, certify or refit"""
    progress: float
    """The part of the work that is done, from 0 to 1; while certifying, the part of the range (in log C) that is."""
    eta_seconds: float | None
    """Seconds that are left, if trainings keep taking as long as so far; None: unknown."""
    trainings: int
    """Trainings of folds that are finished."""
    seconds: float
    C: float | None
    """The best C so far."""
    mean: float | None
    """The metric of that C."""
    finished: FoldSolve | None = field(default=None, repr=False, compare=False)
    """The training that has just ended; None within a training."""
    step: StepReport | None = field(default=None, repr=False, compare=False)
    """The progress within the training that is running."""

    def stored(self) -> StoredState | None:
        """Return the finished training as a flat table. `resume_from` takes the tables of all finished trainings."""
        return None if self.finished is None else self.finished.stored(copy=False)


Progress = Callable[[TuneProgress], object]
"""Called after every training, and about twice a second within one; returning True ends the search."""


class Request(NamedTuple):
    """One training to do."""

    fold: int
    C: float
    tol: float
    wanted: Floats | None = None
    """For each part, the gap that bounds can use."""


class FoldWork:
    """The trainings of all folds."""

    def __init__(
        self,
        training: Training,
        whole: Subject,
        folds: Sequence[Fold],
        metric: Metric,
        *,
        with_ends: bool,
        on_progress: Progress | None,
        max_seconds: float | None,
        resume_from: Iterable[Mapping[str, Any]] | None,
    ) -> None:
        self.training, self.whole, self.folds, self.metric = training, whole, folds, metric
        self.with_ends = with_ends
        self.is_stopped = False
        """Whether the caller ended the search."""
        self.phase = "search"
        self.share_done: Callable[[], float] = lambda: 0.0
        self.planned = 0
        """Trainings that the search will ask for; 0: unknown."""
        self.trainings = 0
        self._by_fold: list[dict[float, FoldSolve]] = [{} for _ in folds]
        self._values: dict[tuple[int, float], float] = {}
        self._paths: dict[int, FoldPath] = {}
        self._judged: dict[int, Judged] = {}
        self._on_progress = on_progress
        self._began = self._reported = time.monotonic()
        self._max_seconds = max_seconds
        self._earlier = {_key(one): one for one in map(FoldSolve.read, resume_from or ())}
        for one in self._earlier.values():
            if not 0 <= one.fold < len(folds) or one.scores.shape[0] != folds[one.fold].held_out.size:
                raise InvalidOptions(
                    "resume_from", "contains a training of other folds; give the tables of the same search"
                )

    @property
    def are_joint(self) -> bool:
        """Whether the classes of one training share one ball."""
        spec = self.training.spec(self.whole)
        return spec.task == "multiclass" and spec.strategy != "ovr"

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        """Whether no more training may start: the caller ended the search, or its time is over."""
        return self.is_stopped or (self._max_seconds is not None and self.seconds >= self._max_seconds)

    def of_fold(self, fold: int) -> dict[float, FoldSolve]:
        """Return the trainings of a fold by C."""
        return self._by_fold[fold]

    def at(self, C: float) -> list[FoldSolve]:
        """Return the trainings at C, in order of the folds."""
        return [found[C] for found in self._by_fold if C in found]

    def is_complete(self, C: float) -> bool:
        return all(C in found for found in self._by_fold)

    def path(self, fold: int) -> FoldPath:
        """Return the rows of a fold. The rows of other folds stay in memory only if they are small."""
        if fold not in self._paths:
            if sum(path.nbytes for path in self._paths.values()) > KEPT_BYTES:
                self._paths.clear()
            uses_differences = self.metric.uses_differences
            self._paths[fold] = FoldPath(self.training, self.whole, self.folds[fold], uses_differences=uses_differences)
            self._judged[fold] = self._paths[fold].held_out.judged
        return self._paths[fold]

    def judged(self, fold: int) -> Judged:
        """Return what bounds need of the held-out rows of a fold; no copy of their entries is made for it twice."""
        if fold not in self._judged:
            self.path(fold)
        return self._judged[fold]

    def run(self, requests: Iterable[Request]) -> bool:
        """Run these trainings, fold by fold and with rising C; return False if the search ended before all were
        done."""
        for request in sorted(requests, key=lambda one: (one.fold, one.C)):
            if self.is_over and self.trainings > 0:
                return False
            found = self._earlier.get((request.fold, request.C, request.tol))
            if found is None or (self.with_ends and not found.has_ends):
                found = self._solve(request)
                if self.is_over and self.trainings > 0 and found.relative_gap > request.tol:
                    return False  # it was cut short: a search that is resumed does it again
            self._by_fold[request.fold][request.C] = found
            truth = self.whole.truth[self.folds[request.fold].held_out]
            self._values[request.fold, request.C] = self.metric.value(found.scores, truth)
            self.trainings += 1
            self._report(finished=found)
        return not self.is_over

    def forget_vectors(self, needed: set[float]) -> None:
        """Drop the weights of trainings at all other C."""
        nothing = np.empty((1, 0))
        for found in self._by_fold:
            for C, one in found.items():
                if C not in needed and one.coef.size:
                    one.coef = np.empty(0)
                    one.ends.weights = one.ends.dual_weights = nothing

    def value(self, solve: FoldSolve) -> float:
        """Return the metric of a training on its held-out rows."""
        return self._values[solve.fold, solve.C]

    def begin_refit(self) -> None:
        """Report from now on as the training of all rows, which the caller can end too."""
        self.phase, self.is_stopped, self._reported = "refit", False, time.monotonic()

    def hear(self, step: StepReport) -> bool:
        """Report a step of the running training; return whether to stop it."""
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._report(step=step)
        return self.is_stopped

    def _solve(self, request: Request) -> FoldSolve:
        self._reported = time.monotonic()
        left = None if self._max_seconds is None else max(self._max_seconds - self.seconds, 1e-3)
        return self.path(request.fold).solve(
            request.C,
            request.tol,
            neighbours=self._neighbours(request.fold, request.C),
            wanted=request.wanted,
            with_ends=self.with_ends,
            max_seconds=left,
            callback=self.hear if self._on_progress is not None else None,
        )

    def _neighbours(self, fold: int, C: float) -> list[FoldSolve]:
        """Return the trainings of the fold at C itself, or at the next smaller and larger C."""
        found = self._by_fold[fold]
        if C in found and found[C].coef.size:
            return [found[C]]
        known = sorted(one for one, solve in found.items() if solve.coef.size)
        place = bisect_left(known, C)
        return [found[one] for one in known[max(0, place - 1) : place + 1]]

    def _report(self, finished: FoldSolve | None = None, step: StepReport | None = None) -> None:
        self._reported = time.monotonic()
        if self._on_progress is None:
            return
        share = self.trainings / self.planned if self.planned else self.share_done()
        seconds = self.seconds
        eta = seconds * (1.0 - share) / share if 0.0 < share <= 1.0 else None
        best = self.best_so_far()
        answer = self._on_progress(
            TuneProgress(
                self.phase,
                min(share, 1.0),
                eta,
                self.trainings,
                seconds,
                None if best is None else best[0],
                None if best is None else best[1],
                finished,
                step,
            )
        )
        self.is_stopped = self.is_stopped or (isinstance(answer, bool | np.bool_) and bool(answer))

    def best_so_far(self) -> tuple[float, float] | None:
        """Return the C with the best mean metric, and that mean; see `means`."""
        means = self.means()
        if not means:
            return None
        pick = max if self.metric.is_higher_better else min
        best = pick(means, key=lambda C: means[C])
        return best, means[best]

    def means(self) -> dict[float, float]:
        """Return the mean of the metric for each C.

        A search that ended early can have trained some C on fewer folds than others. Means over different folds are not
        comparable, so only the C with the most folds are included.
        """
        counts: dict[float, int] = {}
        for found in self._by_fold:
            for C in found:
                counts[C] = counts.get(C, 0) + 1
        most = max(counts.values(), default=0)
        return {
            C: float(np.mean([self.value(solve) for solve in self.at(C)]))
            for C, count in sorted(counts.items())
            if count == most
        }


def _key(solve: FoldSolve) -> tuple[int, float, float]:
    return solve.fold, solve.C, solve.tol
