"""`newton`: Newton's method on the primal problem of squared losses, with a matrix of features x features.

This is the finite Newton method of Mangasarian (2002) and of Keerthi and DeCoste (2005). Squared hinge is piecewise
quadratic, so a step ends at the minimum once the set of rows with a loss is right. The same holds for squared errors
beyond a tube (Ho and Lin 2012). newton_loop.py has the algorithm. Squared losses are its case of a constant h = 1/2
without an upper limit of alpha.
"""

import math

from solvers.cost import Footprint, Pace
from solvers.method import Rehearsal
from solvers.methods.newton.feature_newton import MAX_FEATURES
from solvers.methods.newton.newton_loop import RowNewton
from solvers.methods.newton.newton_state import NewtonState

__all__ = ["Newton"]


class Newton(RowNewton):
    name = "newton"
    losses = ("squared_hinge", "squared_epsilon_insensitive")
    rehearsals = tuple(
        Rehearsal(4800, {"task": task, "loss": loss})  # enough rows for the sampled first steps
        for task, loss in zip(("binary", "regression"), losses, strict=True)
    )
    top = math.inf
    footprint = Footprint(
        row=9.5, free_row=6.5, feature=12.0, square=4.1, kept_row=2.1, kept_feature=6.0, kept_square=1.0
    )
    pace = Pace(
        least=9.6,
        hardness=0.073,
        precision=0.012,
        tallness=-0.071,
        sparsity=0.38,
        entry_seconds=1.5e-9,
        row_seconds=1.7e-8,
        gram_seconds=3e-11,
        divided=0.3,
        cube_seconds=3e-12,
    )
    paper = "Keerthi, DeCoste (2005): A modified finite Newton method for fast solution of large scale linear SVMs"
    notes = f"For many rows and up to a few hundred features: a handful of passes. At most {MAX_FEATURES} features."

    def _change_smoothing(self, state: NewtonState, gain: float, wanted: float) -> bool:
        return False
