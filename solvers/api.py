"""The entry points of the package: `train`, `check`, `estimate`, `certify` and `available`.

Each turns its arguments into a problem, a method and a run. `check`, `estimate` and `train` all call `plan_run`, so
`train` runs every configuration that `check` accepts for data of the same shape. The parameters of the problem are
declared in problem/spec.py.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np

from solvers.cost import Estimate, Size, estimate_run
from solvers.data.compression import compressed_bytes, is_compressible
from solvers.data.rows import Rows, as_rows
from solvers.engine.constant import constant_value
from solvers.engine.driver import Callback
from solvers.engine.judge import certify_weights
from solvers.engine.one_vs_rest import sum_of_classes
from solvers.engine.registry import registered
from solvers.engine.run import is_split, plan_run, problems_of, run_planned, shape_of, size_of
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.clock import solving_time
from solvers.method import Point
from solvers.problem.labels import Labels, read_labels
from solvers.problem.spec import PARAMETERS, Parameters, check_class_weight, resolve_spec
from solvers.result import Certificate, SolveResult

__all__ = ["Plan", "Verdict", "available", "certify", "check", "estimate", "train"]


Entry = TypeVar("Entry", bound=Callable[..., Any])

DEFAULT_TOL = 1e-3
"""Default of `tol`: the relative gap at which a run stops. Smaller: more precise results, more passes. Set by hand; no
measurement is recorded."""


class Plan(TypedDict):
    """The solver that `train` would run."""

    solver: str
    reason: str
    """Why `auto` chose this solver."""
    task: str
    loss: str
    bias: str


class Verdict(NamedTuple):
    """The certificate of given weights."""

    certificate: Certificate
    per_class: list[Certificate] | None
    """The certificate of each class; `certificate` is their sum. None unless the strategy is one-vs-rest."""


def _with_parameters(function: Entry) -> Entry:
    """Add the parameters of a problem, with their defaults, to the function's signature."""
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    declared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default)
        for name, parameter in PARAMETERS.items()
    ]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *declared])
    return function


@_with_parameters
def train(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    sample_weight: Any = None,
    groups: Any = None,
    tol: float | str = DEFAULT_TOL,
    max_seconds: float | None = None,
    max_passes: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    warm_start: Any = None,
    resume: bool = False,
    callback: Callback | None = None,
    options: Mapping[str, Any] | None = None,
    **problem: Unpack[Parameters],
) -> SolveResult:
    """Train on the rows of X (numpy array or scipy sparse matrix) with labels y; see docs/solvers.md.

    `problem` takes the parameters of the problem by name (`Parameters`): task, loss, C and so on. `tol` is the relative
    gap to prove; "auto": 1e-3, and at least 0.99 of what weights can improve over the best constant model
    (`certificate.improvement`). `warm_start` takes an
    earlier result, its `state`, a vector of weights, or (weights, intercept). With `resume`, `warm_start` must be a
    state, and the interrupted run continues. Its iterations, passes and seconds are added to those of the new run and
    count towards the limits. Time limits measure solving only: the clock stops while kernels are compiled or loaded.
    `callback` is called with a `StepReport` after every step. If the callback returns True, the run stops and returns
    its best point.
    """
    started = solving_time()
    data = as_rows(X, compress=True)
    labels = _read_labels(y, problem, data)
    if callback is not None and not callable(callback):
        raise InvalidOptions("callback", "must be a function of one StepReport")
    if resume and not isinstance(warm_start, Mapping):
        raise InvalidOptions("resume", "needs a state as warm_start; pass the `state` of a result, or leave resume out")
    plan = plan_run(
        problem,
        shape=shape_of(data, labels),
        size=size_of(data),
        solver=solver,
        tol=tol,
        max_seconds=max_seconds,
        max_passes=max_passes,
        seed=seed,
        threads=threads,
        options=options,
        earlier=warm_start.get("solver") if resume else None,
        has_weights=warm_start is not None and not resume,
    )
    return run_planned(
        plan,
        data,
        labels,
        sample_weight=sample_weight,
        groups=groups,
        warm_start=warm_start,
        resume=resume,
        callback=callback,
        started=started,
    )


@_with_parameters
def check(
    *,
    n_rows: int,
    n_features: int,
    n_classes: int | None,
    sparse: bool,
    solver: str = "auto",
    tol: float | str = DEFAULT_TOL,
    max_seconds: float | None = None,
    max_passes: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    **problem: Unpack[Parameters],
) -> Plan:
    """Return the solver that `train` would run on data of this shape, or raise the error that `train` would raise.

    `n_classes` is None for real-valued labels. The solver that "auto" chooses also depends on the values of X, which
    are unknown here, so that choice is a guess.
    """
    plan = plan_run(
        problem,
        shape={"n_rows": n_rows, "n_features": n_features, "n_classes": n_classes, "sparse": sparse},
        size=None,
        solver=solver,
        tol=tol,
        max_seconds=max_seconds,
        max_passes=max_passes,
        seed=seed,
        threads=None,
        options=options,
    )
    spec = plan.spec
    return Plan(solver=plan.choice.main.name, reason=plan.choice.reason, task=spec.task, loss=spec.loss, bias=spec.bias)


@_with_parameters
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
    solver: str = "auto",
    tol: float | str = DEFAULT_TOL,
    max_seconds: float | None = None,
    max_passes: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    **problem: Unpack[Parameters],
) -> Estimate:
    """Estimate the memory and time that `train` would need on data of this shape.

    Takes the arguments of `check` and four more. `entries` is the number of stored entries of X, and `value_bytes` the
    size of one entry in bytes. `nonzeros` is the number of non-zero entries of a dense X, if known. `squared_norm` is
    the mean of |x_i|^2. Without it, seconds are not estimated.
    """
    copied = 0
    if not sparse and nonzeros is not None and is_compressible(n_rows, n_features, nonzeros, value_bytes):
        copied = compressed_bytes(n_rows, nonzeros, value_bytes)
        sparse, entries = True, nonzeros
    size = Size(entries, value_bytes, squared_norm)
    plan = plan_run(
        problem,
        shape={"n_rows": n_rows, "n_features": n_features, "n_classes": n_classes, "sparse": sparse},
        size=size,
        solver=solver,
        tol=tol,
        max_seconds=max_seconds,
        max_passes=max_passes,
        seed=seed,
        threads=threads,
        options=options,
    )
    of_run = estimate_run(
        plan.spec,
        size,
        plan.choice.main.footprint_with(plan.options),
        plan.choice.main.pace,
        tol=plan.limits.tol,
        max_seconds=plan.limits.max_seconds,
        max_passes=plan.limits.max_passes,
        threads=threads,
    )
    return of_run._replace(peak_bytes=of_run.peak_bytes + copied)


@_with_parameters
def certify(
    X: Any,
    y: Any,
    coef: Any,
    intercept: Any,
    bounding: Sequence[Point] | None = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    **problem: Unpack[Parameters],
) -> Verdict:
    """Certify the weights `coef` and `intercept` on this data. The other arguments are those of `train`.

    The run that found the weights is not trusted: the problem is built from the data, the primal value is computed from
    the weights, and the dual point is made feasible first. `bounding` is the attribute `bounding` of a `SolveResult`.
    If it is not given, a weaker bound is computed from the weights.
    """
    data = as_rows(X)
    labels = _read_labels(y, problem, data)
    spec = resolve_spec(**shape_of(data, labels), **problem)
    class_weight = check_class_weight(problem.get("class_weight"))
    is_multiclass = spec.task == "multiclass"
    shape = (labels.classes.size, data.n_features) if is_multiclass else (data.n_features,)
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    if coef.shape != shape:
        raise InvalidProblem("coef", f"has shape {coef.shape}; weights of shape {shape} are needed")
    problems = problems_of(spec, data, labels, sample_weight=sample_weight, class_weight=class_weight, groups=groups)
    if is_split(spec):
        points = [Point(coef[k], float(intercept[k]), None) for k in range(len(problems))]
        kept: Sequence[Point | None] = bounding or [None] * len(problems)
        constants = [constant_value(one) for one in problems]
        parts = [
            certify_weights(*one).compared_with(constant)
            for constant, one in zip(constants, zip(problems, points, kept, strict=True), strict=True)
        ]
        return Verdict(sum_of_classes(problems, parts).compared_with(math.fsum(constants)), parts)
    bias = np.asarray(intercept, dtype=np.float64) if is_multiclass else float(intercept)
    point = Point(coef, bias, None)
    found = certify_weights(problems[0], point, bounding[0] if bounding else None)
    return Verdict(found.compared_with(constant_value(problems[0])), None)


def available() -> dict[str, dict[str, Any]]:
    """Describe every solver: tasks, losses, biases, options with types and ranges, paper, notes."""
    return {name: method.described() for name, method in registered().items()}


def _read_labels(y: Any, problem: Parameters, data: Rows) -> Labels:
    labels = read_labels(y, problem.get("task", "auto"))
    if labels.n_rows != data.n_rows:
        raise InvalidProblem("y", f"has {labels.n_rows} labels for {data.n_rows} rows of X")
    return labels
