"""Several classes by one binary problem each: any binary method, on one shared view of the data.

The primal value, the bound and the gap are sums over the classes; the run has converged if every class has. Classes
are independent of each other, so with several threads they are solved at the same time (kernels hold no lock of
the interpreter), to the same bits.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.engine.driver import Callback, Limits, solve
from solvers.engine.handover import Handover
from solvers.engine.trace import Trace
from solvers.method import Method, Start
from solvers.problem.problems import BinaryProblem
from solvers.result import Certificate, Counts, LinearModel, SolveResult, State, Status, StepReport

__all__ = ["class_states", "solve_each_class", "sum_of_classes"]

LEAST_STEPS = 10
"""Of a class that begins at nothing, also if the callback says stop."""
WORST_FIRST = (Status.NONFINITE, Status.STOPPED, Status.TIME_LIMIT, Status.PASS_LIMIT, Status.STALLED)


def solve_each_class(
    method: type[Method[BinaryProblem]],
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
) -> SolveResult:
    """Solve every class's problem. A limit on passes is shared out evenly, a limit on time as it is used.

    Every class gets a few steps, also after the callback has said stop: a model that knows nothing of a class would be
    of no use.
    """
    run = _Run(method.name, problems, classes, starts, callback, started)
    share = None if limits.max_passes is None else max(1, limits.max_passes // len(problems))

    def solve_class(k: int) -> None:
        if run.is_aborted:
            return
        with run.computing(k):
            seconds = run.share_of_time(limits.max_seconds, threads)
            made, then, state = method(problems[k], options), successor, starts[k].state
            if then is not None and state is not None and state.get("solver") == then.method.name:
                made, then = then.method.by_default(problems[k]), None  # it had been handed over
            result = solve(
                made,
                replace(limits, max_passes=share, max_seconds=seconds),
                seed=seed,
                start=starts[k],
                callback=lambda report: run.hear(k, report),
                started=time.perf_counter(),
                reason=reason,
                successor=then,
            )
            run.finish(k, result)

    if threads == 1:
        for k in range(len(problems)):
            solve_class(k)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(solve_class, range(len(problems))))
    return run.result(seed, threads)


def class_states(state: State, n_classes: int) -> list[State | None]:
    """The states of the classes, with their counts, from the state of the whole; None for those that had not begun."""
    parts: list[State | None] = [None] * n_classes
    for name, value in state.items():
        number, dot, rest = name.partition(".")
        if dot and number.isdecimal() and int(number) < n_classes:
            part = parts[int(number)] or {}
            parts[int(number)] = {**part, rest: value}
    return parts


def sum_of_classes(problems: Sequence[BinaryProblem], certificates: Sequence[Certificate]) -> Certificate:
    """The certificate of the whole, rounded to the safe side: what a class cannot tell, the sum cannot tell."""
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
    """The sum, on the given side of the exact one."""
    try:
        return math.nextafter(math.fsum(values), towards) if any(values) else 0.0
    except (OverflowError, ValueError):  # fsum raises where a sum of infinities or beyond them has no value
        return math.inf


class _Run:
    """Where all classes stand; reports may come from several threads.

    The callback is called by one thread at a time. What it takes of the whole, a state or a model, it takes when every
    other thread is between two steps too: in the middle of one, its arrays do not belong together.
    """

    def __init__(
        self,
        solver: str,
        problems: Sequence[BinaryProblem],
        classes: NDArray[Any],
        starts: Sequence[Start],
        callback: Callback | None,
        started: float,
    ) -> None:
        self.is_aborted = False
        """The callback raised an error: nothing more is begun."""
        self._is_stopped = False
        self._owed_steps = [0 if start.state is not None or start.coef is not None else LEAST_STEPS for start in starts]
        self._solver = solver
        self._problems = problems
        self._classes = classes
        self._starts = starts
        self._callback = callback
        self._started = started
        self._turns = Condition()
        self._computing: set[int] = set()
        self._is_speaking = False
        self._results: dict[int, SolveResult] = {}
        self._reports: dict[int, StepReport] = {}
        self._trace = Trace()

    def share_of_time(self, max_seconds: float | None, threads: int) -> float | None:
        """What is left of the time, for a class that begins now while as many others still have to be solved."""
        if max_seconds is None:
            return None
        unsolved = len(self._problems) - len(self._results)
        left = max_seconds - (time.perf_counter() - self._started)
        return max(left, 1e-9) / max(1.0, unsolved / threads)

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
        """Tell the caller how the whole stands; True: stop."""
        with self._turn_of(k):
            self._reports[k] = report
            whole = replace(self._report(), capture=self._state, extract=self._model if self._is_known() else None)
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
            self._reports.pop(k, None)  # it holds the method, and all its arrays

    @contextmanager
    def _turn_of(self, k: int) -> Iterator[None]:
        """Between two steps of a class, while no other thread speaks."""
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
            certificate=sum_of_classes(self._problems, certificates),
            bounding=tuple(result.bounding[0] for result in results),
            iterations=whole.iterations,
            passes=whole.passes,
            seconds=time.perf_counter() - self._started,
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
        seen = {result.status for result in self._results.values()}
        return next((status for status in WORST_FIRST if status in seen), Status.CONVERGED)

    def _report(self) -> StepReport:
        """The sum over the classes; what a class cannot tell, the sum cannot tell."""
        iterations = passes = 0
        primal: float | None = 0.0
        bound: float | None = 0.0
        for k, problem in enumerate(self._problems):
            value: float | None = problem.total_cost
            low: float | None = 0.0
            if k in self._results:
                done = self._results[k]
                iterations, passes = iterations + done.iterations, passes + done.passes
                value, low = done.certificate.primal, done.certificate.dual_bound
            elif k in self._reports:
                last = self._reports[k]
                iterations, passes = iterations + last.iterations, passes + last.passes
                value, low = last.primal, last.dual_bound
            else:
                used = self._starts[k].counts
                iterations, passes = iterations + used.iterations, passes + used.passes
            primal = None if primal is None or value is None else primal + value
            bound = None if bound is None or low is None else bound + low
        gap = None
        if primal is not None and bound is not None:
            gap = (primal - bound) / max(primal, sum(problem.primal_floor for problem in self._problems))
        seconds = time.perf_counter() - self._started
        return StepReport(iterations, passes, seconds, primal, bound, gap)

    def _state(self, copy: bool) -> State:
        self._wait_for_the_others()
        whole = Counts(seconds=time.perf_counter() - self._started).added_to({"solver": self._solver})
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

    def _is_known(self) -> bool:
        """Whether no class has only a state from before, which would first have to become weights."""
        starts = enumerate(self._starts)
        return all(k in self._results or k in self._reports or start.state is None for k, start in starts)

    def _model(self) -> LinearModel:
        """A class that has not begun says no to every row, as loudly as a support vector would."""
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
