"""One-vs-rest: trains one binary problem per class, with any binary method, on the same data.

The primal value, the bound and the gap of the run are sums over the classes. The run has converged if the relative gap
of these sums is at most the tolerance. Classes are independent, so several threads solve them at the same time (kernels
release the interpreter's lock), with bit-identical results.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.engine.driver import Callback, agreeing_status, solve
from solvers.engine.handover import Handover, method_at
from solvers.engine.limits import Limits
from solvers.engine.trace import Trace
from solvers.linalg.clock import solving_time
from solvers.method import AnyMethod, Start
from solvers.problem.problems import BinaryProblem
from solvers.result import Certificate, Counts, LinearModel, SolveResult, Status, StepReport
from solvers.state import StoredState

__all__ = ["class_states", "solve_each_class", "sum_of_classes"]

LEAST_STEPS = 10
"""Least number of steps for every class without a warm start, even after the callback has stopped the run. Larger:
better models from stopped runs, later stops. Set by hand; no measurement is recorded."""
WORST_FIRST = (Status.NONFINITE, Status.STOPPED, Status.TIME_LIMIT, Status.PASS_LIMIT, Status.STALLED)
"""Statuses from worst to best. A run has the worst status of its classes."""


def solve_each_class(
    method: type[AnyMethod],
    options: Mapping[str, Any],
    problems: Sequence[BinaryProblem],
    classes: NDArray[Any],
    limits: Limits,
    *,
    seed: int,
    starts: Sequence[Start],
    callback: Callback | None,
    threads: int,
    started: float,
    reason: str,
    successor: Handover | None,
    constants: Sequence[float] | None = None,
) -> SolveResult:
    """Solve the problem of every class. Each class gets the same share of the pass limit, and a share of the time that
    is left when it starts.

    Every class gets a few steps, even after the callback has stopped the run, because a model must have all its
    classes. Classes that reach their time limit continue in further rounds, with equal shares of the remaining time.
    `constants` are the values of the best constant models of the classes; None: nothing is compared with them.
    """
    run = _Run(method.name, problems, classes, starts, callback, started, limits, constants)
    share = None if limits.max_passes is None else max(1, limits.max_passes // len(problems))

    def solve_class(k: int) -> None:
        before = run.earlier_result(k)
        if run.is_aborted or (before is not None and run.is_over):
            return
        with run.computing(k):
            start, why = starts[k], reason
            if before is not None:
                counts, state = Counts.taken_from(before.state)
                start, why = Start(state=state, counts=counts), before.solver_reason
                run.resume(k, before)
            made, then = method_at(start.state, method, options, problems[k], successor)
            result = solve(
                made,
                replace(limits, max_passes=share, max_seconds=run.time_limit(start.counts.seconds, threads)),
                seed=seed,
                start=start,
                callback=lambda report: run.hear(k, report),
                started=solving_time() - start.counts.seconds,
                reason=why,
                successor=then,
                constant=None if constants is None else constants[k],
            )
            run.finish(k, result if before is None else _better(before, result))

    with ThreadPoolExecutor(threads) as pool:
        for_each: Callable[..., Iterator[None]] = map if threads == 1 else pool.map
        waiting: Sequence[int] = range(len(problems))
        while waiting:
            run.begin_round(len(waiting))
            list(for_each(solve_class, waiting))
            waiting = run.out_of_time()
    return run.result(seed, threads)


def _better(before: SolveResult, after: SolveResult) -> SolveResult:
    """Return whichever result of two rounds of one class has the smaller gap, with the counts of both rounds added up.

    A resumed round does not know the best point of the round before, so its own result can be worse.
    """
    seconds = before.certificate_seconds + after.certificate_seconds
    found = (one.certificate.relative_gap for one in (before, after))
    gap_before, gap_after = (math.inf if gap is None else gap for gap in found)
    if gap_after <= gap_before:
        return replace(after, certificate_seconds=seconds)
    point = {name: getattr(before, name) for name in ("coef", "intercept", "certificate", "bounding")}
    return replace(after, certificate_seconds=seconds, **point)


def class_states(state: StoredState, n_classes: int) -> list[StoredState | None]:
    """Split the stored state of a run into the states of its classes; None for a class that had not started."""
    parts: list[StoredState | None] = [None] * n_classes
    for name, value in state.items():
        number, dot, rest = name.partition(".")
        if dot and number.isdecimal() and int(number) < n_classes:
            part = parts[int(number)] or {}
            parts[int(number)] = {**part, rest: value}
    return parts


def sum_of_classes(problems: Sequence[BinaryProblem], certificates: Sequence[Certificate]) -> Certificate:
    """Add the certificates of the classes, rounded to the safe side. A figure is None if any class lacks it."""
    primal = _rounded_sum([one.primal for one in certificates], math.inf)
    source = certificates[0].method
    bounds = [one.dual_bound for one in certificates if one.dual_bound is not None]
    gaps = [one.gap for one in certificates if one.gap is not None]
    if len(gaps) < len(certificates) or not math.isfinite(primal):
        return Certificate(primal, None, None, None, source)
    floor = sum(problem.primal_floor for problem in problems)
    gap = min(_rounded_sum(gaps, math.inf), primal)
    return Certificate.of_pair(primal, max(0.0, _rounded_sum(bounds, -math.inf)), gap, floor, source)


def _rounded_sum(values: Sequence[float], towards: float) -> float:
    """Return the sum, rounded in the given direction."""
    try:
        return math.nextafter(math.fsum(values), towards) if any(values) else 0.0
    except (OverflowError, ValueError):  # fsum raises for sums that overflow or mix infinities
        return math.inf


class _Run:
    """The progress of all classes. Reports can come from several threads.

    Only one thread at a time calls the callback. A state or a model of the whole run is taken while every other thread
    is between two steps, because the arrays of a class are inconsistent during a step.
    """

    def __init__(
        self,
        solver: str,
        problems: Sequence[BinaryProblem],
        classes: NDArray[Any],
        starts: Sequence[Start],
        callback: Callback | None,
        started: float,
        limits: Limits,
        constants: Sequence[float] | None,
    ) -> None:
        self._constant = None if constants is None else _rounded_sum(constants, -math.inf)
        self.is_aborted = False
        """Whether the callback raised an error. If so, no further class is started."""
        self._is_stopped = False
        self._owed_steps = [0 if start.state is not None or start.coef is not None else LEAST_STEPS for start in starts]
        self._unknown = {k for k, start in enumerate(starts) if start.state is not None}
        """Resumed classes that have not reported yet: their weights are unknown."""
        self._solver = solver
        self._problems = problems
        self._classes = classes
        self._starts = starts
        self._callback = callback
        self._started = started
        self._limits = limits
        self._unsolved = 0
        """Number of classes that have not run in this round."""
        self._turns = Condition()
        self._computing: set[int] = set()
        self._is_speaking = False
        self._results: dict[int, SolveResult] = {}
        self._reports: dict[int, StepReport] = {}
        self._trace = Trace()
        self._floor = sum(problem.primal_floor for problem in problems)
        self._spent = np.zeros((len(problems), 2), dtype=np.int64)
        self._values = np.zeros((len(problems), 2))
        for k, (problem, start) in enumerate(zip(problems, starts, strict=True)):
            self._note(k, start.counts.iterations, start.counts.passes, problem.total_cost, 0.0)

    def begin_round(self, classes: int) -> None:
        """Divide the remaining time among this many classes."""
        self._unsolved = classes

    def time_limit(self, used: float, threads: int) -> float | None:
        """Return the time limit of a class: the seconds that it has used plus its share of the rest."""
        left = self._seconds_left()
        return None if left is None else used + max(left, 1e-9) / max(1.0, self._unsolved / threads)

    def _seconds_left(self) -> float | None:
        limit = self._limits.max_seconds
        return None if limit is None else limit - (solving_time() - self._started)

    @property
    def is_over(self) -> bool:
        """Whether the run ends: the callback stopped it, the time is over, or the sum over the classes has
        converged."""
        left = self._seconds_left()
        if self.is_aborted or self._is_stopped or left is None or left <= 0.0:
            return True
        with self._turns:
            return len(self._results) == len(self._problems) and self._status() is Status.CONVERGED

    def out_of_time(self) -> list[int]:
        """Return the classes that reached their time limit and continue in another round; none if the run is over."""
        if self.is_over:
            return []
        return [k for k, result in sorted(self._results.items()) if result.status is Status.TIME_LIMIT]

    def earlier_result(self, k: int) -> SolveResult | None:
        """Return the result of the last round of a class; None in the first round."""
        return self._results.get(k)

    def resume(self, k: int, before: SolveResult) -> None:
        """Use the figures of the last round of class k until the class reports again."""
        figures = before.certificate.primal, before.certificate.dual_bound, before.certificate.relative_gap
        with self._turn_of(k):
            self._reports[k] = StepReport(
                before.iterations,
                before.passes,
                before.seconds,
                *figures,
                certified=True,
                capture=lambda copy: before.state,
                extract=lambda: before,
            )
            del self._results[k]

    @contextmanager
    def computing(self, k: int) -> Iterator[None]:
        with self._turns:
            self._computing.add(k)
        try:
            yield
        finally:
            with self._turns:
                self._computing.discard(k)
                self._turns.notify_all()

    def hear(self, k: int, report: StepReport) -> bool:
        """Pass the progress of the whole run to the callback; return whether class k must stop."""
        with self._turn_of(k):
            self._reports[k] = report
            self._note(k, report.iterations, report.passes, report.primal, report.dual_bound)
            self._unknown.discard(k)
            whole = replace(self._report(), capture=self._state, extract=None if self._unknown else self._model)
            self._trace.add(whole)
            if self._callback is not None and not (self._is_stopped or self.is_aborted):
                try:
                    answer = self._callback(whole)
                except BaseException:
                    self.is_aborted = True
                    raise
                self._is_stopped = isinstance(answer, bool | np.bool_) and bool(answer)
            self._owed_steps[k] -= 1
            return self.is_aborted or (self._is_stopped and self._owed_steps[k] <= 0)

    def finish(self, k: int, result: SolveResult) -> None:
        with self._turn_of(k):
            self._results[k] = result
            proved = result.certificate
            self._note(k, result.iterations, result.passes, proved.primal, proved.dual_bound)
            self._unsolved -= 1
            self._reports.pop(k, None)  # the report references the method and all its arrays

    @contextmanager
    def _turn_of(self, k: int) -> Iterator[None]:
        """Give the thread of class k the exclusive right to call the callback, between two of its steps."""
        with self._turns:
            self._computing.discard(k)
            self._turns.notify_all()
            self._turns.wait_for(lambda: not self._is_speaking)
            self._is_speaking = True
            try:
                yield
            finally:
                self._is_speaking = False
                self._computing.add(k)
                self._turns.notify_all()

    def _wait_for_the_others(self) -> None:
        self._turns.wait_for(lambda: not self._computing)

    def result(self, seed: int, threads: int) -> SolveResult:
        results = [self._results[k] for k in range(len(self._problems))]
        certificates = [result.certificate for result in results]
        whole = self._report()
        self._trace.add(replace(whole, certified=True))
        return SolveResult(
            coef=np.stack([result.coef for result in results]),
            intercept=np.array([result.intercept for result in results], dtype=np.float64),
            classes=self._classes,
            thresholds=None,
            status=self._status(),
            certificate=sum_of_classes(self._problems, certificates).compared_with(self._constant),
            bounding=tuple(result.bounding[0] for result in results),
            iterations=whole.iterations,
            passes=whole.passes,
            seconds=solving_time() - self._started,
            certificate_seconds=sum(result.certificate_seconds for result in results),
            trace=self._trace.points,
            state=self._state(copy=False),
            solver=self._solver,
            solver_reason=min(results, key=lambda result: result.solver == self._solver).solver_reason,
            task="multiclass",
            loss=results[0].loss,
            bias=results[0].bias,
            seed=seed,
            threads=threads,
            strategy="ovr",
            per_class=certificates,
        )

    def _status(self) -> Status:
        """Return `converged` if the sum over the classes has converged, otherwise the worst status of a class."""
        results = [self._results[k] for k in range(len(self._problems))]
        seen = {result.status for result in results}
        worst = next((status for status in WORST_FIRST if status in seen), Status.CONVERGED)
        whole = sum_of_classes(self._problems, [result.certificate for result in results])
        return agreeing_status(worst, whole.compared_with(self._constant), self._limits)

    def _note(self, k: int, iterations: int, passes: int, primal: float | None, bound: float | None) -> None:
        """Record the figures of class k. An unknown figure is NaN, which makes the sum NaN."""
        self._spent[k] = iterations, passes
        self._values[k] = math.nan if primal is None else primal, math.nan if bound is None else bound

    def _report(self) -> StepReport:
        """Return a report with the sums over the classes. A figure is None if any class lacks it."""
        iterations, passes = (int(total) for total in self._spent.sum(axis=0))
        primal, bound = (None if math.isnan(total) else float(total) for total in self._values.sum(axis=0))
        gap = None if primal is None or bound is None else (primal - bound) / max(primal, self._floor)
        return StepReport(iterations, passes, solving_time() - self._started, primal, bound, gap)

    def _state(self, copy: bool) -> StoredState:
        self._wait_for_the_others()
        whole = Counts(seconds=solving_time() - self._started).added_to({"solver": self._solver})
        for k in range(len(self._problems)):
            if k in self._results:
                part = self._results[k].state
            elif k in self._reports:
                part = self._reports[k].snapshot(copy=copy)
            elif (begun := self._starts[k]).state is not None:
                part = begun.counts.added_to(begun.state)
            else:
                continue
            whole.update({f"{k}.{name}": value for name, value in part.items()})
        return whole

    def _model(self) -> LinearModel:
        """Return the current model. A class that has not started scores every row -1."""
        self._wait_for_the_others()
        coef = np.zeros((self._classes.size, self._problems[0].data.n_features))
        intercept = np.full(self._classes.size, -1.0)
        for k in range(self._classes.size):
            if k in self._results:
                part: LinearModel = self._results[k]
            elif k in self._reports:
                part = self._reports[k].model()
            else:
                continue
            coef[k], intercept[k] = part.coef, part.intercept
        return LinearModel(
            coef=coef,
            intercept=intercept,
            classes=self._classes,
            thresholds=None,
            task="multiclass",
            strategy="ovr",
        )
