"""Progress of a search: its clock, its limits, and its reports to the caller.

Seconds are those of `solving_time`: compiling kernels does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solvers.linalg.clock import solving_time
from solvers.result import StepReport
from solvers.state import StoredState
from solvers.tuning.path import FoldSolve

__all__ = ["BestSoFar", "Progress", "Reporter", "Tried", "TuneProgress"]

REPORT_SECONDS = 0.5
"""Seconds between two reports within a training. Larger: less load, coarser progress. Set by hand; no measurement is
recorded."""


class Tried(NamedTuple):
    """The metric at one C over the folds that have tried it so far."""

    variant: int
    C: float
    values: tuple[float, ...]
    """The metric of each of these folds."""


BestSoFar = tuple[float, float, int]
"""C, the mean of the metric, and the variant."""


@dataclass(frozen=True)
class TuneProgress:
    """The progress of a search, after a training or within one."""

    phase: str
    """search, certify, outer (nested cross-validation) or refit"""
    progress: float
    """Fraction of the work that is done, from 0 to 1. In phase certify: the proven fraction of the range, in log C."""
    eta_seconds: float | None
    """Estimated remaining seconds if the progress continues at its mean rate so far; None: unknown."""
    trainings: int
    """Trainings of folds that are finished."""
    planned: int
    """Estimated number of fold trainings of the whole search; 0: unknown."""
    seconds: float
    C: float | None
    """The best C so far."""
    mean: float | None
    """The metric of that C."""
    variant: int | None
    """The variant of that C."""
    finished: FoldSolve | None = field(default=None, repr=False, compare=False)
    """The training that has just ended; None within a training."""
    tried: Tried | None = None
    """The metric so far at the C of `finished`; None within a training, and for trainings of nested folds."""
    step: StepReport | None = field(default=None, repr=False, compare=False)
    """The progress within the training that is running."""

    def stored(self) -> StoredState | None:
        """Return the finished training as a flat table. `resume_from` takes the tables of all finished trainings."""
        return None if self.finished is None else self.finished.stored(copy=False)


Progress = Callable[[TuneProgress], object]
"""Called after every training, and about twice a second within one; returning True ends the search."""


class Reporter:
    """Counts the trainings of a search and reports them to the caller."""

    def __init__(self, on_progress: Progress | None, max_seconds: float | None) -> None:
        self.is_stopped = False
        """Whether the caller ended the search."""
        self.phase = "search"
        self.planned = 0
        """Trainings that the search will ask for; 0: unknown."""
        self.trainings = 0
        self.share_done: Callable[[], float] | None = None
        """Returns the fraction of the proof that is complete; None: the progress counts trainings instead."""
        self.span = (0.0, 1.0)
        """The progress at the start and at the end of this phase."""
        self.best: Callable[[], BestSoFar | None] = lambda: None
        self._on_progress = on_progress
        self.max_seconds = max_seconds
        """Time limit of the search in seconds; None: no limit."""
        self._counted_from = 0
        self._began = self._reported = solving_time()

    @property
    def seconds(self) -> float:
        return solving_time() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Remaining seconds of the search's time limit; None: no limit."""
        return None if self.max_seconds is None else max(self.max_seconds - self.seconds, 1e-3)

    @property
    def is_over(self) -> bool:
        """Whether no more training may start: the caller ended the search, or its time is over."""
        return self.is_stopped or (self.max_seconds is not None and self.seconds >= self.max_seconds)

    @property
    def listener(self) -> Callable[[StepReport], bool] | None:
        """The callback of a training; None without `on_progress`."""
        return None if self._on_progress is None else self._hear

    def begin_training(self) -> None:
        self._reported = solving_time()

    def begin_outer(self, planned: int, progress: float) -> None:
        """Start the phase outer: `planned` more trainings, during which the progress rises from `progress` to 1."""
        self.share_done, self.span, self._counted_from = None, (progress, 1.0), self.trainings
        self.planned = self.trainings + planned

    def begin_refit(self) -> None:
        """Start the phase refit, the training on all rows. The caller can end it as well."""
        self.phase, self.is_stopped = "refit", False
        self.begin_training()

    def count(self, finished: FoldSolve, tried: Tried) -> None:
        """Count a training that has ended, and report it."""
        self.trainings += 1
        self._report(finished=finished, tried=None if self.phase == "outer" else tried)

    def _hear(self, step: StepReport) -> bool:
        """Report a step of the running training; return whether to stop it."""
        if solving_time() - self._reported >= REPORT_SECONDS:
            self._report(step=step)
        return self.is_stopped

    def _report(
        self, finished: FoldSolve | None = None, tried: Tried | None = None, step: StepReport | None = None
    ) -> None:
        self._reported = solving_time()
        if self._on_progress is None:
            return
        share, seconds = self._share(), self.seconds
        eta = seconds * (1.0 - share) / share if 0.0 < share < 1.0 and self.phase != "refit" else None
        C, mean, variant = self.best() or (None, None, None)
        answer = self._on_progress(
            TuneProgress(
                self.phase,
                share,
                eta,
                self.trainings,
                self.planned,
                seconds,
                C,
                mean,
                variant,
                finished,
                tried,
                step,
            )
        )
        self.is_stopped = self.is_stopped or (isinstance(answer, bool | np.bool_) and bool(answer))

    def _share(self) -> float:
        """Return the part of the search that is done."""
        if self.phase == "refit":
            return 1.0
        if self.share_done is not None:
            done = self.share_done()
        else:
            expected = self.planned - self._counted_from
            done = (self.trainings - self._counted_from) / expected if expected > 0 else 0.0
        return min(1.0, self.span[0] + done * (self.span[1] - self.span[0]))
