"""One training after another for one job: the solver is called here and nowhere else."""

import time
from collections.abc import Callable

import solvers
from app.datasets.arrays import DatasetArrays
from app.jobs.refusals import solver_refusal
from app.worker.failures import PermanentFailure, Stopped
from app.worker.load import Work
from app.worker.problem import class_weight_of
from app.worker.progress import Progress
from app.worker.slot import StopReason


class Trainer:
    """Trains on chosen rows, `trainings` times in all, within the job's limits."""

    def __init__(
        self,
        work: Work,
        threads: int,
        trainings: int,
        progress: Progress,
        stop_reason: Callable[[], StopReason | None],
    ) -> None:
        self._work = work
        self._threads = threads
        self._left = trainings
        self._trainings = trainings
        self._progress = progress
        self._stop_reason = stop_reason
        self._started = time.monotonic()
        self._last: solvers.SolveResult | None = None

    def train(self, rows: DatasetArrays) -> solvers.SolveResult:
        """Raises PermanentFailure or Stopped if there is no result to go on with."""
        request = self._work.request
        self._progress.begin(self._trainings - self._left, self._trainings)
        arguments = {**request.solver_arguments(), "task": self._work.task, "max_seconds": self._seconds()}
        last = self._last
        if self.is_finishing and last is not None and last.coef.shape[-1] == rows.X.shape[1]:
            # of a fold: better than the first step from nothing
            arguments["warm_start"] = last.coef, last.intercept
        try:
            result = solvers.train(
                rows.X,
                rows.y,
                sample_weight=rows.weight,
                class_weight=class_weight_of(request.class_weight, rows),
                groups=rows.group if self._work.task == "ordinal" else None,
                threads=self._threads,
                callback=self._on_step,
                **arguments,
            )
        except solvers.SolverError as error:
            field, message = solver_refusal(error)
            raise PermanentFailure(type(error).__name__, f"{field}: {message}", field) from error
        self._check_not_stopped()
        if not result.converged and request.on_limit == "fail" and not self.is_finishing:
            raise PermanentFailure("not_converged", f"stopped by {result.status} before reaching tol", "stop")
        self._left -= 1
        self._last = result
        return result

    @property
    def is_finishing(self) -> bool:
        """Whether the client wants to have the model as it stands."""
        return self._stop_reason() == "finish"

    def _on_step(self, report: solvers.StepReport) -> bool:
        self._progress.report(report)
        self._check_not_stopped()
        return self.is_finishing

    def _check_not_stopped(self) -> None:
        reason = self._stop_reason()
        if reason is not None and reason != "finish":
            raise Stopped(reason)

    def _seconds(self) -> float | None:
        """What is left of the job's time, shared by the trainings that are left."""
        limit = self._work.request.stop.seconds
        if limit is None or self._trainings == 1:
            return limit
        return max(limit - (time.monotonic() - self._started), 1e-3) / self._left
