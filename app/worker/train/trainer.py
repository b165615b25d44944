"""Runs the trainings of a job one after another. Only this module and app/worker/race.py call `solvers.train`.

An attempt that finds a checkpoint continues from it: results of finished trainings are read from their notes, and the
interrupted one is resumed. Limits count over all attempts; compiling kernels does not count.
"""

from dataclasses import replace
from typing import Any

import solvers
from app.datasets.arrays import DatasetArrays
from app.jobs.schemas import TrainingSpec
from app.jobs.validation.refusals import solver_refusal
from app.tabular.types import Array
from app.worker.failures import PermanentFailure, Stopped
from app.worker.train.checkpoints import Checkpoints, NoCheckpoints, Note
from app.worker.train.held_out import HeldOut
from app.worker.train.load import Work
from app.worker.train.progress import Progress
from app.worker.train.solver_arguments import training_arguments
from app.worker.worker_context import StopAsked
from solvers.linalg.clock import solving_time


class Trainer:
    """Runs `trainings` trainings within the limits of the job."""

    def __init__(
        self,
        work: Work,
        threads: int,
        trainings: int,
        progress: Progress,
        checkpoints: Checkpoints | NoCheckpoints,
        stop_reason: StopAsked,
    ) -> None:
        self._work = work
        self._threads = threads
        self._trainings = trainings
        self._number = 0
        self._notes: list[Note] = []
        self._progress = progress
        self._checkpoints = checkpoints
        self._stop_reason = stop_reason
        self._started: float | None = None
        self._model_of: Work | None = None
        self._held_out = HeldOut(None)
        self._last: solvers.SolveResult | None = None
        self._found = checkpoints.find()
        self.seconds_before = 0.0 if self._found is None else self._found.header.seconds
        """Seconds that earlier attempts used."""

    @property
    def is_finishing(self) -> bool:
        """Whether a client has requested to finish with the current model."""
        return self._stop_reason() == "finish"

    @property
    def is_resuming(self) -> bool:
        """Whether the next training is the interrupted one."""
        return self._found is not None and self._found.header.training == self._number

    def recall(self, trainings: int = 1) -> Note | None:
        """Return the next note of an earlier attempt, whose `trainings` then count as done; None: there is none."""
        if self._found is None or len(self._notes) >= len(self._found.notes):
            return None
        self.note(self._found.notes[len(self._notes)])
        self._number += trainings
        return self._notes[-1]

    def count(self, outcome: Note, trainings: int, seconds: float) -> None:
        """Store the result of trainings that ran elsewhere, and count them and their seconds."""
        self.note(outcome)
        self._number += trainings
        self.seconds_before += seconds

    def settle(self, request: TrainingSpec) -> None:
        """Use this request for all trainings from now on."""
        self._work = replace(self._work, request=request)

    def note(self, outcome: Note) -> None:
        """Store the result of the training that has just ended, so that later attempts need not repeat it."""
        self._notes.append(outcome)

    def train(
        self, rows: DatasetArrays, start: tuple[Array, float | Array] | None = None, *, model_of: Work | None = None
    ) -> solvers.SolveResult:
        """Train on these rows, starting from these weights. `model_of`: the work whose final model is trained; None:
        the model of a fold.

        Raises PermanentFailure or Stopped if there is no usable result.
        """
        if self._started is None:
            self._started = solving_time()
        self._model_of, self._held_out = model_of, HeldOut(model_of)
        self._progress.begin(self._number, self._trainings)
        try:
            result = self._solve(rows, start)
        except solvers.SolverError as error:
            field, code, message = solver_refusal(error)
            raise PermanentFailure(code, f"{field}: {message}", field) from error
        if (reason := self._stop_reason()) in ("cancel", "lost"):  # other requests wait for the result
            raise Stopped(reason)
        if not result.converged and self._work.request.on_limit == "fail" and not self.is_finishing:
            raise PermanentFailure(
                "not_converged",
                f"stopped ({result.status}) before reaching tol; raise the limits of stop, or loosen tol",
                "stop",
            )
        self._number += 1
        self._last = result
        return result

    def arguments(self, rows: DatasetArrays) -> dict[str, Any]:
        """Return the arguments of `solvers.train` for these rows, without the rows and the limits of time."""
        work = self._model_of or self._work
        return {**training_arguments(work, rows), "threads": self._threads}

    def _solve(self, rows: DatasetArrays, start: tuple[Array, float | Array] | None) -> solvers.SolveResult:
        arguments = {**self.arguments(rows), "max_seconds": self._seconds(), "callback": self._on_step}
        if self._found is not None and self.is_resuming:
            found, self._found = self._found, None
            limit = arguments["max_seconds"]
            resumed = {"max_seconds": None if limit is None else limit + found.seconds}
            self._progress.restore(found.header.model_dump())
            try:
                return solvers.train(rows.X, rows.y, **{**arguments, **resumed}, warm_start=found.state, resume=True)
            except solvers.InvalidOptions as error:
                if error.argument != "warm_start":
                    raise
                self._checkpoints.begin_anew(error.message)
        last = self._last
        if start is None and self.is_finishing and last is not None and last.coef.shape[-1] == rows.X.shape[1]:
            start = last.coef, last.intercept  # from another fold: better than starting from zero
        return solvers.train(rows.X, rows.y, **arguments, warm_start=start)

    def _on_step(self, report: solvers.StepReport) -> bool:
        self._progress.report(report, self._seconds_left(), self._held_out.error(report))
        reason = self._stop_reason()
        if reason in ("pause", "drain") or self._checkpoints.is_due:
            self._checkpoints.save(report, self._described(), self._notes, self._model_of)
        if reason is not None and reason != "finish":
            raise Stopped(reason)
        return reason == "finish"

    def _described(self) -> dict[str, Any]:
        """Return the state of the job for its checkpoint."""
        return {"training": self._number, "seconds": self._used_seconds(), **self._progress.record()}

    def _used_seconds(self) -> float:
        """Return the used seconds, without the time to compile or load kernels."""
        assert self._started is not None
        return self.seconds_before + solving_time() - self._started

    def _seconds_left(self) -> float | None:
        """Return the rest of the time limit in seconds; None: no limit."""
        limit = self._work.request.stop.seconds
        return None if limit is None else max(limit - self._used_seconds(), 0.0)

    def _seconds(self) -> float | None:
        """Return the seconds of the next training: the rest of the time limit, shared by the remaining trainings."""
        left = self._seconds_left()
        return None if left is None else max(left, 1e-3) / (self._trainings - self._number)
