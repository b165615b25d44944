"""`svm1d`: the best linear SVM whose weights are a multiple of one direction, solved exactly.

Schneider, Bogojeska, Vlachos: Solving linear SVMs with multiple 1D projections, CIKM 2014, Algorithm 1 (SVM1D). With
one feature there is one direction, and the answer is the optimum of the whole problem. The algorithm as printed is
not optimal; what is solved here, and how, is in line_problem.py.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.cost import Footprint
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.projections.line_problem import Line
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["OneDirection"]


class OneDirection(Method[BinaryProblem, Any]):
    name = "svm1d"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("free",)
    options = (
        Option(
            "direction",
            str,
            "mean_difference",
            "of the weights where there is more than one feature: from the mean of one class to the other's, the "
            "first feature's, or drawn by the seed; weights given as warm_start go before this option",
            choices=("mean_difference", "first_feature", "random"),
        ),
    )
    footprint = Footprint(row=24.0, squared_row=5.0, feature=4.5, kept_row=0.0, kept_feature=1.0)
    paper = "Schneider, Bogojeska, Vlachos (2014): Solving linear SVMs with multiple 1D projections, Algorithm 1"
    notes = (
        "Exact for one feature, in one pass and a sort. With more features it is the best multiple of one direction "
        "and the certificate says how far that is from the optimum."
    )
    exact = False
    has_estimate = False

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.line = Line(problem.signs, problem.costs, problem.spec.exponent)

    def init(self, seed: int, start: Start) -> State:
        coef = start.coef
        if start.state is not None:
            coef = np.array(start.state.get("direction", ()), dtype=np.float64)
            if coef.shape != (self.problem.data.n_features,) or not np.isfinite(coef).all():
                features = self.problem.data.n_features
                raise InvalidOptions("warm_start", f"is not a state of svm1d on {features} features")
        state: State = {"passes": 0, "steps": 0, "slope": 0.0, "intercept": 0.0}
        direction = self._direction(state, seed) if coef is None else coef
        largest = float(np.abs(direction).max())
        if direction.size == 1 or not 0.0 < largest < np.inf:
            # One feature has one direction; and two classes with one mean suggest none.
            direction, largest = np.eye(1, direction.size)[0], 1.0
        direction = direction / largest
        state["direction"] = direction / np.sqrt((direction * direction).sum())
        return state

    def step(self, state: State, target: float) -> Progress:
        z, direction = np.empty(self.problem.data.n_rows), state["direction"]
        self.problem.data.margins(direction, z)
        state["passes"] += 1
        state["steps"] += 1
        optimum = self.line.solve(z, float((direction**2).sum()))
        if not np.isfinite(optimum.value):
            return Progress(state["steps"], state["passes"], None, None, None, Status.NONFINITE)
        state["slope"], state["intercept"] = optimum.slope, optimum.bias
        if direction.size == 1:
            state["alpha"] = self.line.dual_point(z, optimum)
        return Progress(state["steps"], state["passes"], optimum.value, None, None, Status.STALLED)

    def extract(self, state: State) -> Point:
        # With more features the line's dual point is feasible but proves less than one from the margins.
        alpha = state["alpha"].copy() if "alpha" in state else None
        return Point(state["slope"] * state["direction"], state["intercept"], alpha)

    def _direction(self, state: State, seed: int) -> Floats:
        """As the option says, of any length."""
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
            state["passes"] += 1
        return direction
