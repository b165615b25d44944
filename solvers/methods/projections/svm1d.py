"""`svm1d`: the best linear SVM whose weights are a multiple of one direction, solved exactly.

Schneider, Bogojeska, Vlachos (2014), Algorithm 1 (SVM1D). With one feature there is only one direction, and the result
is the optimum of the whole problem. The algorithm as printed is not optimal; line_problem.py describes the exact one
used here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.cost import Footprint
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.projections.line_problem import Line
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["OneDirection", "Svm1dState"]


@dataclass(slots=True)
class Svm1dState(State):
    direction: Floats  # direction of norm 1
    slope: float  # the weights are slope times direction
    intercept: float
    line_alpha: Floats  # dual point of the line; empty if there is more than one feature
    passes: int
    steps: int


class OneDirection(Method[BinaryProblem, Svm1dState]):
    state_type = Svm1dState
    name = "svm1d"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("free",)
    options = (
        Option(
            "direction",
            str,
            "mean_difference",
            "direction of the weights with more than one feature: from the mean of one class to that of the other, "
            "along the first feature, or random by the seed; weights given as warm_start replace it",
            choices=("mean_difference", "first_feature", "random"),
        ),
    )
    footprint = Footprint(row=24.0, squared_row=5.0, feature=4.5, kept_row=0.0, kept_feature=1.0)
    paper = "Schneider, Bogojeska, Vlachos (2014): Solving linear SVMs with multiple 1D projections, Algorithm 1"
    notes = (
        "Exact for one feature, in one pass and a sort. With more features it finds the best multiple of one "
        "direction; the certificate shows how far that is from the optimum."
    )
    exact = False
    has_estimate = False

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.line = Line(problem.signs, problem.costs, is_squared=problem.loss.is_squared)

    def init(self, seed: int, start: Start) -> Svm1dState:
        direction, earlier = start.coef, self.earlier(start)
        if earlier is not None:
            direction, features = earlier.direction, self.problem.data.n_features
            if direction.shape != (features,) or not np.isfinite(direction).all():
                raise InvalidOptions(
                    "warm_start", f"is not a state of svm1d on data with {features} features; leave it out"
                )
        passes = 0
        if direction is None:
            direction = self._chosen_direction(seed)
            passes = int(self.chosen["direction"] == "mean_difference")
        return Svm1dState(_of_length_one(direction), 0.0, 0.0, np.empty(0), passes, 0)

    def step(self, state: Svm1dState, target: float) -> Progress:
        z, direction = np.empty(self.problem.data.n_rows), state.direction
        self.problem.data.margins(direction, z)
        state.passes += 1
        state.steps += 1
        optimum = self.line.solve(z, float((direction**2).sum()))
        if not np.isfinite(optimum.value):
            return Progress(state.steps, state.passes, None, None, None, Status.NONFINITE)
        state.slope, state.intercept = optimum.slope, optimum.bias
        if direction.size == 1:
            state.line_alpha = self.line.dual_point(z, optimum)
        return Progress(state.steps, state.passes, optimum.value, None, None, Status.STALLED)

    def extract(self, state: Svm1dState) -> Point:
        # With more features the line's dual point is feasible, but one computed from the margins gives a better bound.
        alpha = state.line_alpha.copy() if state.line_alpha.size > 0 else None
        return Point(state.slope * state.direction, state.intercept, alpha)

    def _chosen_direction(self, seed: int) -> Floats:
        """Return the direction that the option selects, of any norm. The difference of the means costs one pass."""
        problem = self.problem
        direction = np.zeros(problem.data.n_features)
        if self.chosen["direction"] == "first_feature":
            direction[0] = 1.0
        elif self.chosen["direction"] == "random":
            direction = np.random.default_rng(seed).standard_normal(problem.data.n_features)
        else:
            masses = {sign: float(problem.costs[problem.signs == sign].sum()) or 1.0 for sign in (1.0, -1.0)}
            shares = problem.costs / np.where(problem.signs > 0.0, masses[1.0], -masses[-1.0])
            problem.data.weighted_column_sums(shares, direction)
        return direction


def _of_length_one(direction: Floats) -> Floats:
    """Scale the direction to norm 1. Return the first axis if there is one feature or the norm is 0 or infinite."""
    largest = float(np.abs(direction).max())
    if direction.size == 1 or not 0.0 < largest < np.inf:
        direction, largest = np.eye(1, direction.size)[0], 1.0
    direction = direction / largest
    return np.asarray(direction / np.sqrt((direction * direction).sum()))
