"""Runs several solvers on the same rows at the same time, each in a thread of its own, until the first has converged.

Kernels release Python's global lock, so that the threads share the processors like separate processes would. A thread
only steps its solver and keeps its curve. The thread of the job reads requests, stores progress and interim models, and
stops the others (docs/adr/0031-a-race-runs-in-threads.md).
"""

import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Barrier, Event, Lock
from typing import Any

import numpy as np

import solvers
from app.db.job_state import StopReason
from app.errors import DatabaseUnavailable
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.schemas import TrainingSpec
from app.jobs.validation.refusals import solver_refusal
from app.jobs.validation.task import CLASS_TASKS
from app.storage.ownership import BlobsGone, reclaim
from app.tabular.types import Array
from app.worker.failures import PermanentFailure, Stopped
from app.worker.train.encode_model import encode_interim, encode_unfinished
from app.worker.train.held_out import HeldOut
from app.worker.train.load import Work
from app.worker.train.progress import MAX_TRACE_POINTS, eta_seconds, point_of, share_of_way, thinned
from app.worker.train.solver_arguments import training_arguments
from app.worker.worker_context import StopAsked, WorkerContext

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""Seconds between two checks for stop requests and finished solvers by the job's thread. Larger: later stops, less
load. Set by hand; no measurement is recorded."""
WRITE_EVERY_SECONDS = 0.5
"""Seconds between two writes of the progress. Larger: less load, later progress. Set by hand; no measurement is
recorded."""
FIRST_INTERIM_SECONDS = 1.0
"""Seconds of the race before the first interim model; each later interval is twice as long. Larger: clients can predict
later, fewer files are written. Set by hand; no measurement is recorded."""
REHEARSAL_ROWS = 64
"""Rows of the short trainings that load or compile the kernels of a solver before the race. Larger: a later start of
the race. Set by hand; no measurement is recorded."""
REHEARSAL_PASSES = 20
"""Maximum passes of these short trainings. Larger: a later start of the race, and kernels that solvers use rarely are
loaded as well. Set by hand; no measurement is recorded."""

Start = tuple[Array, float | Array] | None


@dataclass(eq=False)
class Racer:
    """One solver of a race: its request, its curve so far and its result."""

    name: str
    work: Work
    """The work with the request of this solver."""
    held_out: HeldOut
    points: list[dict[str, Any]] = field(default_factory=list)
    result: solvers.SolveResult | None = None
    refusal: solvers.SolverError | None = None
    """Why the solver could not run; None: it could."""
    test_error: float | None = None
    """Error of the result on the test rows; None unless this solver made the model."""

    @property
    def gap(self) -> float:
        """Return the certified relative gap of the result, or the last estimate of a running solver."""
        if self.result is not None:
            gap = self.result.certificate.relative_gap
        else:
            gaps = [point["relative_gap"] for point in self.points]
            gap = next((gap for gap in reversed(gaps) if gap is not None), None)
        return math.inf if gap is None else gap

    def curve(self, most: int) -> list[dict[str, Any]]:
        """Return at most this many points of the curve, and the certificate of a solver that has ended."""
        points = [{"solver": self.name, **point} for point in thinned(list(self.points), most)]
        if self.result is not None:
            last = point_of(self.result, self.result.certificate)
            points.append({"solver": self.name, **last, "test_error": self.test_error})
        return points

    def report(self) -> dict[str, Any]:
        """Return the racer's entry in the result of the job."""
        if self.result is None:
            status = {"status": "failed", "detail": None if self.refusal is None else self.refusal.message}
            nothing = ("seconds", "passes", "iterations", "relative_gap", "primal", "dual_bound")
            return {"solver": self.name, **status, **dict.fromkeys(nothing)}
        figures = point_of(self.result, self.result.certificate)
        return {"solver": self.name, "status": str(self.result.status), "detail": None, **figures}


class Race:
    """The solvers of a job on its prepared rows. `run` returns the winner."""

    def __init__(
        self,
        context: WorkerContext,
        claim: Claim,
        work: Work,
        trainings: Sequence[TrainingSpec],
        stop_reason: StopAsked,
        *,
        max_seconds: float | None,
        share_of_job: float = 1.0,
    ) -> None:
        """`max_seconds`: time limit of every solver. `share_of_job`: the job's progress when the race is over."""
        self._context, self._claim, self._work, self._stop_reason = context, claim, work, stop_reason
        self._max_seconds, self._share_of_job = max_seconds, share_of_job
        self._racers = [Racer(one.solver, replace(work, request=one), HeldOut(work)) for one in trainings]
        self._threads = max(1, context.threads // len(self._racers))
        self._most_points = MAX_TRACE_POINTS // 2
        self._over = Event()
        self._lock = Lock()
        self._finished: list[Racer] = []
        self._wants_model_of: Racer | None = None
        self._interim: bytes | None = None
        self._shown: Racer | None = None
        """The solver that has ended and whose result is the interim model."""
        self._progress = 0.0

    def run(self, start: Start) -> Racer:
        """Run all solvers until the first has converged; return the one with the model.

        Raises Stopped or PermanentFailure if there is no usable result.
        """
        self._rehearse()
        ready = Barrier(len(self._racers))
        with ThreadPoolExecutor(len(self._racers)) as pool:
            running = {pool.submit(self._solve, racer, start, ready) for racer in self._racers}
            everything = set(running)
            try:
                reason = self._watch(running)
            finally:
                self._over.set()
        for one in everything:
            one.result()  # raises an unexpected error of the thread
        if reason is not None and reason != "finish":
            raise Stopped(reason)
        return self._winner(is_finishing=reason == "finish")

    def final_figures(self, result: solvers.SolveResult, test_error: float | None = None) -> dict[str, Any]:
        """Return the columns of the finished job: the figures of the winner, and the curves of all."""
        for racer in self._racers:
            if racer.result is result:
                racer.test_error = test_error
        figures = {name: value for name, value in point_of(result, result.certificate).items() if name != "seconds"}
        return {**figures, "trace": self.curves()}

    def curves(self) -> list[dict[str, Any]]:
        """Return the points of all solvers in the order of time."""
        points = [point for racer in self._racers for point in racer.curve(self._most_points)]
        return sorted(points, key=lambda point: float(point["seconds"]))

    def reports(self) -> list[dict[str, Any]]:
        """Return the entry of each solver, in the order in which they ended: converged ones first."""
        return [racer.report() for racer in sorted(self._finished, key=_place)]

    def _rehearse(self) -> None:
        """Load the kernels of every solver, so that no solver compiles kernels while the others already run."""
        rows = self._work.train.rows(_sample(self._work))
        for racer in self._racers:
            limits = {"max_seconds": 1.0, "max_passes": REHEARSAL_PASSES, "tol": 1e-2}
            with suppress(solvers.SolverError):  # the race itself reports the error
                solvers.train(rows.X, rows.y, **{**training_arguments(racer.work, rows), **limits})
            if (reason := self._stop_reason()) is not None and reason != "finish":
                raise Stopped(reason)

    def _solve(self, racer: Racer, start: Start, ready: Barrier) -> None:
        """Run one solver, in its thread."""
        rows = self._work.train
        arguments = training_arguments(racer.work, rows)
        own = {"max_seconds": self._max_seconds, "threads": self._threads, "callback": partial(self._on_step, racer)}
        ready.wait()
        try:
            racer.result = solvers.train(rows.X, rows.y, **{**arguments, **own}, warm_start=start)
        except solvers.SolverError as error:
            racer.refusal = error
        except BaseException:
            self._over.set()  # the job fails: the others stop
            raise
        with self._lock:
            self._finished.append(racer)
            if racer.result is not None and racer.result.converged:
                self._over.set()

    def _on_step(self, racer: Racer, report: solvers.StepReport) -> bool:
        """Keep the figures of a step; return whether the solver must stop. Called in the racer's thread."""
        racer.points.append({**point_of(report, report), "test_error": racer.held_out.error(report)})
        if len(racer.points) > 2 * self._most_points:
            racer.points = thinned(racer.points, self._most_points)
        if self._wants_model_of is racer:
            self._interim = encode_interim(self._work, self._claim, report)
            self._wants_model_of = None
        return self._over.is_set()

    def _watch(self, running: set[Any]) -> StopReason | None:
        """Wait for the solvers. Stores progress and interim models, and returns why the race ended early, if it did."""
        next_write = time.monotonic() + WRITE_EVERY_SECONDS
        interval = min(FIRST_INTERIM_SECONDS, self._context.checkpoint_seconds)
        next_interim = time.monotonic() + interval
        reason: StopReason | None = None
        while running:
            _, running = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
            reason = self._stop_reason() or reason
            if reason is not None:
                self._over.set()
            if self._over.is_set():
                continue
            now = time.monotonic()
            if now >= next_write:
                self._store_progress()
                next_write = time.monotonic() + WRITE_EVERY_SECONDS
            if now >= next_interim:
                self._ask_for_interim(min(self._racers, key=lambda racer: racer.gap))
                interval = min(2.0 * interval, self._context.checkpoint_seconds)
                next_interim = now + interval
            if self._interim is not None:
                content, self._interim = self._interim, None
                self._store_interim(content)
        return reason

    def _ask_for_interim(self, leader: Racer) -> None:
        """Ask the leading solver for its model. One that has ended without `tol` takes no more steps: encode its
        result, once."""
        if leader.result is None:
            self._wants_model_of = leader
        elif leader is not self._shown:
            self._shown, result = leader, leader.result
            figures = result.passes, result.seconds, result.certificate.relative_gap
            self._interim = encode_unfinished(self._work, self._claim, result, *figures)

    def _store_progress(self) -> None:
        """Store the figures of the leading solver and the curves of all. Raises LeaseLost."""
        leader = min(self._racers, key=lambda racer: racer.gap)
        if not leader.points:
            return
        tol = self._work.request.tol
        gaps = [point["relative_gap"] for point in leader.points if point["relative_gap"] is not None]
        if gaps and gaps[0] > 0.0:
            share = self._share_of_job * share_of_way(gaps[0], min(gaps), tol)
            self._progress = max(self._progress, share)
        known = [one for racer in self._racers if (one := eta_seconds(list(racer.points), tol)) is not None]
        point = {"solver": leader.name, **leader.points[-1]}
        try:
            with self._context.database.write() as session:
                eta = min(known) if known else None
                queue.report_progress(session, self._claim, point, self._progress, self.curves(), eta)
        except DatabaseUnavailable as error:  # an outage must not end the race
            log.warning("could not store the progress of %s: %s", self._claim.job_id, error)

    def _store_interim(self, content: bytes) -> None:
        """Store the interim model of the leading solver, for predictions during the race."""
        try:
            new = {"snapshot": (self._context.blobs.put(content), len(content))}
            with self._context.database.write() as session:
                replaced = queue.keep(session, self._claim, new, self._context.blobs)
            reclaim(self._context.database, self._context.blobs, replaced)
        except (OSError, DatabaseUnavailable, BlobsGone) as error:
            log.warning("could not store an interim model of %s: %s", self._claim.job_id, error)

    def _winner(self, *, is_finishing: bool) -> Racer:
        """Return the first solver that has converged, or else the one with the smallest certified gap."""
        able = [racer for racer in self._finished if racer.result is not None]
        if not able:
            raise _refused(self._racers)
        winner = min(able, key=lambda racer: (_place(racer), 0.0 if _place(racer) == 0 else racer.gap))
        if _place(winner) > 0 and self._work.request.on_limit == "fail" and not is_finishing:
            message = "no solver reached tol; raise the limits of stop, or loosen tol"
            raise PermanentFailure("not_converged", message, "stop")
        return winner


def _place(racer: Racer) -> int:
    """Return the sort key of the order of finish: converged, ended without `tol`, failed."""
    if racer.result is None:
        return 2
    return 0 if racer.result.converged else 1


def _refused(racers: Sequence[Racer]) -> PermanentFailure:
    number, racer = next((place, racer) for place, racer in enumerate(racers) if racer.refusal is not None)
    assert racer.refusal is not None
    field_name, code, message = solver_refusal(racer.refusal)
    named = f"solvers.{number}" if field_name == "solver" else field_name
    return PermanentFailure(code, f"{named}: {message}", named)


def _sample(work: Work) -> Array:
    """Return a few rows, with at least one of each class."""
    rows = np.linspace(0, len(work.train.y) - 1, min(REHEARSAL_ROWS, len(work.train.y))).astype(np.int64)
    firsts = np.unique(work.train.y, return_index=True)[1] if work.task in CLASS_TASKS else rows[:0]
    return np.unique(np.concatenate([rows, firsts]))
