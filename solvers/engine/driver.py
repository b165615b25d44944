"""The outer loop of every run: steps a method until it is certified, stopped, out of budget or stalled.

A certificate costs a pass over the data. The method's own cheap estimate of its gap decides when to compute one. A run
is reported as converged only if a certificate proves the tolerance.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.engine.handover import Handover, Patience, StallWatch
from solvers.engine.judge import Judge, with_best_bias, zero_point
from solvers.engine.limits import Limits
from solvers.engine.trace import Trace
from solvers.linalg.clock import solving_time
from solvers.linalg.types import Floats
from solvers.method import AnyMethod, Progress, Start
from solvers.problem.problems import OrdinalProblem, Problem, rank_thresholds
from solvers.result import Certificate, Counts, LinearModel, SolveResult, Status, StepReport
from solvers.state import State, StoredState

__all__ = ["Callback", "agreeing_status", "solve"]

Callback = Callable[[StepReport], object]
"""A function that is called after every step. The run stops if the function returns exactly True; other truthy values
do not stop it."""

FAILED = (Status.STALLED, Status.NONFINITE)
"""Statuses after which a successor can take over."""


def solve(
    method: AnyMethod,
    limits: Limits,
    *,
    seed: int,
    start: Start,
    callback: Callback | None,
    started: float,
    threads: int = 1,
    reason: str = "",
    successor: Handover | None = None,
    constant: float | None = None,
) -> SolveResult:
    """Run the method from `start` and return its best point. `started` is the `solving_time` at which the run began.

    The passes and seconds recorded in `start` count towards the limits. At least one step is taken even if a limit is
    already reached. `reason` says why this method was chosen. The `successor` takes over if the method becomes slow or
    fails far from the optimum. `constant` is the value of the best constant model; None: nothing is compared with it.
    """
    problem = method.problem
    method.threads = threads if method.uses_threads else 1
    judge = Judge(problem, limits, constant, has_estimate=method.has_estimate)
    trace = Trace()
    stall = StallWatch()
    patience = Patience.with_one_for(successor, limits.tol)
    state: State = method.init(seed, start)
    before = start.counts

    def capture(copy: bool) -> StoredState:
        return _counted(method.name, state.stored(copy=copy), progress, started)

    def extract() -> LinearModel:
        point = with_best_bias(problem, method.extract(state)._replace(alpha=None))
        return LinearModel(coef=point.coef, intercept=point.intercept, **_meaning(problem, point.coef))

    status: Status | None = None
    passes = before.passes
    while status is None:
        if limits.max_passes is not None:
            method.reads_left = max(1, limits.max_passes - passes)
        progress = method.step(state, judge.target)
        passes = before.passes + progress.passes
        progress = progress._replace(iterations=before.iterations + progress.iterations, passes=passes)
        certificate = None
        if progress.finished is Status.NONFINITE:
            status = Status.NONFINITE
        elif judge.is_worth_certifying(progress):
            certificate = judge.certify(method.extract(state), progress)
            status = judge.verdict
        report = _report(progress, certificate, solving_time() - started, capture, extract)
        trace.add(report)
        answer = None if callback is None else callback(report)
        wants_stop = isinstance(answer, bool | np.bool_) and bool(answer)
        if status is None:
            if wants_stop:
                status = Status.STOPPED
            elif progress.finished is not None:
                status = progress.finished
            elif limits.max_passes is not None and progress.passes >= limits.max_passes:
                status = Status.PASS_LIMIT
            elif limits.max_seconds is not None and report.seconds >= limits.max_seconds:
                status = Status.TIME_LIMIT
            elif stall.is_stuck(progress):
                status = Status.STALLED
        is_slow = status is None and patience is not None and patience.is_over(progress)
        is_last_resort = patience is None
        if successor is not None and is_last_resort and status in FAILED:
            if status is Status.STALLED and judge.certified_at != progress.iterations:
                judge.certify(method.extract(state), progress)
            status = judge.verdict or status
            if not judge.is_far:
                successor = None
        if successor is not None and (is_slow or status in FAILED):
            # Weights with large rounding errors are a bad start for the last resort, which starts from zero.
            point = zero_point(problem) if is_last_resort else method.extract(state)
            why = "because progress had stopped"
            if is_slow:
                why = "because progress had become slow" if successor.passes > 0.0 else "as planned"
            method, successor = successor.method.by_default(problem), successor.successor
            patience = Patience.with_one_for(successor, limits.tol)
            method.threads = threads if method.uses_threads else 1
            judge.begin_anew(has_estimate=method.has_estimate)
            stall, status = StallWatch(), None
            state = method.init(seed, Start(coef=point.coef, intercept=point.intercept))
            before = Counts(progress.iterations, progress.passes)
            reason += f"; {method.name} took over after {progress.passes} passes {why}"

    if status not in (Status.CONVERGED, Status.NONFINITE) and judge.certified_at != progress.iterations:
        judge.certify(method.extract(state), progress)
        status = judge.verdict or status
    point, certificate = judge.best()
    status = agreeing_status(status, certificate, limits)
    assert judge.bounding is not None
    seconds = solving_time() - started
    trace.add(_report(progress, certificate, seconds))
    spec = problem.spec
    return SolveResult(
        coef=point.coef,
        intercept=point.intercept,
        **_meaning(problem, point.coef),
        status=status,
        certificate=certificate,
        bounding=(judge.bounding,),
        iterations=progress.iterations,
        passes=progress.passes,
        seconds=seconds,
        certificate_seconds=judge.seconds,
        trace=trace.points,
        state=_counted(method.name, state.stored(copy=False), progress, started),  # no copy: the run is over
        solver=method.name,
        solver_reason=reason,
        loss=spec.loss,
        bias=spec.bias,
        seed=seed,
        threads=method.threads,
    )


def agreeing_status(status: Status, certificate: Certificate, limits: Limits) -> Status:
    """Return `converged` if the certificate proves what was asked for. Otherwise return the given status, with
    `stalled` in place of `converged`."""
    if limits.are_met(certificate):
        return Status.CONVERGED
    return Status.STALLED if status is Status.CONVERGED else status


def _report(
    progress: Progress,
    certificate: Certificate | None,
    seconds: float,
    capture: Callable[[bool], StoredState] | None = None,
    extract: Callable[[], LinearModel] | None = None,
) -> StepReport:
    figures = progress.primal, progress.dual_bound, progress.gap_estimate
    if certificate is not None:
        figures = certificate.primal, certificate.dual_bound, certificate.relative_gap
    is_certified = certificate is not None
    return StepReport(progress.iterations, progress.passes, seconds, *figures, is_certified, capture, extract)


def _meaning(problem: Problem, coef: Floats) -> dict[str, Any]:
    """Return the attributes that turn scores into answers: classes, thresholds, task, strategy."""
    spec = problem.spec
    return {
        "classes": problem.classes,
        "thresholds": rank_thresholds(problem, coef) if isinstance(problem, OrdinalProblem) else None,
        "task": spec.task,
        "strategy": spec.strategy if spec.task == "multiclass" else None,
    }


def _counted(solver: str, state: StoredState, progress: Progress, started: float) -> StoredState:
    counts = Counts(progress.iterations, progress.passes, solving_time() - started)
    return counts.added_to({"solver": solver, **state})
