"""`smooth_newton`: Newton's method for losses with kinks, smoothed over a width, with a matrix of features x features.

With the hinge smoothed over a width h (quadratic for slacks from 0 to h), alpha_i = C_i min(max(s_i / h, 0), 1) is a
feasible dual point of the true problem. Its gap at w is 1/2 |w - u|^2 plus the sum of alpha_i (1 - alpha_i / C_i) h
over the curved rows; rows at a bound add nothing. So the gap falls with the square of h, and a gap of 1e-3 needs a
width of about a tenth of the margin. The width starts at 2, on samples. It shrinks each time the smoothed problem is
solved to a fraction of the smoothing's contribution to the gap.

Small gaps do not need h to approach 0. On all rows each new width uses the last shares as multipliers, q_i in
row_terms.py. This is the augmented Lagrangian method (Nie et al. 2014 apply it to the residuals), with a Newton step
instead of a gradient step or a least-squares solve. Its limit solves the problem for any h.

Regression has two kinks, one on each side of the tube, and alpha_i between -C_i and C_i. The margin is 1 for any data,
but errors have the scale of the targets, so the widths there are multiples of the mean error beyond the tube.
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
"""First width of the smoothing, as a multiple of the margin; regression: of the mean error beyond the tube. At w = 0
every row of a classification problem then lies in the quadratic part, with an alpha of half its cost. Larger: more
widths to pass through. Set by hand; no measurement is recorded."""
WARM_WIDTH = 0.1
"""First width of the smoothing after a warm start, in the unit of FIRST_WIDTH. Larger: poor weights are corrected in
fewer steps, but good weights lose precision. Set by hand; no measurement is recorded."""
SMOOTH_SHARE = 0.4
"""Largest contribution of the smoothing to the final gap, as a fraction of the wanted gap. The rest is for the
gradient. Larger: fewer widths, more steps at the last width. Set by hand; no measurement is recorded."""
SOLVED_SHARE = 0.1
"""A width counts as solved when its objective can fall by at most this fraction of the smoothing's contribution to the
gap. Larger: less precise solutions, more widths. Set by hand; no measurement is recorded."""
SHRINK = 0.25
"""Least factor from one width to the next. Larger: more widths. Smaller: consecutive widths have few curved rows in
common, so each needs more steps. Set by hand; no measurement is recorded."""
SHRINK_WITH_MULTIPLIERS, SHRINK_FINELY, FINE = 0.7, 0.5, 1e-4
"""Least factor from one width to the next with multipliers: SHRINK_WITH_MULTIPLIERS for a blur (the smoothing's
contribution to the gap, relative to the objective) above FINE, else SHRINK_FINELY. The width shrinks only if the
multipliers alone did not reduce the blur to the fraction SHRINK. A larger width needs fewer Newton steps. But below
FINE the multipliers alone close the gap so slowly that rounding errors stop progress first. Set by hand; no measurement
is recorded."""


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
        # Without multipliers the blur is proportional to the square of the width.
        needed = 0.9 * math.sqrt(SMOOTH_SHARE * wanted / blur)
        if state.stride > 1 or state.phase == "moved":
            state.h *= max(SHRINK, needed)
            if self.low < 0.0 and state.spread > 0.0:
                state.h = min(state.h, FIRST_WIDTH * state.spread)
            return True
        if state.misfit > max(blur, SMOOTH_SHARE * wanted):
            return False  # if alpha and w disagree, using the shares as multipliers made the method cycle
        smoothing, state.before = self._smoothing(state), np.empty(state.slack.size)
        shares_of(read_only(state.slack), smoothing, state.before)
        if blur > SHRINK * state.last_blur:
            state.h *= max(SHRINK_WITH_MULTIPLIERS if blur > FINE else SHRINK_FINELY, needed)
        state.last_blur = blur
        return True

    def _first_error(self, state: NewtonState) -> float:
        """Return the scale of errors before training: 1 for classes, the mean error beyond the tube for targets."""
        if self.low == 0.0:
            return 1.0
        errors = np.abs(self.labels - self.constant * state.trial[-1])
        mean = float((self.problem.costs * np.maximum(errors - self.tube, 0.0)).sum()) / self.problem.total_cost
        return mean if mean > 0.0 else 1.0
