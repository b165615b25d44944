"""Dual coordinate descent (Hsieh, Chang, Lin, Keerthi, Sundararajan 2008) with lazy shrinking and a proximal bias.

The method maximises the dual in one alpha_i at a time, in random order. It keeps w = sum_i alpha_i y_i x_i up to date,
so a step reads only one row. It differs from the paper where that saves passes:

- A shrunk row is visited again after a number of epochs that depends on its gradient (shrinking.py).
- A regularised bias is a separate variable near a moving centre (proximal_bias.py).
- The gap is estimated within an epoch, partly from samples (sampled_gap.py), so that epochs can end early.
- A small active set is solved directly (active_set.py); a large one gets conjugate-gradient steps (cg_step.py).
- With hinge and a very small C the method starts at alpha_i = C_i (dcd_start.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.method import Method, Option, Point, Progress, Rehearsal, Start
from solvers.methods.dcd.active_set import solve_active_set
from solvers.methods.dcd.cg_step import MOST_READS, take_cg_step
from solvers.methods.dcd.dcd_start import (
    CG_PASSES,
    BinaryDual,
    DcdState,
    approach_weights,
    gap_at_bounds,
    resume,
    rows_together,
    start_at_bounds,
    zero_state,
)
from solvers.methods.dcd.epoch import Goal, PassReport, run_pass
from solvers.methods.dcd.shrinking import Schedule
from solvers.problem.problems import BinaryProblem
from solvers.result import Status

__all__ = ["DualCoordinateDescent"]

ACTIVE_SET_COST, ACTIVE_SET_READS, SLOW = 8, 8, 0.1
"""An active set of k rows is solved directly if k^3 <= 8 nnz, k^2 <= 16 n, and more than the fraction SLOW of the gap
remained after the last pass. Such a solve costs about as much as a few epochs. Larger limits: fewer epochs, longer
solves. Set by hand; no measurement is recorded."""
FALL, NEAR = 0.25, 0.5
"""A conjugate-gradient step is taken if more than the fraction FALL of the gap remained after the last CG_PASSES
passes, and the gap is below NEAR times the objective. Larger FALL: fewer steps. Larger NEAR: steps while the active set
still changes. Set by hand; no measurement is recorded."""
LESS_PULL = 0.9
"""Factor by which the pull of the bias is multiplied every CG_PASSES passes. At 0.9 a quarter of the pull remains after
about a hundred passes. Smaller: the pull approaches 0, the method of the paper, sooner. Set by hand; no measurement is
recorded."""


class DualCoordinateDescent(Method[BinaryProblem, DcdState]):
    name = "dcd"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("none", "regularized")
    state_type = DcdState
    footprint = Footprint(row=19.0, squared_row=2.0, feature=4.5, kept_row=2.0, kept_feature=1.0)
    pace = Pace(
        least=5.4,
        hardness=0.78,
        hardest=1e12,
        precision=0.076,
        tallness=-0.09,
        squared=1.17,
        entry_seconds=8.4e-10,
        row_seconds=1.2e-7,
    )
    options = (
        Option("shrinking", bool, True, "skip rows for some epochs while their alpha stays at a bound"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the largest minus the smallest projected gradient "
            "over all rows is below this; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    rehearsals = (
        Rehearsal(600, {"loss": "hinge", "C": 0.1, "tol": 1e-8}),  # reaches the direct solve of a small active set
        Rehearsal(4800, {"loss": "hinge", "C": 1e-4}),  # enough rows for the sampled gap
    )
    paper = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan (2008): A dual coordinate descent method for large-scale linear SVM"
    )
    notes = "Fast for sparse data and moderate C; slows down as C grows or features are badly scaled."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.dual = BinaryDual(problem)
        self.terms = self.dual.terms
        self.together = rows_together(problem.data)

    def init(self, seed: int, start: Start) -> DcdState:
        state, earlier = zero_state(self.dual, seed), self.earlier(start)
        if earlier is not None:
            return resume(self.dual, state, earlier, self.name)
        if start.coef is not None:
            approach_weights(self.dual, state, start.coef, float(start.intercept))
        else:
            start_at_bounds(self.dual, state)
        return state

    def step(self, state: DcdState, target: float) -> Progress:
        if state.is_at_bounds:
            state.is_at_bounds = False
            dual, gap = gap_at_bounds(self.dual, state)
            if gap / max(dual + gap, self.problem.primal_floor) <= target:
                return self._progress(state, dual, gap)
        if target < state.target < np.inf:  # the certificate found a larger gap than the estimate
            state.shrinking.make_all_due()
        state.target = target
        if self._is_worth_solving(state):
            self._solve_active_set(state)
        was_pulled, first_epoch = state.bias.pull > 0.0, state.shrinking.epoch
        seen = self._run_pass(state, target)
        self._note(state, seen, state.shrinking.epoch - first_epoch)
        if state.rows_until_cg_step <= 0:
            self._consider_cg_step(state, seen)
        return self._progress(state, seen.dual, seen.gap, self._finished(seen, was_pulled))

    def extract(self, state: DcdState) -> Point:
        intercept = float(state.bias.balance[0]) if self.problem.bias_feature > 0.0 else 0.0
        return Point(state.w[:-1].copy(), intercept, state.alpha.copy())

    def _run_pass(self, state: DcdState, target: float) -> PassReport:
        goal = Goal(target, self.problem.primal_floor, self.chosen["violation_tol"])
        state.carried, seen = run_pass(self.terms, state.point, self._schedule(state), state.carried, goal)
        return seen

    def _schedule(self, state: DcdState) -> Schedule:
        rows = state.shrinking
        return Schedule(rows.pool, rows.due, state.random_state, self.together, self.chosen["shrinking"])

    def _note(self, state: DcdState, seen: PassReport, epochs: int) -> None:
        """Count the rows that a pass read, and note whether the pass reduced the gap too little."""
        state.epochs += epochs
        state.rows_read += seen.visited
        state.rows_until_cg_step -= seen.visited
        state.gap, state.is_slow = seen.gap, bool(seen.gap > SLOW * state.gap)

    def _progress(self, state: DcdState, dual: float, gap: float, finished: Status | None = None) -> Progress:
        passes = state.rows_read // self.problem.data.n_rows
        if finished is Status.NONFINITE:
            return Progress(state.epochs, passes, None, None, None, finished)
        # With w = w(alpha) the gap is the bias's term plus the rows' terms, each computed when its row was visited.
        primal = dual + gap
        return Progress(state.epochs, passes, primal, dual, gap / max(primal, self.problem.primal_floor), finished)

    def _finished(self, seen: PassReport, was_pulled: bool) -> Status | None:
        if not (np.isfinite(seen.dual) and np.isfinite(seen.gap)):
            return Status.NONFINITE
        if seen.is_whole and seen.updates == 0 and not was_pulled:
            return Status.STALLED
        if seen.is_whole and seen.violation < self.chosen["violation_tol"]:
            return Status.STOPPED
        return None

    def _is_worth_solving(self, state: DcdState) -> bool:
        size, data = state.shrinking.size, self.problem.data
        is_short = size**3 <= ACTIVE_SET_COST * data.stored_entries and size**2 <= 2 * ACTIVE_SET_READS * data.n_rows
        is_allowed = self.reads_left > ACTIVE_SET_READS + 1
        return bool(0 < size < state.shrinking.pool.size and is_short and is_allowed and state.is_slow)

    def _solve_active_set(self, state: DcdState) -> None:
        """Solve for the active rows directly; the next epoch then visits all rows."""
        self._make_exact(state)
        rows = state.shrinking.pool[: state.shrinking.size]
        solve_active_set(self.terms, state.point, rows)
        state.shrinking.make_all_due()
        state.last_gap = np.inf
        state.rows_read += rows.size * (rows.size + 3) // 2

    def _consider_cg_step(self, state: DcdState, seen: PassReport) -> None:
        """After CG_PASSES passes, take a conjugate-gradient step if much of the gap is left, and reduce the pull."""
        scale = max(seen.dual + seen.gap, self.problem.primal_floor)
        is_near = state.target * scale < seen.gap < NEAR * scale
        is_slow = seen.gap > FALL * state.gap_at_cg_step
        state.rows_until_cg_step, state.gap_at_cg_step = CG_PASSES * state.shrinking.pool.size, seen.gap
        state.bias.pull *= LESS_PULL
        if is_slow and is_near and self.reads_left > MOST_READS:
            self._make_exact(state)
            read = take_cg_step(self.terms, state.point)
            state.rows_read += read
            state.rows_until_cg_step = max(state.rows_until_cg_step, read)
            state.last_gap = np.inf

    def _make_exact(self, state: DcdState) -> None:
        """Set w to sum_i alpha_i y_i x_i. Does nothing here: only the subclass with several threads lets the two
        differ."""
