"""`smooth_newton`: Newton's method on losses with kinks, smoothed over a width, by a matrix of features x features.

With the hinge smoothed over a width h (quadratic for slacks from 0 to h), alpha_i = C_i min(max(s_i / h, 0), 1) is a
dual point of the true problem. Its gap at w is 1/2 |w - u|^2 plus sum alpha_i (1 - alpha_i / C_i) h over the rows
between the kinks; rows at a bound add nothing. So the gap falls with the square of h, and 1e-3 needs no less than a
tenth of the margin. The width starts at 2, on samples, and shrinks each time the smooth problem is solved to a share of
what smoothing adds to the gap.

For small gaps h does not have to approach 0: on all rows each new width takes the shares reached before as multipliers,
q_i in row_terms.py. This is the augmented Lagrangian method (Nie et al. 2014 apply it to the residuals), with a Newton
step in place of a gradient step or least squares. At its solution alpha solves the problem for any h.

Regression has two such kinks, one at either side of the tube, and alpha_i from -C_i to C_i. A margin is 1 for any data,
but errors have the scale of the targets: widths there are multiples of the mean error beyond the tube.
"""

import math

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.method import Rehearsal
from solvers.methods.newton.feature_newton import MAX_FEATURES
from solvers.methods.newton.newton_loop import RowNewton
from solvers.methods.newton.newton_state import NewtonState
from solvers.methods.newton.row_terms import shares_of

__all__ = ["SmoothNewton"]

FIRST_WIDTH = 2.0
"""First width. At w = 0 every row then has half of its cost as alpha, and curves; with targets, the median row does."""
WARM_WIDTH = 0.1
"""First width from given weights. Larger: weights of another problem are corrected in fewer steps, good ones lost."""
SMOOTH_SHARE = 0.4
"""Share of the wanted gap that smoothing may add in the end; the rest is left to the gradient."""
SOLVED_SHARE = 0.1
"""A width is left when its problem can be lowered by at most this share of what smoothing adds to the gap."""
SHRINK = 0.25
"""Least factor from a width to the next. With a smaller one the rows between the kinks are nearly all others."""
SHRINK_WITH_MULTIPLIERS, SHRINK_FINELY, FINE = 0.7, 0.5, 1e-4
"""Least factor from a width to the next with multipliers, above and below a blur of FINE, and only if multipliers alone
lower the blur by less than SHRINK. A wider kink needs fewer steps; below FINE multipliers alone close the gap so slowly
that rounding ends the run first."""


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

    def _prepare(self, state: NewtonState, *, is_warm: bool) -> None:
        state.h = (WARM_WIDTH if is_warm else FIRST_WIDTH) * self._first_error(state)
        state.last_blur = 0.0

    def _change_smoothing(self, state: NewtonState, gain: float, wanted: float) -> bool:
        blur = state.blur
        if gain > SOLVED_SHARE * max(blur, wanted) or blur <= SMOOTH_SHARE * wanted:
            return False
        # Without multipliers the blur falls with the square of the width.
        needed = 0.9 * math.sqrt(SMOOTH_SHARE * wanted / blur)
        if state.stride > 1 or state.phase == "moved":
            state.h *= max(SHRINK, needed)
            if self.low < 0.0 and state.spread > 0.0:
                state.h = min(state.h, FIRST_WIDTH * state.spread)
            return True
        if state.misfit > max(blur, SMOOTH_SHARE * wanted):
            return False  # taking shares as multipliers where alpha and w disagree made the method cycle
        smoothing, state.before = self._smoothing(state), np.empty(state.slack.size)
        shares_of(read_only(state.slack), smoothing, state.before)
        if blur > SHRINK * state.last_blur:
            state.h *= max(SHRINK_WITH_MULTIPLIERS if blur > FINE else SHRINK_FINELY, needed)
        state.last_blur = blur
        return True

    def _first_error(self, state: NewtonState) -> float:
        """The scale of errors before training: 1 for classes, the mean error beyond the tube for targets."""
        if self.low == 0.0:
            return 1.0
        errors = np.abs(self.labels - self.constant * state.trial[-1])
        mean = float((self.problem.costs * np.maximum(errors - self.tube, 0.0)).sum()) / self.problem.total_cost
        return mean if mean > 0.0 else 1.0
