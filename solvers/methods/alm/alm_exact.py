"""`alm_exact`: the augmented Lagrangian method with least-squares updates (Nie et al. 2014, Algorithm 1).

augmented_lagrangian.py holds the code shared with `alm_inexact`. This method solves the least-squares problem for the
weights exactly. Its normal equations are (I + H' mu H) step = r, and their matrix changes only when mu changes.

- With few features the matrix H' H is computed once, and the system is factored again when mu changes. An iteration
  then costs one pass over X.
- With more features conjugate gradients start from the last weights. The paper uses LSQR, which is the same iteration
  in other variables. Each product costs one pass. The iteration ends when the residual is a given fraction of the first
  residual. With a fraction of 0.1, the method takes about the same number of outer iterations as with exact solutions.
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
"""Maximum number of features for a direct solve: in total, and as a multiple of the number of rows. Larger: direct
solves for wider data, with memory that grows as the square of the features (70 MB for matrix and factor at 2,048). The
second limit exists because conjugate gradients need at most one product per row: on 600 rows of 1,800 features they
took a quarter of the time of a direct solve. Both values were set by hand."""
FEW = 256
"""Number of features up to which the direct solve is used for any number of rows. Larger: direct solves for small, wide
data too. Set by hand; no measurement is recorded."""
MOST_PRODUCTS = 200
"""Maximum conjugate-gradient products (passes over X) in one update of the weights. Larger: more precise updates on
ill-conditioned data, longer iterations. Set by hand; no measurement is recorded."""


class ExactAugmentedLagrangian(AugmentedLagrangian):
    name = "alm_exact"
    options = (
        *shared_options(multiplier_step=1.6),
        Option(
            "least_squares",
            str,
            "auto",
            f"how the weights are updated: factor forms and factors a matrix of features x features; cg makes one pass "
            f"over X per product; auto means factor if there are at most {MAX_FACTORED} features and these are at most "
            f"{FEW} or at most {MAX_FACTORED_A_ROW} times the rows, otherwise cg",
            choices=("auto", "factor", "cg"),
        ),
        Option(
            "cg_tol",
            float,
            0.03,
            "relative residual at which the conjugate gradients of one update end",
            low=1e-12,
            high=0.9,
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
            # If the trace is above 1 / (k eps), adding the identity is lost in rounding, and the matrix can be
            # singular.
            lost = k * float(np.finfo(float).eps) * float(matrix.trace())
            matrix[np.arange(k), np.arange(k)] += np.maximum(self.ridge, lost)
            self.factor, self.factored_mu = cholesky_factor(matrix, 0.0), mu
        state.weights = state.weights + cholesky_solve(self.factor, state.update.residual)
        return True

    def _is_updated(self, state: AlmState) -> bool:
        is_small = state.update.rho <= self.chosen["cg_tol"] ** 2 * state.update.rho_start
        return bool(is_small or state.update.products >= MOST_PRODUCTS)
