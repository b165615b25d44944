"""`alm_exact`: the augmented Lagrangian method with the weights updated by least squares, Algorithm 1 of the paper.

What it shares with `alm_inexact` is in augmented_lagrangian.py. The least-squares problem of the weights has
the normal equations (I + H' mu H) step = r, where only the right side changes as long as mu does not. With few
features the matrix is summed up once and factored again when mu changes; an iteration is then one read of X. With
more of them conjugate gradients (the paper has LSQR, which is the same iteration in other variables) start from the
weights before, each product one read, and end where the residual is a given share of the first: with a tenth the
outer iterations are about as many as with exact updates.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.linalg.cholesky import cholesky_factor, cholesky_solve
from solvers.linalg.types import Floats
from solvers.method import Option, Progress
from solvers.methods.alm.augmented_lagrangian import AugmentedLagrangian, shared_options
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["ExactAugmentedLagrangian"]

MAX_FACTORED, MAX_FACTORED_A_ROW = 2048, 2
"""Features up to which the matrix is formed: it and its factor are then 70 MB; and of how many for each row, since with
fewer rows conjugate gradients end after as many products (600 rows of 1,800 features: in a quarter of the time)."""
FEW = 256  # features: nothing takes long
MOST_PRODUCTS = 200


class ExactAugmentedLagrangian(AugmentedLagrangian):
    name = "alm_exact"
    options = (
        *shared_options(multiplier_step=1.6),
        Option(
            "least_squares",
            str,
            "auto",
            f"how the weights are updated: factor forms a matrix of features x features, cg reads X for each product; "
            f"auto: factor up to {MAX_FACTORED} features, if that is at most {MAX_FACTORED_A_ROW} a row or {FEW}",
            choices=("auto", "factor", "cg"),
        ),
        Option(
            "cg_tol", float, 0.03, "the share of the residual at which conjugate gradients end", low=1e-12, high=0.9
        ),
    )
    footprint = Footprint(
        row=17.0,
        squared_row=1.0,
        feature=9.2,
        square=4.0,
        most_squared=MAX_FACTORED,
        most_squared_a_row=MAX_FACTORED_A_ROW,
        kept_row=3.0,
        kept_feature=4.0,
    )
    pace = Pace(
        least=4.1,
        hardness=0.52,
        precision=0.22,
        tallness=0.16,
        row_seconds=8.2e-8,
        pass_seconds=1.2e-4,
        gram_seconds=1.1e-10,
    )
    notes = (
        "Any p from 1 to 2 and any bias, to high precision. Suits few features; hinge with large C on long rows takes "
        "thousands of iterations. For p = 1 and p = 2 without a free bias there are faster solvers."
    )

    @classmethod
    def footprint_with(cls, options: Mapping[str, Any]) -> Footprint:
        most = {"factor": math.inf, "cg": 0.0}.get(options["least_squares"])
        return cls.footprint if most is None else replace(cls.footprint, most_squared=most, most_squared_a_row=most)

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        way, d = options["least_squares"], problem.data.n_features
        is_small = d <= max(FEW, min(MAX_FACTORED, MAX_FACTORED_A_ROW * problem.data.n_rows))
        self.is_factored = way == "factor" or (way == "auto" and is_small)
        self.gram: Floats | None = None
        self.factor: Floats | None = None
        self.factored_mu = math.nan

    def step(self, state: State, target: float) -> Progress:
        if self.is_factored and self.gram is None:
            state["passes"] += 1
            k = self.problem.data.n_features + 1
            self.gram = np.zeros((k, k))
            self.problem.data.add_gram(self.penalties.scales, self.bias_feature, self.gram)
            finished = None if math.isfinite(float(self.gram.trace())) else Status.NONFINITE
            return Progress(state["iterations"], state["passes"], None, None, None, finished)
        return super().step(state, target)

    def _update_weights(self, state: State) -> bool:
        if self.gram is None:
            return False
        if self.factor is None or self.factored_mu != state["mu"]:
            matrix = state["mu"] * self.gram
            k = matrix.shape[0]
            # Beside a larger trace the identity is lost in rounding, and the matrix would be singular.
            lost = k * float(np.finfo(float).eps) * float(matrix.trace())
            matrix[np.arange(k), np.arange(k)] += np.maximum(self.ridge, lost)
            self.factor, self.factored_mu = cholesky_factor(matrix, 0.0), state["mu"]
        state["weights"] = state["weights"] + cholesky_solve(self.factor, state["residual"])
        return True

    def _is_updated(self, state: State) -> bool:
        is_small = state["rho"] <= self.chosen["cg_tol"] ** 2 * state["rho_start"]
        return bool(is_small or state["products"] >= MOST_PRODUCTS)
