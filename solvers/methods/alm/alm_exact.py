"""`alm_exact`: the augmented Lagrangian method with least-squares updates (Nie et al. 2014, Algorithm 1).

What it shares with `alm_inexact` is in augmented_lagrangian.py. The least-squares problem of the weights has the normal
equations (I + H' mu H) step = r, of which only the right side changes as long as mu does not. With few features the
matrix is summed once and factored again when mu changes; an iteration is then one read of X. With more features,
conjugate gradients (the paper has LSQR, the same iteration in other variables) start from the last weights, each
product one read, and end where the residual is a given share of the first. With a share of 0.1 there are about as many
outer iterations as with exact updates.
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
from solvers.methods.alm.augmented_lagrangian import AlmState, AugmentedLagrangian, shared_options
from solvers.problem.problems import BinaryProblem
from solvers.result import Status

__all__ = ["ExactAugmentedLagrangian"]

MAX_FACTORED, MAX_FACTORED_A_ROW = 2048, 2
"""Maximum features for which the matrix is formed, in all (matrix and factor take 70 MB at 2048) and for each row. With
fewer rows than that, conjugate gradients end after as many products (600 rows of 1,800 features: in a quarter of the
time)."""
FEW = 256
"""Number of features up to which the matrix is formed for any number of rows."""
MOST_PRODUCTS = 200
"""Maximum products of one update of the weights."""


class ExactAugmentedLagrangian(AugmentedLagrangian):
    name = "alm_exact"
    options = (
        *shared_options(multiplier_step=1.6),
        Option(
            "least_squares",
            str,
            "auto",
            f"how the weights are updated: factor forms a matrix of features x features; cg reads X for each product; "
            f"auto is factor for at most {MAX_FACTORED} features if these are at most {FEW} or {MAX_FACTORED_A_ROW} "
            "for each row",
            choices=("auto", "factor", "cg"),
        ),
        Option(
            "cg_tol", float, 0.03, "conjugate gradients end at this share of the first residual", low=1e-12, high=0.9
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
        "Any p from 1 to 2 and any bias, to high precision. Suited to few features; hinge with large C on long rows "
        "takes thousands of iterations. For p = 1 and p = 2 without a free bias there are faster solvers."
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

    def step(self, state: AlmState, target: float) -> Progress:
        if self.is_factored and self.gram is None:
            state.passes += 1
            k = self.problem.data.n_features + 1
            self.gram = np.zeros((k, k))
            self.problem.data.add_gram(self.penalties.scales, self.bias_feature, self.gram)
            finished = None if math.isfinite(float(self.gram.trace())) else Status.NONFINITE
            return Progress(state.iterations, state.passes, None, None, None, finished)
        return super().step(state, target)

    def _update_weights(self, state: AlmState) -> bool:
        if self.gram is None:
            return False
        mu = state.penalty.mu
        if self.factor is None or self.factored_mu != mu:
            matrix = mu * self.gram
            k = matrix.shape[0]
            # A trace above 1 / (k eps) swamps the identity in rounding, and the matrix would be singular.
            lost = k * float(np.finfo(float).eps) * float(matrix.trace())
            matrix[np.arange(k), np.arange(k)] += np.maximum(self.ridge, lost)
            self.factor, self.factored_mu = cholesky_factor(matrix, 0.0), mu
        state.weights = state.weights + cholesky_solve(self.factor, state.update.residual)
        return True

    def _is_updated(self, state: AlmState) -> bool:
        is_small = state.update.rho <= self.chosen["cg_tol"] ** 2 * state.update.rho_start
        return bool(is_small or state.update.products >= MOST_PRODUCTS)
