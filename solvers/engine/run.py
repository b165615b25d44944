"""Plans a run and executes it: from the parameters of a problem to a method, and from a method to a result.

`plan_run` makes all decisions that do not depend on the values of X and y. `check` and `estimate` call only `plan_run`.
`run_planned` builds the problem and solves it. `train` calls both functions, and tuning calls them for every fold and
C.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from solvers.checks import whole_number
from solvers.cost import Size
from solvers.data.blocks import RowBlocks
from solvers.data.rows import Rows
from solvers.engine.auto import Choice, choose
from solvers.engine.constant import constant_value
from solvers.engine.driver import Callback, solve
from solvers.engine.limits import Limits
from solvers.engine.one_vs_rest import solve_each_class
from solvers.engine.registry import registered, with_implied_strategy
from solvers.engine.starting_point import read_start, starts_of_classes
from solvers.errors import InvalidOptions, InvalidProblem, UnsupportedProblem
from solvers.linalg.clock import solving_time
from solvers.problem.build import build_problem, one_against_rest
from solvers.problem.labels import Labels
from solvers.problem.spec import Parameters, ProblemSpec, check_class_weight, resolve_spec
from solvers.result import SolveResult

__all__ = ["Planned", "is_split", "plan_run", "problems_of", "run_planned", "shape_of", "size_of"]


class Planned(NamedTuple):
    """The plan of a run, without the values of X and y."""

    spec: ProblemSpec
    choice: Choice
    options: dict[str, Any]
    limits: Limits
    class_weight: Mapping[object, float] | str | None
    seed: int
    threads: int

    def on(self, shape: Mapping[str, Any], max_seconds: float | None) -> "Planned":
        """Return this plan for other rows of about the same size, with this limit of seconds."""
        limits = replace(self.limits, max_seconds=max_seconds)
        return self._replace(spec=replace(self.spec, **shape), limits=limits)


def plan_run(
    problem: Parameters,
    *,
    shape: Mapping[str, Any],
    size: Size | None,
    solver: object,
    tol: object,
    max_seconds: object,
    max_passes: object,
    seed: object,
    threads: object,
    options: object,
    earlier: object = None,
    has_weights: bool = False,
) -> Planned:
    """Decide which method runs, and with which options and limits. `earlier` is the solver of a run to resume; "auto"
    then chooses that solver."""
    spec = with_implied_strategy(solver, resolve_spec(**shape, **problem))
    class_weight = problem.get("class_weight")
    if class_weight is not None and spec.task in ("ordinal", "regression"):
        raise InvalidProblem("class_weight", f"has no meaning with task {spec.task}; weigh rows by sample_weight")
    limits = Limits.checked(tol=tol, max_seconds=max_seconds, max_passes=max_passes)
    count = 1 if threads is None else whole_number(threads, "threads", InvalidOptions, low=1)
    choice = choose(solver, spec, size, limits.tol, count)
    if solver == "auto" and earlier in registered() and earlier != choice.method.name:
        choice = choose(earlier, spec, size, limits.tol, count)
    if has_weights:
        choice = choice.from_weights
    return Planned(
        spec=spec,
        choice=choice,
        options=choice.method.checked_options(options),
        limits=limits,
        class_weight=check_class_weight(class_weight),
        seed=whole_number(seed, "seed", InvalidOptions, low=0, high=2**63 - 1),
        threads=count,
    )


def run_planned(
    plan: Planned,
    data: Rows,
    labels: Labels,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    warm_start: Any = None,
    resume: bool = False,
    callback: Callback | None = None,
    started: float | None = None,
    with_improvement: bool = True,
) -> SolveResult:
    """Build the problem and solve it. `started` is the `solving_time` at which the run began; None: now.

    `with_improvement`: compare the result with the best constant model, also if the limits do not need it.
    """
    started = solving_time() if started is None else started
    spec, method = plan.spec, plan.choice.method
    if isinstance(data, RowBlocks) and not method.reads_in_passes:
        able = " or ".join(name for name, method in registered().items() if method.reads_in_passes)
        raise UnsupportedProblem("solver", f"{method.name} needs row access, and X comes in blocks; use {able}")
    if groups is not None and spec.task != "ordinal":
        raise InvalidProblem("groups", "are only used with task ordinal; leave them out")
    k = labels.classes.size if spec.task == "multiclass" else None
    start = read_start(warm_start, method, data, k, resume=resume)
    common: dict[str, Any] = {
        "seed": plan.seed,
        "callback": callback,
        "threads": plan.threads,
        "started": started - start.counts.seconds,
        "reason": plan.choice.reason,
        "successor": plan.choice.successor,
    }
    problems = problems_of(
        spec, data, labels, sample_weight=sample_weight, class_weight=plan.class_weight, groups=groups
    )
    is_compared = with_improvement or plan.limits.improvement is not None
    constants = [constant_value(one) for one in problems] if is_compared else None
    if is_split(spec):
        starts = starts_of_classes(start, len(problems), resume=resume)
        return solve_each_class(
            method, plan.options, problems, labels.classes, plan.limits, starts=starts, constants=constants, **common
        )
    constant = None if constants is None else constants[0]
    return solve(method(problems[0], plan.options), plan.limits, start=start, constant=constant, **common)


def is_split(spec: ProblemSpec) -> bool:
    """Return whether each class is a separate problem."""
    return spec.task == "multiclass" and spec.strategy == "ovr"


def problems_of(
    spec: ProblemSpec,
    data: Rows,
    labels: Labels,
    *,
    sample_weight: Any,
    class_weight: Mapping[object, float] | str | None,
    groups: Any = None,
) -> list[Any]:
    """Return the problem or, for one-vs-rest, the problem of each class."""
    weights: dict[str, Any] = {"sample_weight": sample_weight, "class_weight": class_weight}
    if is_split(spec):
        return list(one_against_rest(spec.of_one_class, data, labels, **weights))
    return [build_problem(spec, data, labels, groups=groups, **weights)]


def shape_of(data: Rows, labels: Labels) -> dict[str, Any]:
    """Return the properties of the data that `resolve_spec` needs."""
    return {
        "n_rows": data.n_rows,
        "n_features": data.n_features,
        "n_classes": labels.n_classes,
        "sparse": data.sparse,
    }


def size_of(data: Rows) -> Size:
    """Return the properties of the data that determine time and memory."""
    return Size(data.stored_entries, 8, data.mean_squared_norm())
