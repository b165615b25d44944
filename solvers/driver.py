"""The only outer loop: steps a method until it is certified, told to stop, out of budget or stuck.

A method's cheap estimate of its gap only decides when a certificate is worth its read of the
data; what is reported as converged has been certified.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .certificates import balanced_dual_point, certify, minimising_bias
from .checks import real_number, whole_number
from .choice import Handover
from .dual_refinement import DualRefinement
from .errors import InvalidOptions
from .patience import Patience, StallWatch
from .problem import BinaryProblem, MulticlassProblem, OrdinalProblem, Problem, RegressionProblem
from .protocol import Method, Point, Progress, Start
from .result import Certificate, Counts, LinearModel, SolveResult, State, Status, StepReport
from .rows import Floats
from .thresholds import rank_thresholds
from .trace import Trace

__all__ = ["REFINED", "Callback", "Limits", "solve"]

Callback = Callable[[StepReport], object]
"""Called after every step; returning True (not merely something true) stops the run."""

UNESTIMATED_PASSES = 2
"""A method that cannot estimate its gap is certified after this many passes, then whenever they grew by half."""
NARROW = 2.0
"""A gap of so many times the tolerance is nearly there: one more pass may be enough."""
REFINED = "dual point from the margins, refined"
FAILED = (Status.STALLED, Status.NONFINITE)
NEAR = 1e-6
"""A relative gap from which on another method is not asked to get further than one that rounding has stopped."""


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    tol: float
    max_seconds: float | None
    max_passes: int | None

    @classmethod
    def checked(cls, *, tol: object, max_seconds: object, max_passes: object) -> "Limits":
        return cls(
            tol=real_number(tol, "tol", InvalidOptions, above=0.0),
            max_seconds=None
            if max_seconds is None
            else real_number(max_seconds, "max_seconds", InvalidOptions, above=0.0),
            max_passes=None if max_passes is None else whole_number(max_passes, "max_passes", InvalidOptions, low=1),
        )


def solve(
    method: Method[Any],
    limits: Limits,
    *,
    seed: int,
    start: Start,
    callback: Callback | None,
    started: float,
    threads: int = 1,
    reason: str = "",
    successor: Handover | None = None,
) -> SolveResult:
    """Run the method from `start` and return its best point; `started` is when the clock began.

    What `start` says was used up before counts as used, except that there is always one step. `reason` says why this
    method; the `successor` goes on if it becomes slow, or fails far from the optimum.
    """
    problem = method.problem
    method.threads = threads if method.uses_threads else 1
    judge = _Judge(problem, limits.tol, has_estimate=method.has_estimate)
    trace = Trace()
    stall = StallWatch()
    patience = Patience.with_one_for(successor, limits.tol)
    state = method.init(seed, start)
    before = start.counts

    def capture(copy: bool) -> State:
        return _counted(method.name, _copied(state) if copy else state, progress, started)

    def extract() -> LinearModel:
        point = _with_best_bias(problem, method.extract(state)._replace(alpha=None))
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
        report = _report(progress, certificate, time.perf_counter() - started, capture, extract)
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
            # Weights that rounding has spoilt would lead the last resort astray.
            point = _zero_point(problem) if is_last_resort else method.extract(state)
            why = "where it could get no further"
            if is_slow:
                why = "which had become slow" if successor.passes > 0.0 else "which led it in"
            method, successor = successor.method.by_default(problem), successor.successor
            patience = Patience.with_one_for(successor, limits.tol)
            method.threads = threads if method.uses_threads else 1
            judge.begin_anew(has_estimate=method.has_estimate)
            stall, status = StallWatch(), None
            state = method.init(seed, Start(coef=point.coef, intercept=point.intercept))
            before = Counts(progress.iterations, progress.passes)
            reason += f"; {method.name} went on after {progress.passes} passes, {why}"

    if status not in (Status.CONVERGED, Status.NONFINITE) and judge.certified_at != progress.iterations:
        judge.certify(method.extract(state), progress)
        status = judge.verdict or status
    point, certificate = judge.best()
    assert judge.bounding is not None
    seconds = time.perf_counter() - started
    trace.add(_report(progress, certificate, seconds))
    setting = problem.setting
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
        state=_counted(method.name, state, progress, started),  # no copy: the run is over
        solver=method.name,
        solver_reason=reason,
        loss=setting.loss,
        bias=setting.bias,
        seed=seed,
        threads=method.threads,
    )


class _Judge:
    """Certifies points, keeps the best, and learns how far the method's own estimate can be trusted."""

    def __init__(self, problem: Problem, tol: float, *, has_estimate: bool) -> None:
        self.problem = problem
        self.tol = tol
        self.target = tol
        """The estimate at which a certificate is worth computing."""
        self.certified_at = -1
        self.seconds = 0.0
        self._is_finite = True
        self._kept: tuple[Point, Certificate] | None = None
        self.bounding: Point | None = None
        """The point whose dual point gave the best bound."""
        self._has_estimate = has_estimate
        self._refinement: DualRefinement | None = None
        self._failures = 0
        self._not_before = 0 if has_estimate else UNESTIMATED_PASSES

    def begin_anew(self, *, has_estimate: bool) -> None:
        """For another method, of whose estimates nothing is known yet; what was proved stays."""
        self.target = self.tol
        self._has_estimate = has_estimate
        self._failures = self._not_before = 0

    @property
    def verdict(self) -> Status | None:
        """What the certificates so far mean for the run; None: go on."""
        if not self._is_finite:
            return Status.NONFINITE
        gap = None if self._kept is None else self._kept[1].relative_gap
        return Status.CONVERGED if gap is not None and gap <= self.tol else None

    @property
    def is_far(self) -> bool:
        """Whether the best point is, as far as is known, so far from the optimum that another method may do better."""
        gap = None if self._kept is None else self._kept[1].relative_gap
        return gap is None or gap > max(self.tol, NEAR)

    def is_worth_certifying(self, progress: Progress) -> bool:
        if progress.passes < self._not_before or not progress.is_complete:
            return False
        estimate = progress.gap_estimate
        return not self._has_estimate if estimate is None else estimate <= self.target

    def certify(self, point: Point, progress: Progress) -> Certificate | None:
        began = time.perf_counter()
        point, certificate = self._certificate(_with_best_bias(self.problem, point))
        self.certified_at = progress.iterations
        self._is_finite = bool(np.isfinite(certificate.primal))
        if not self._is_finite:
            return None
        self._keep(point, certificate)
        gap = certificate.relative_gap
        if gap is None or gap > self.tol:
            # The estimate was too bright by gap / target: ask for that much more next time. Waiting
            # longer after each failure bounds what failed certificates can cost.
            is_narrow = gap is not None and gap <= NARROW * self.tol
            wait = 2 ** (self._failures if is_narrow else self._failures + 1)
            self._failures += 1
            if not self._has_estimate:
                wait = max(UNESTIMATED_PASSES, progress.passes // 2)
            self._not_before = progress.passes + wait
            self.target *= max(0.1, 0.9 * self.tol / gap) if gap else 0.1
        self.seconds += time.perf_counter() - began
        return certificate

    def best(self) -> tuple[Point, Certificate]:
        """The best point, and a certificate whose bound is that of the point `bounding`."""
        if self._kept is not None:
            return self._kept
        nothing = self.bounding = _zero_point(self.problem)
        return nothing, certify(self.problem, nothing)

    def _certificate(self, point: Point) -> tuple[Point, Certificate]:
        """Of the point; with a dual point found here for a method that never has one."""
        problem = self.problem
        has_own = self._has_estimate or point.alpha is not None
        if has_own or not isinstance(problem, BinaryProblem) or not DualRefinement.fits(problem):
            return point, certify(problem, point)
        if not np.isfinite(point.coef).all():
            return point, certify(problem, point)
        if self._refinement is None:
            self._refinement = DualRefinement(problem)
        alpha = self._refinement.refined(point.coef, float(point.intercept))
        point = point._replace(alpha=alpha.copy())
        return point, replace(certify(problem, point), method=REFINED)

    def _keep(self, point: Point, certificate: Certificate) -> None:
        """Lowest primal and highest bound so far; the two may stem from different points."""
        before = None if self._kept is None else self._kept[1].dual_bound
        if before is None or (certificate.dual_bound is not None and certificate.dual_bound > before):
            self.bounding = point
        point = point._replace(alpha=None, planes=None)
        if self._kept is None:
            self._kept = point, certificate
            return
        kept_point, kept = self._kept
        if certificate.primal < kept.primal:
            kept_point, primal, source = point, certificate.primal, certificate.method
        else:
            primal, source = kept.primal, kept.method
        bounds = [bound for bound in (kept.dual_bound, certificate.dual_bound) if bound is not None]
        if not bounds:
            self._kept = kept_point, Certificate(primal, None, None, None, source)
            return
        gap = max(0.0, primal - max(bounds))
        relative = gap / max(primal, self.problem.primal_floor)
        self._kept = kept_point, Certificate(primal, max(bounds), gap, relative, source)


def _report(
    progress: Progress,
    certificate: Certificate | None,
    seconds: float,
    capture: Callable[[bool], State] | None = None,
    extract: Callable[[], LinearModel] | None = None,
) -> StepReport:
    figures = progress.primal, progress.dual_bound, progress.gap_estimate
    if certificate is not None:
        figures = certificate.primal, certificate.dual_bound, certificate.relative_gap
    is_certified = certificate is not None
    return StepReport(progress.iterations, progress.passes, seconds, *figures, is_certified, capture, extract)


def _zero_point(problem: Problem) -> Point:
    """The zero vector with a dual point of zeros: what is returned if nothing finite was ever reached."""
    n, d, k = problem.data.n_rows, problem.data.n_features, problem.classes.size
    if isinstance(problem, MulticlassProblem):
        return Point(np.zeros((k, d)), np.zeros(k), np.zeros((n, k)))
    return Point(np.zeros(d), 0.0, np.zeros(n))


def _with_best_bias(problem: Problem, point: Point) -> Point:
    """The point; of a free bias, with the one that is best for its weights; of all classes jointly, with a dual point
    that is balanced: what a result keeps for its bound must not need these weights for that."""
    if problem.setting.bias != "free":
        return point
    if isinstance(problem, MulticlassProblem):
        return point._replace(alpha=balanced_dual_point(problem, point))
    if not isinstance(problem, BinaryProblem | RegressionProblem):
        return point
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(point.coef, scores)
    return point._replace(intercept=minimising_bias(problem, scores, float(point.intercept)))


def _meaning(problem: Problem, coef: Floats) -> dict[str, Any]:
    """What scores by these weights mean."""
    setting = problem.setting
    return {
        "classes": problem.classes,
        "thresholds": rank_thresholds(problem, coef) if isinstance(problem, OrdinalProblem) else None,
        "task": setting.task,
        "strategy": setting.strategy if setting.task == "multiclass" else None,
    }


def _copied(state: State) -> State:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}


def _counted(solver: str, state: State, progress: Progress, started: float) -> State:
    counts = Counts(progress.iterations, progress.passes, time.perf_counter() - started)
    return counts.added_to({"solver": solver, **state})
