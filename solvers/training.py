"""The package's entry points: what was asked for becomes a problem, a method and a run.

`check` and `train` decide everything through `_plan`, so a configuration that `check` accepts is one
that `train` runs, given data of that shape.
"""

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np

from .checks import whole_number
from .choice import Choice, choose
from .driver import Callback, Limits, solve
from .errors import InvalidOptions, InvalidProblem, UnsupportedProblem
from .estimates import Estimate, Size, estimate_run
from .formulation import build_problem, one_against_rest
from .labels import read_labels
from .one_vs_rest import class_states, solve_each_class
from .protocol import Method, Start
from .registry import registered, with_implied_strategy
from .result import Counts, SolveResult, State
from .row_blocks import RowBlocks
from .row_compression import compressed_bytes, is_compressible
from .rows import Rows, as_rows
from .setting import Setting, check_class_weight, resolve_setting

__all__ = ["Plan", "available", "check", "estimate", "train"]


class Plan(TypedDict):
    """What would run."""

    solver: str
    reason: str
    """Why this solver."""
    task: str
    loss: str
    bias: str


def train(
    X: Any,
    y: Any,
    solver: str = "auto",
    task: str = "auto",
    strategy: str = "ovr",
    loss: str = "auto",
    p: float | None = None,
    C: float = 1.0,
    c_scale: str = "sum",
    bias: str = "regularized",
    bias_scale: float = 1.0,
    sample_weight: Any = None,
    class_weight: Mapping[Any, float] | str | None = None,
    groups: Any = None,
    epsilon: float = 0.1,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    max_passes: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    warm_start: Any = None,
    resume: bool = False,
    callback: Callback | None = None,
    options: Mapping[str, Any] | None = None,
) -> SolveResult:
    """Train on the rows of X (numpy array or scipy sparse matrix) with labels y; see docs/solvers.md.

    `warm_start` takes an earlier result, its `state`, a vector of weights, or (weights, intercept). With `resume` it
    must be a state, and the run goes on as if it had not been interrupted: iterations, passes and seconds count on, and
    what was used up counts towards the limits.
    `callback` is called with a `StepReport` after every pass; returning True stops the run, which then
    returns its best point.
    """
    started = time.perf_counter()
    data = as_rows(X, compress=True)
    labels = read_labels(y, task)
    if labels.n_rows != data.n_rows:
        raise InvalidProblem("y", f"has {labels.n_rows} labels for {data.n_rows} rows of X")
    if callback is not None and not callable(callback):
        raise InvalidOptions("callback", "must be a function of one StepReport")
    if resume and not isinstance(warm_start, Mapping):
        raise InvalidOptions("resume", "needs a state as warm_start")
    plan = _plan(
        size=Size(data.stored_entries, 8, data.mean_squared_norm()),
        earlier=warm_start.get("solver") if resume else None,
        has_weights=warm_start is not None and not resume,
        n_rows=data.n_rows,
        n_features=data.n_features,
        n_classes=labels.n_classes,
        sparse=data.sparse,
        solver=solver,
        task=task,
        strategy=strategy,
        loss=loss,
        p=p,
        C=C,
        c_scale=c_scale,
        bias=bias,
        bias_scale=bias_scale,
        class_weight=class_weight,
        epsilon=epsilon,
        tol=tol,
        max_seconds=max_seconds,
        max_passes=max_passes,
        seed=seed,
        threads=threads,
        options=options,
    )
    if isinstance(data, RowBlocks) and not plan.choice.method.reads_in_passes:
        able = " or ".join(name for name, method in registered().items() if method.reads_in_passes)
        raise UnsupportedProblem(
            "solver", f"{plan.choice.method.name} needs row access, and X comes in blocks; use {able}"
        )
    if groups is not None and plan.setting.task != "ordinal":
        raise InvalidProblem("groups", "have a meaning with task ordinal only; leave them out")
    setting, weights = plan.setting, {"sample_weight": sample_weight, "class_weight": plan.class_weight}
    k = labels.classes.size if setting.task == "multiclass" else None
    start = _read_start(warm_start, plan.choice.method, data, k, resume=resume)
    common: dict[str, Any] = {
        "seed": plan.seed,
        "callback": callback,
        "threads": threads or 1,
        "started": started - start.counts.seconds,
        "reason": plan.choice.reason,
        "successor": plan.choice.successor,
    }
    if setting.task == "multiclass" and setting.strategy == "ovr":
        problems = one_against_rest(setting.of_one_class, data, labels, **weights)
        starts = _starts_of_classes(start, len(problems), resume=resume)
        return solve_each_class(
            plan.choice.method,
            plan.options,
            problems,
            labels.classes,
            plan.limits,
            starts=starts,
            **common,
        )
    method = plan.choice.method(build_problem(setting, data, labels, groups=groups, **weights), plan.options)
    return solve(method, plan.limits, start=start, **common)


def check(
    *,
    n_rows: int,
    n_features: int,
    n_classes: int | None,
    sparse: bool,
    solver: str = "auto",
    task: str = "auto",
    strategy: str = "ovr",
    loss: str = "auto",
    p: float | None = None,
    C: float = 1.0,
    c_scale: str = "sum",
    bias: str = "regularized",
    bias_scale: float = 1.0,
    class_weight: Mapping[Any, float] | str | None = None,
    epsilon: float = 0.1,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    max_passes: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """What `train` would run on data of this shape, or the error it would raise.

    `n_classes` is None for real-valued labels. What "auto" takes depends on the stored numbers too: here it is a guess.
    """
    plan = _plan(
        size=None,
        n_rows=n_rows,
        n_features=n_features,
        n_classes=n_classes,
        sparse=sparse,
        solver=solver,
        task=task,
        strategy=strategy,
        loss=loss,
        p=p,
        C=C,
        c_scale=c_scale,
        bias=bias,
        bias_scale=bias_scale,
        class_weight=class_weight,
        epsilon=epsilon,
        tol=tol,
        max_seconds=max_seconds,
        max_passes=max_passes,
        seed=seed,
        threads=None,
        options=options,
    )
    setting = plan.setting
    return Plan(
        solver=plan.choice.main.name,
        reason=plan.choice.reason,
        task=setting.task,
        loss=setting.loss,
        bias=setting.bias,
    )


def estimate(
    *,
    entries: int,
    nonzeros: int | None = None,
    value_bytes: int = 8,
    squared_norm: float | None = None,
    threads: int = 1,
    n_rows: int,
    n_features: int,
    n_classes: int | None,
    sparse: bool,
    **arguments: Any,
) -> Estimate:
    """What `train` would need on data of this shape, with the arguments of `check`.

    `entries` are the stored numbers of X, of `value_bytes` each, and `nonzeros` those of dense rows that are not zero,
    if they were counted; `squared_norm` is the mean of |x_i|^2, without which nothing is said about seconds.
    """
    copied = 0
    if not sparse and nonzeros is not None and is_compressible(n_rows, n_features, nonzeros, value_bytes):
        copied = compressed_bytes(n_rows, nonzeros, value_bytes)
        sparse, entries = True, nonzeros
    shape = {"n_rows": n_rows, "n_features": n_features, "n_classes": n_classes, "sparse": sparse}
    size = Size(entries, value_bytes, squared_norm)
    plan = _plan(**{**_defaults(check), **shape, **arguments, "threads": threads, "size": size})
    of_run = estimate_run(
        plan.setting,
        size,
        plan.choice.main.footprint_with(plan.options),
        plan.choice.main.pace,
        tol=plan.limits.tol,
        max_seconds=plan.limits.max_seconds,
        max_passes=plan.limits.max_passes,
        threads=threads,
    )
    return of_run._replace(peak_bytes=of_run.peak_bytes + copied)


def available() -> dict[str, dict[str, Any]]:
    """Every solver: tasks, losses, biases, options with types and ranges, paper, notes."""
    return {name: method.described() for name, method in registered().items()}


class _Planned(NamedTuple):
    setting: Setting
    choice: Choice
    options: dict[str, Any]
    limits: Limits
    class_weight: Mapping[object, float] | str | None
    seed: int


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def _plan(
    *,
    solver: object,
    class_weight: object,
    tol: object,
    max_seconds: object,
    max_passes: object,
    seed: object,
    threads: object,
    options: object,
    size: Size | None = None,
    earlier: object = None,
    has_weights: bool = False,
    **definition: Any,
) -> _Planned:
    """`earlier` is the solver of a run that goes on: what "auto" chose then, it stays with."""
    setting = with_implied_strategy(solver, resolve_setting(**definition))
    if class_weight is not None and setting.task in ("ordinal", "regression"):
        raise InvalidProblem("class_weight", f"has no meaning with task {setting.task}; weigh rows by sample_weight")
    limits = Limits.checked(tol=tol, max_seconds=max_seconds, max_passes=max_passes)
    count = 1 if threads is None else whole_number(threads, "threads", InvalidOptions, low=1)
    choice = choose(solver, setting, size, limits.tol, count)
    if solver == "auto" and earlier in registered() and earlier != choice.method.name:
        choice = choose(earlier, setting, size, limits.tol, count)
    if has_weights:
        choice = choice.from_weights
    return _Planned(
        setting=setting,
        choice=choice,
        options=choice.method.checked_options(options),
        limits=limits,
        class_weight=check_class_weight(class_weight),
        seed=whole_number(seed, "seed", InvalidOptions, low=0, high=2**63 - 1),
    )


def _read_start(
    warm_start: Any, method: type[Method[Any]], data: Rows, n_classes: int | None, *, resume: bool
) -> Start:
    """`n_classes` is None if there is one vector of weights and not one a class."""
    if warm_start is None:
        return Start()
    if isinstance(warm_start, SolveResult):
        if _is_state_for(warm_start.state, method, data):
            return _start_at(warm_start.state, resume=False)
        warm_start = warm_start.coef, warm_start.intercept
    if isinstance(warm_start, Mapping):
        if warm_start.get("solver") != method.name:
            raise InvalidOptions("warm_start", f"is not a state of solver {method.name}; give weights instead")
        return _start_at(dict(warm_start), resume=resume)
    coef, intercept = warm_start if isinstance(warm_start, tuple) and len(warm_start) == 2 else (warm_start, 0.0)
    try:
        coef, intercept = np.array(coef, dtype=np.float64), np.array(intercept, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidOptions("warm_start", "must be a result, a state, weights or (weights, intercept)") from None
    of_classes = () if n_classes is None else (n_classes,)
    wanted = (*of_classes, data.n_features)
    if coef.shape != wanted:
        raise InvalidOptions("warm_start", f"has weights of shape {coef.shape}; shape {wanted} is needed")
    if intercept.shape not in ((), of_classes):
        raise InvalidOptions("warm_start", f"has an intercept of shape {intercept.shape}; shape {of_classes} is needed")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise InvalidOptions("warm_start", "has weights that are NaN or infinite")
    return Start(coef=coef, intercept=np.broadcast_to(intercept, of_classes) if of_classes else float(intercept))


def _start_at(state: State, *, resume: bool) -> Start:
    """An earlier state; it brings its counts along only if the run itself goes on."""
    counts, own = Counts.taken_from(state)
    return Start(state=own, counts=counts) if resume else Start(state=own)


def _starts_of_classes(start: Start, n_classes: int, *, resume: bool) -> list[Start]:
    """Each class's part of a start."""
    if start.state is not None:
        states = class_states(start.state, n_classes)
        return [Start() if state is None else _start_at(state, resume=resume) for state in states]
    if start.coef is None:
        return [Start()] * n_classes
    intercepts = np.broadcast_to(start.intercept, (n_classes,))
    return [Start(coef=start.coef[k], intercept=float(intercepts[k])) for k in range(n_classes)]


def _is_state_for(state: State, method: type[Method[Any]], data: Rows) -> bool:
    """Whether a result's state can go on here; the same model may also start a run on other rows."""
    alphas = [value for name, value in state.items() if name == "alpha" or name.endswith(".alpha")]
    return state.get("solver") == method.name and all(np.shape(alpha)[:1] == (data.n_rows,) for alpha in alphas)
