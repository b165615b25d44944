"""The objective value of the best constant model: the model without weights, with the best intercept.

A certificate compares the trained model with it (`Certificate.improvement`). Every value here is a proven lower bound,
rounding included, so that an improvement is never overstated. It is close to the value itself: the search for the
intercept ends when the bound and the value agree to WIDTH; that of classes trained jointly with the hinge loss is a
training on one row for each class.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from solvers.certificates import certify, minimising_bias
from solvers.data.rows import as_rows, read_only
from solvers.engine.registry import registered
from solvers.linalg.types import Floats
from solvers.method import Start
from solvers.problem.problems import BinaryProblem, MulticlassProblem, OrdinalProblem, Problem, RegressionProblem

__all__ = ["constant_value"]

ROUNDING = 1e-12
"""Relative error that is subtracted for rounding. Sums of a million terms have errors below 1e-13. Larger: smaller
values."""
WIDTH = 1e-12
"""Relative difference of value and bound at which the search for the best intercept ends. Larger: smaller values."""
MOST_HALVINGS = 200
"""Maximum steps of the search. 200 halvings divide any interval of doubles down to two neighbours."""
JOINT_STEPS, JOINT_GAP = 1000, 1e-7
"""Maximum steps, and relative gap, of the training that finds the intercepts of jointly trained classes. The bound
holds at any step. Larger steps, smaller gap: more time, larger values."""


class Slope(NamedTuple):
    """The value of a convex function at a point, and a subgradient."""

    value: float
    slope: float


@np.errstate(over="ignore", invalid="ignore")
def constant_value(problem: Problem) -> float:
    """Return a lower bound of the objective of the best constant model. It is 0 at least."""
    if isinstance(problem, OrdinalProblem):
        found = problem.total_cost  # every pair has the loss 1
    elif isinstance(problem, MulticlassProblem):
        found = _of_classes(problem)
    elif isinstance(problem, RegressionProblem):
        found = _of_targets(problem)
    else:
        assert isinstance(problem, BinaryProblem)
        found = _of_two_classes(problem)
    return max(0.0, found * (1.0 - ROUNDING)) if math.isfinite(found) else 0.0


def _of_two_classes(problem: BinaryProblem) -> float:
    loss = problem.loss
    signs = np.array([1.0, -1.0])
    costs = np.array([float(problem.costs[problem.signs == sign].sum()) for sign in signs])

    def at(b: float) -> Slope:
        slacks = loss.margin - signs * b
        value, slope = _penalty(problem, b)
        value += float(loss.value(slacks, costs).sum())
        return Slope(value, slope - float((signs * loss.derivative(slacks, costs)).sum()))

    if problem.spec.bias == "none":
        return at(0.0).value
    return _least(at, 0.0, 1.0)


def _of_targets(problem: RegressionProblem) -> float:
    counts = problem.costs > 0.0
    costs, targets = problem.costs[counts], problem.targets[counts]
    epsilon, is_squared = problem.spec.epsilon, problem.loss.is_squared

    def at(b: float) -> Slope:
        errors = targets - b
        excess = np.maximum(np.abs(errors) - epsilon, 0.0)
        value, slope = _penalty(problem, b)
        sizes = costs * excess
        pulls = 2.0 * sizes if is_squared else costs * (excess > 0.0)
        losses = sizes * excess if is_squared else sizes
        return Slope(value + float(losses.sum()), slope - float((np.sign(errors) * pulls).sum()))

    if problem.spec.bias == "none":
        return at(0.0).value
    middle = minimising_bias(problem, np.zeros(problem.data.n_rows))
    spread = float(np.abs(targets - middle).max())
    if problem.spec.bias == "regularized" and is_squared:  # exact for epsilon 0
        weight = 2.0 * float(costs.sum())
        middle *= weight / (weight + problem.spec.bias_scale**-2.0)
    return _least(at, middle, max(1e-9 * spread, 1e-15 * abs(middle), 1e-300))


def _penalty(problem: Problem, b: float) -> Slope:
    if problem.spec.bias != "regularized":
        return Slope(0.0, 0.0)
    scaled = b / problem.spec.bias_scale
    return Slope(0.5 * scaled * scaled, scaled / problem.spec.bias_scale)


def _least(at: Callable[[float], Slope], middle: float, step: float) -> float:
    """Return a lower bound of the minimum of a convex function. `middle` is a guess of where it is, `step` its error.

    Between two points with slopes of different sign the function lies above both tangents.
    """
    low, high = middle - step, middle + step
    while (of_low := at(low)).slope > 0.0 and math.isfinite(of_low.value):
        low, step = low - step, 4.0 * step
    while (of_high := at(high)).slope < 0.0 and math.isfinite(of_high.value):
        high, step = high + step, 4.0 * step
    bound = -math.inf
    for _ in range(MOST_HALVINGS):
        width = high - low
        bound = max(bound, of_low.value + of_low.slope * width, of_high.value - of_high.slope * width)
        middle = 0.5 * (low + high)
        if min(of_low.value, of_high.value) - bound <= WIDTH * abs(of_low.value) or not low < middle < high:
            break
        found = at(middle)
        if found.slope <= 0.0:
            low, of_low = middle, found
        if found.slope >= 0.0:
            high, of_high = middle, found
    return bound


def _of_classes(problem: MulticlassProblem) -> float:
    """Return the value for classes that are trained jointly."""
    sums = np.bincount(problem.codes, weights=problem.costs, minlength=problem.classes.size)
    costs: Floats = sums.astype(np.float64)
    whole, spec = float(costs.sum()), problem.spec
    is_logistic = spec.loss == "logistic"
    if spec.bias == "none":
        return whole * (math.log(costs.size) if is_logistic else 1.0)
    if spec.bias == "regularized":
        return _of_intercepts(costs, spec.bias_scale) if is_logistic else _of_rows_without_features(problem, costs)
    if is_logistic:
        shares = costs[costs > 0.0] / whole
        return whole * float(-(shares * np.log(shares)).sum())
    # Predicting the largest class costs 2 for each other row, equal scores cost 1 for each row.
    return min(whole, 2.0 * (whole - float(costs.max())))


def _of_rows_without_features(problem: MulticlassProblem, costs: Floats) -> float:
    """Train on one row for each class, with no feature but the constant one; return the proven bound."""
    k = costs.size
    small = replace(
        problem,
        spec=replace(problem.spec, n_rows=k, n_features=1, sparse=False),
        data=as_rows(np.zeros((k, 1))),
        costs=read_only(np.ascontiguousarray(costs)),
        total_cost=float(costs.sum()),
        codes=read_only(np.arange(k, dtype=np.int32)),
    )
    method = registered()["crammer_singer"].by_default(small)
    state = method.init(0, Start())
    for _ in range(JOINT_STEPS):
        progress = method.step(state, JOINT_GAP)
        estimate = progress.gap_estimate
        if progress.finished is not None or (estimate is not None and estimate <= JOINT_GAP):
            break
    return certify(small, method.extract(state)).dual_bound or 0.0


def _of_intercepts(costs: Floats, scale: float) -> float:
    """Return the least 1/2 |b / scale|^2 + sum_k A_k log sum_m exp(b_m - b_k), by Newton's method.

    The function is strongly convex with the constant 1 / scale^2, so it lies at most scale^2 |gradient|^2 / 2 below the
    value at any point.
    """
    whole, stiffness = float(costs.sum()), scale**-2.0

    def value(b: Floats) -> float:
        top = float(b.max())
        losses = whole * (top + math.log(float(np.exp(b - top).sum()))) - float(costs @ b)
        return float(0.5 * stiffness * float(b @ b) + losses)

    b = np.zeros(costs.size)
    reached = value(b)
    bound = -math.inf
    for _ in range(MOST_HALVINGS):
        shares = np.exp(b - b.max())
        shares /= shares.sum()
        gradient = stiffness * b + whole * shares - costs
        bound = max(bound, reached - 0.5 * float(gradient @ gradient) / stiffness)
        if reached - bound <= WIDTH * reached:
            break
        curvature = whole * (np.diag(shares) - np.outer(shares, shares)) + stiffness * np.eye(costs.size)
        try:
            step = -np.linalg.solve(curvature, gradient)
        except np.linalg.LinAlgError:  # costs so large that the penalty is lost in rounding
            break
        length = 1.0
        while value(b + length * step) > reached and length > WIDTH:
            length *= 0.5
        if length <= WIDTH:
            break
        b = b + length * step
        reached = value(b)
    return bound
