"""Leave-one-out bounds from one training: bounds of each row's score under the exact model of all other rows.

Without row i, the dual point alpha with alpha_i = 0 is still feasible, and v = sigma_i h_i is subtracted from w(alpha),
where sigma_i is the row's signed multiplier. The gap between w and that dual point is 1/2 |d + v|^2 + G, with d = w -
w(alpha) and G = gap - 1/2 |d|^2, minus the row's own term. As in bounds.py, the exact model without the row lies in a
ball:

    centre (w + w(alpha) - v) / 2,        radius^2 <= 1/4 |d + v|^2 + G <= 1/4 (|d| + |sigma_i| |h_i|)^2 + G

So its score of the row differs from that of the centre, m . h_i - 1/2 sigma_i |h_i|^2, by at most |h_i| times the
radius. For an exact solution the bounds are f(x_i) - sigma_i |h_i|^2 and f(x_i), in either order.

The costs of the other rows must not depend on the row, so there are no bounds for `c_scale` mean and balanced classes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import evaluate_pair
from solvers.certificates.evaluation import length_at_most
from solvers.checks import real_number, whole_number
from solvers.engine.driver import Callback
from solvers.engine.judge import certify_weights
from solvers.engine.one_vs_rest import sum_of_classes
from solvers.engine.run import problems_of
from solvers.errors import InvalidOptions, UnsupportedProblem
from solvers.linalg.rounding import UNIT, above, gamma
from solvers.linalg.types import Array, Floats
from solvers.method import Point
from solvers.problem.problems import BinaryProblem, Problem
from solvers.problem.spec import PARAMETERS, Parameters, ProblemSpec, check_class_weight
from solvers.tuning.bounds import UNDERFLOW, HeldOut, no_ends, score_bounds_at, weights_with_bias
from solvers.tuning.curve import Metric, read_metric
from solvers.tuning.folds import SEARCH, Fold
from solvers.tuning.path import FoldPath, FoldSolve, Training
from solvers.tuning.source import Source, Subject, read_source

__all__ = ["LeaveOneOut", "leave_one_out"]

OnRefit = Callable[[int, int], object]
"""Called with the number of rows that were left out so far, and the maximum number of rows to leave out."""

REFIT_TOL = 1e-6
"""Relative gap of the first training without a row. While the row's label is undecided, the next training uses 1e-3 of
this gap. Larger: shorter first trainings, more repeats. Set by hand; no measurement is recorded."""
LEAST_TOL = 1e-12


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Bounds of the leave-one-out error of the exact models: each row is predicted by the model of all others."""

    metric: str
    """error, or mae for regression"""
    lower: float | None
    upper: float | None
    """None: no bounds, see `reason`."""
    reason: str | None
    low: Floats
    """A lower bound of each row's score by the exact model without the row; several classes: of each class."""
    high: Floats
    undecided: NDArray[np.int64]
    """Rows whose label is not certain; empty for regression."""
    refits: int
    """Number of rows that were left out of a training, whether or not this decided their label."""
    relative_gap: float | None
    """Of the model of all rows."""
    trained: bool = True
    """Whether all rows were trained on; False: the given weights and dual point were precise enough."""


def leave_one_out(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    C: float = 1.0,
    refits: int = 0,
    sample_weight: Any = None,
    tol: float = 1e-8,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    warm_start: tuple[Any, Any] | None = None,
    bounding: Sequence[Point] | None = None,
    callback: Callback | None = None,
    on_refit: OnRefit | None = None,
    **problem: Any,
) -> LeaveOneOut:
    """Bound the leave-one-out error at C from one training, and then by at most `refits` trainings without one row
    each.

    A row's label is undecided if removing its own multiplier could move its score across 0. Preprocessing is assumed to
    be fixed. `problem` are the `Parameters` by name, as for `train`.
    `warm_start` are (weights, intercept) of a model of these rows, `bounding` the attribute of its `SolveResult`: if
    they prove a relative gap of at most `tol`, nothing is trained. `callback` is that of `train`. `on_refit` is called
    before each training without a row; if it returns True, the other rows stay undecided.
    """
    source = read_source(X, y, problem.get("task", "auto"), sample_weight=sample_weight)
    training = Training(cast(Parameters, problem), solver, seed, threads, options)
    spec = training.spec(source.labels)
    if spec.task == "ordinal":
        raise UnsupportedProblem("task", "ordinal compares rows with each other; use binary, multiclass or regression")
    subject = source.whole(0)
    C = PARAMETERS["C"].checked("C", C)
    refits = whole_number(refits, "refits", InvalidOptions, low=0)
    tol = real_number(tol, "tol", InvalidOptions, above=0.0)
    metric = read_metric(None, spec.task)
    reason = _why_not(spec, problem)
    if reason is not None:
        nothing = np.empty(0)
        return LeaveOneOut(
            metric.name, None, None, reason, nothing, nothing, np.empty(0, dtype=np.int64), 0, None, False
        )
    known = None if warm_start is None or bounding is None else _known(training, subject, C, warm_start, bounding)
    is_known = known is not None and known.relative_gap is not None and known.relative_gap <= tol
    solved = known if known is not None and is_known else _trained(training, subject, C, tol, warm_start, callback)
    beta = spec.bias_scale if spec.bias == "regularized" else 0.0
    rows = HeldOut.of(subject.data, subject.truth, beta, uses_differences=False)
    are_joint = training.are_joint(source.labels)
    parts = [_without_itself(*pair, rows, are_joint) for pair in zip(solved.problems, solved.points, strict=True)]
    low, high = (one[0] if len(one) == 1 else np.stack(one, axis=1) for one in zip(*parts, strict=True))
    start = FoldSolve(SEARCH, 0, -1, C, tol, 0.0, 0.0, "", solved.coef, solved.intercept, low, no_ends())
    undecided = _undecided(metric, low, high)
    # The only row of a class cannot be left out, because the class would have no row to train on: it stays undecided.
    usable = [row for row in undecided if np.count_nonzero(subject.truth == subject.truth[row]) > 1]
    tried = 0
    for row in usable[:refits]:
        if on_refit is not None and on_refit(tried, min(refits, len(usable))) is True:
            break
        tried += 1
        low[row], high[row] = _refitted(training, source, int(row), start, are_joint, metric)
    lower, upper = metric.bounds(low[None], high[None], subject.truth)
    left = _undecided(metric, low, high)
    bounds = float(lower[0]), float(upper[0])
    return LeaveOneOut(metric.name, *bounds, None, low, high, left, tried, solved.relative_gap, not is_known)


class _Solved(NamedTuple):
    """A model of all rows with its dual point."""

    coef: Floats
    intercept: Floats
    problems: Sequence[Problem]
    points: Sequence[Point]
    relative_gap: float | None


def _trained(
    training: Training, subject: Subject, C: float, tol: float, start: tuple[Any, Any] | None, callback: Callback | None
) -> _Solved:
    result = training.run(subject, C, tol, start=start, callback=callback)
    pairs = training.pairs(subject, C, result)
    return _Solved(result.coef, np.asarray(result.intercept), *pairs, result.certificate.relative_gap)


def _known(
    training: Training, subject: Subject, C: float, weights: tuple[Any, Any], bounding: Sequence[Point]
) -> _Solved | None:
    """Certify given weights with a given dual point; None: the dual point has no multipliers per row."""
    if any(one.alpha is None for one in bounding):
        return None
    problems = problems_of(
        replace(training.spec(subject.labels, subject.data), C=C),
        subject.data,
        subject.labels,
        sample_weight=subject.sample_weight,
        class_weight=check_class_weight(training.problem.get("class_weight")),
    )
    coef, intercept = np.asarray(weights[0], dtype=np.float64), np.asarray(weights[1], dtype=np.float64)
    if len(problems) == 1:
        bias: Any = intercept if coef.ndim == 2 else float(intercept)
        points = [Point(coef, bias, bounding[0].alpha)]
    else:
        points = [Point(coef[k], float(intercept[k]), one.alpha) for k, one in enumerate(bounding)]
    parts = [certify_weights(*pair, pair[1]) for pair in zip(problems, points, strict=True)]
    whole = parts[0] if len(parts) == 1 else sum_of_classes(cast(list[BinaryProblem], problems), parts)
    return _Solved(coef, intercept, problems, points, whole.relative_gap)


def _why_not(spec: ProblemSpec, problem: Mapping[str, Any]) -> str | None:
    if spec.bias == "free":
        return (
            "a free bias is not regularised, so that the model without a row has no bounded distance; use regularized"
        )
    if spec.c_scale == "mean":
        return "with c_scale mean the costs of all rows change when one leaves; use sum"
    if isinstance(problem.get("class_weight"), str):
        return "balanced class weights change when a row leaves; use a table"
    return None


def _without_itself(problem: Any, point: Any, rows: HeldOut, are_joint: bool) -> tuple[Floats, Floats]:
    """Return bounds of every row's score under the model without that row."""
    found, lengths = evaluate_pair(problem, point, 0.0), rows.judged.lengths
    w, v, inexact = weights_with_bias(problem, point), found.dual_weights, problem.cost_error
    middle, sigma, q = 0.5 * (w + v), found.multipliers, lengths * lengths
    size = (
        np.abs(sigma) if sigma.ndim == 1 else np.sqrt((sigma * sigma).sum(axis=1)) * (1.0 + gamma(sigma.shape[1] + 8))
    )
    of_bias = 2.0 * UNIT * float(np.linalg.norm(w[..., -1]))
    of_dual = above(found.dual_error + inexact * length_at_most(v))
    apart = above(length_at_most(w - v) + of_dual + of_bias)
    # At most gap - 1/2 |d|^2. |d| is at least its computed value minus its error bound.
    least = max(0.0, length_at_most(w - v) * (1.0 - gamma(w.size + 16)) - of_dual - of_bias)
    rest = max(0.0, found.gap + 2.0 * inexact * found.primal - 0.5 * least * least * (1.0 - 8.0 * UNIT))
    radius = np.sqrt(0.25 * (apart + size * (1.0 + inexact) * lengths) ** 2 + rest) * (1.0 + 16.0 * UNIT)
    if are_joint:
        radius *= math.sqrt(0.5) * (1.0 + 4.0 * UNIT)
    doubt = above((gamma(rows.rows.longest_row + 16) + 8.0 * UNIT) * length_at_most(middle) + 0.5 * (of_dual + of_bias))
    # |h|^2 is an upper bound of the exact one, off by at most 2^-38 of it.
    half = lengths * (radius + doubt) + (2.0**-38 + inexact) * size * q
    half = half * (1.0 + 8.0 * UNIT)
    half[half > 0.0] += UNDERFLOW
    scores = rows.scores(middle)
    if sigma.ndim == 2:
        scores, half = scores - 0.5 * sigma * q[:, None], half[:, None]
    else:
        scores = scores - 0.5 * sigma * q
    return scores - half, scores + half


def _undecided(metric: Metric, low: Floats, high: Floats) -> NDArray[np.int64]:
    if metric.name != "error":
        return np.empty(0, dtype=np.int64)
    rows = [row for row in range(low.shape[0]) if not metric.decided_rows(low[None, [row]], high[None, [row]])]
    return np.array(rows, dtype=np.int64)


def _refitted(
    training: Training, source: Source, row: int, start: FoldSolve, are_joint: bool, metric: Metric
) -> tuple[Array, Array]:
    """Return bounds of a row's score from a training without it, precise enough to decide its label if possible."""
    others = np.delete(np.arange(source.labels.n_rows), row)
    rows = source.rows_of(Fold(row, others, np.array([row])), 0)
    path = FoldPath(training, rows, uses_differences=False)
    tol = REFIT_TOL
    while True:
        start = path.solve(start.C, tol, neighbours=[start], with_ends=True)
        low, high = score_bounds_at(start.ends, path.held_out.judged, are_joint=are_joint)
        if tol <= LEAST_TOL or metric.decided_rows(low, high):
            return low[0, 0], high[0, 0]
        tol = max(LEAST_TOL, 1e-3 * tol)
