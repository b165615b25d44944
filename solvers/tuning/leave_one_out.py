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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import evaluate_pair
from solvers.certificates.evaluation import length_at_most
from solvers.checks import real_number, whole_number
from solvers.errors import InvalidOptions
from solvers.linalg.rounding import UNIT, above, gamma
from solvers.linalg.types import Array, Floats
from solvers.problem.spec import PARAMETERS, Parameters, ProblemSpec
from solvers.tuning.bounds import UNDERFLOW, HeldOut, no_ends, score_bounds_at, weights_with_bias
from solvers.tuning.curve import Metric, read_metric
from solvers.tuning.folds import Fold
from solvers.tuning.path import FoldPath, FoldSolve, Subject, Training
from solvers.tuning.search import read_subject

__all__ = ["LeaveOneOut", "leave_one_out"]

REFIT_TOL = 1e-6
"""Relative gap of the first training without a row. While the row's label is undecided, the next one uses 1e-3 of it.
Smaller: longer first trainings. Chosen."""
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
    """Rows whose label is not certain; regression: none are counted."""
    refits: int
    """Rows that were decided, or tried, by a training without them."""
    relative_gap: float | None
    """Of the training of all rows."""


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
    **problem: Any,
) -> LeaveOneOut:
    """Bound the leave-one-out error at C from one training, and then by at most `refits` trainings without one row
    each.

    A row's label is undecided if removing its own multiplier could move its score across 0. Preprocessing is assumed to
    be fixed. `problem` are the `Parameters` by name, as for `train`.
    """
    subject, spec = read_subject(X, y, sample_weight, solver, problem)
    C = PARAMETERS["C"].checked("C", C)
    refits = whole_number(refits, "refits", InvalidOptions, low=0)
    tol = real_number(tol, "tol", InvalidOptions, above=0.0)
    metric = read_metric(None, spec.task)
    reason = _why_not(spec, problem)
    if reason is not None:
        nothing = np.empty(0)
        return LeaveOneOut(metric.name, None, None, reason, nothing, nothing, np.empty(0, dtype=np.int64), 0, None)
    training = Training(cast(Parameters, problem), solver, seed, threads, options)
    result = training.run(subject, C, tol)
    beta = spec.bias_scale if spec.bias == "regularized" else 0.0
    rows = HeldOut.of(subject.data, subject.truth, beta, uses_differences=False)
    are_joint = spec.task == "multiclass" and spec.strategy != "ovr"
    problems, points = training.pairs(subject, C, result)
    parts = [_without_itself(*pair, rows, are_joint) for pair in zip(problems, points, strict=True)]
    low, high = (one[0] if len(one) == 1 else np.stack(one, axis=1) for one in zip(*parts, strict=True))
    start = FoldSolve(-1, C, tol, 0.0, 0.0, "", result.coef, np.asarray(result.intercept), low, no_ends())
    undecided = _undecided(metric, low, high)
    # Without the only row of a class there is nothing to train: such a row stays open.
    usable = [row for row in undecided if np.count_nonzero(subject.truth == subject.truth[row]) > 1]
    tried = min(refits, len(usable))
    for row in usable[:tried]:
        low[row], high[row] = _refitted(training, subject, int(row), start, are_joint, metric)
    lower, upper = metric.bounds(low[None], high[None], subject.truth)
    gap = result.certificate.relative_gap
    return LeaveOneOut(
        metric.name, float(lower[0]), float(upper[0]), None, low, high, _undecided(metric, low, high), tried, gap
    )


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
    # At most gap - 1/2 |d|^2, with |d| at least what is computed less its errors.
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
    training: Training, subject: Subject, row: int, start: FoldSolve, are_joint: bool, metric: Metric
) -> tuple[Array, Array]:
    """Return bounds of a row's score from a training without it, precise enough to decide its label if possible."""
    others = np.delete(np.arange(subject.data.n_rows), row)
    path = FoldPath(training, subject, Fold(row, others, np.array([row])), uses_differences=False)
    tol = REFIT_TOL
    while True:
        start = path.solve(start.C, tol, neighbours=[start], with_ends=True)
        low, high = score_bounds_at(start.ends, path.held_out.judged, are_joint=are_joint)
        if tol <= LEAST_TOL or metric.decided_rows(low, high):
            return low[0, 0], high[0, 0]
        tol = max(LEAST_TOL, 1e-3 * tol)
