"""`smooth_newton`: Newton's method on losses with kinks, smoothed over a width, by a matrix of features x features.

With the hinge smoothed over a width h (quadratic for slacks from 0 to h), alpha_i = C_i min(max(s_i / h, 0), 1) is a
dual point of the true problem, and its gap at w is 1/2 |w - u|^2 plus sum alpha_i (1 - alpha_i / C_i) h over the rows
between the kinks alone: rows at a bound cost nothing. So the gap falls with the square of h, and 1e-3 needs no more
than a tenth of the margin. The width is followed down from 2, on samples first, each time the smooth problem is solved
to a part of what smoothing costs.

For small gaps h need not go to 0: on all rows each new width takes the shares reached so far as multipliers, q_i in
row_terms.py, which is the augmented Lagrangian method (Nie et al. 2014 apply it to the residuals)
with a Newton step where that has a gradient step or least squares. At its solution alpha solves the problem for any h.

Regression has two such kinks, at either side of the tube, and alpha_i from -C_i to C_i. A margin is 1 whatever the data
is, but errors may be of any size: there widths are multiples of the mean error beyond the tube.
"""

import math

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.method import Rehearsal
from solvers.methods.newton.newton_loop import MAX_FEATURES, RowNewton
from solvers.methods.newton.row_terms import shares_of
from solvers.state import StoredState as State

__all__ = ["SmoothNewton"]

FIRST_WIDTH = 2.0  # at w = 0 every row then has half of its cost, and all rows curve; of targets, the usual row
WARM_WIDTH = 0.1  # from weights that were given: those of another problem are then still put right in a few steps
SMOOTH_SHARE = 0.4  # of the gap that is wanted: what smoothing may cost in the end; the rest is the gradient's
SOLVED_SHARE = 0.1  # of what smoothing costs: what a smooth problem may still be lowered by when it is left
SHRINK = 0.25  # of the width, at most: beyond that the rows between the kinks are all others
SHRINK_WITH_MULTIPLIERS, SHRINK_FINELY, FINE = 0.7, 0.5, 1e-4
"""And only if they alone gain less than `SHRINK`: a wide kink needs fewer steps, but below this share of the objective
multipliers alone close the gap so slowly that rounding ends the run first."""


class SmoothNewton(RowNewton):
    name = "smooth_newton"
    losses = ("hinge", "epsilon_insensitive")
    rehearsals = tuple(
        Rehearsal(4800, {"task": task, "loss": loss})  # enough rows for the sampled first steps
        for task, loss in zip(("binary", "regression"), losses, strict=True)
    )
    top = 1.0
    footprint = Footprint(
        row=10.5, free_row=8.0, feature=12.0, square=4.1, kept_row=3.1, kept_feature=6.0, kept_square=1.0
    )
    pace = Pace(
        least=16,
        hardness=0.14,
        precision=0.12,
        tallness=-0.23,
        sparsity=0.38,
        entry_seconds=1.5e-9,
        row_seconds=7.2e-8,
        gram_seconds=4.5e-11,
        cube_seconds=2.1e-11,
        divided=0.3,
    )
    paper = "Chapelle (2007): Training a support vector machine in the primal; Nie et al. (2014) for the multipliers"
    notes = f"Losses with kinks on many rows of up to a few hundred features, any C. At most {MAX_FEATURES} features."

    def _prepare(self, state: State, *, is_warm: bool) -> None:
        state["h"] = (WARM_WIDTH if is_warm else FIRST_WIDTH) * self._first_error(state)
        state["last_blur"] = 0.0  # when multipliers were taken last

    def _advance(self, state: State, gain: float, wanted: float) -> bool:
        blur = state["blur"]
        if gain > SOLVED_SHARE * max(blur, wanted) or blur <= SMOOTH_SHARE * wanted:
            return False
        # Without multipliers the cost of smoothing falls with the square of the width.
        needed = 0.9 * math.sqrt(SMOOTH_SHARE * wanted / blur)
        if state["stride"] > 1 or state["phase"] == "moved":
            state["h"] *= max(SHRINK, needed)
            if self.low < 0.0 and state["spread"] > 0.0:
                state["h"] = min(state["h"], FIRST_WIDTH * state["spread"])
            return True
        if state["misfit"] > max(blur, SMOOTH_SHARE * wanted):
            return False  # shares of a point where alpha and w disagree are no multipliers: it then went in circles
        before, state["before"] = state["before"], np.empty(state["slack"].size)
        smoothing = state["h"], self.low, self.top, self.tube, read_only(before)
        shares_of(read_only(state["slack"]), *smoothing, state["before"])
        if blur > SHRINK * state["last_blur"]:
            state["h"] *= max(SHRINK_WITH_MULTIPLIERS if blur > FINE else SHRINK_FINELY, needed)
        state["last_blur"] = blur
        return True

    def _first_error(self, state: State) -> float:
        """What errors are like before anything is learnt: 1 for classes, the mean beyond the tube for targets."""
        if self.low == 0.0:
            return 1.0
        errors = np.abs(self.labels - self.constant * state["trial"][-1])
        mean = float((self.problem.costs * np.maximum(errors - self.tube, 0.0)).sum()) / self.problem.total_cost
        return mean if mean > 0.0 else 1.0
