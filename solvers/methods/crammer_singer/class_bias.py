"""The free bias of the joint multi-class problem, by the proximal point method (Rockafellar 1976).

An unregularised bias b adds the constraint S_m = sum_i A_i^m = 0 for every class m to the dual. Instead of enforcing
this constraint, the method adds the proximal term pull / 2 |b - b_0|^2 around a centre b_0 to the primal problem. Then
b = b_0 + S / pull: b acts as a regularised bias with feature 1 / sqrt(pull), shifted by b_0. The centre then moves to
b. Repeating this makes S tend to 0.

At first the centre moves several times per epoch. The first pull is so strong that the bias adds little to the
curvature of a row. The pull is reduced while the imbalance |S| is most of the gap, and raised while the imbalance is
negligible. This is usually fast but need not converge, because the bias can move faster than the dual variables follow.
Each time the gap has not halved over a long period, `care` is raised by one. With care c > 0 the centre moves only
after the problem around it is solved to a fraction of the gain of the move, as the convergence proof requires, or after
c^2 passes. If the imbalance after solving that problem is more than a quarter of what it was, the pull is reduced.

A class without any row of positive cost has zero weights. Any bias so low that the class never has the highest score is
optimal; LEFT_OUT is used.
"""

import numpy as np

from solvers.linalg.types import Floats
from solvers.methods.crammer_singer.class_state import CrammerSingerState, FreeBiasState
from solvers.problem.problems import MulticlassProblem

__all__ = ["FreeBias"]

PULL = 30.0
"""First pull, as a multiple of 1 / mean |x_i|^2. At 30 the bias adds 1/30 to the curvature of a row. Larger: longer
steps of the rows, slower moves of the bias. Of 30, 100, 300 and 1,000, 30 took the fewest passes on four sets with C =
0.01, and no more than the others with C = 1."""
MOVES = 4
"""Number of moves of the centre per epoch while `care` is 0. Larger: the bias moves faster, and `care` has to rise more
often. Set by hand; no measurement is recorded."""
LEFT_OUT = -1e100
"""Bias of a class without rows of positive cost. It is so low that the class never has the highest score."""
SOLVED = 0.25
"""The problem around a centre counts as solved once its gap is below this fraction of |S|^2 / (2 pull), the gain of
moving the centre. Larger: earlier moves from less precise solutions. Set by hand; no measurement is recorded."""
HIGH, LOW = 1.0, 0.01
"""The pull is reduced while the imbalance exceeds HIGH times the rows' gap, and raised while it is below LOW times that
gap. Values farther apart: the pull changes less often. Set by hand; no measurement is recorded."""
LEAST_PULL = 1e-12
"""Least pull, as a fraction of the first pull. Larger: the bias of badly scaled data moves more slowly. Set by hand; no
measurement is recorded."""
SETTLED = 1e-15
"""Largest imbalance that counts as rounding error, as a fraction of the total cost. Larger: the run can stall before
the bias is precise. The value is about 5 times the precision of a double."""


class FreeBias:
    """Updates the bias of one problem as its dual point changes. The bias is `W[-1]` times the bias feature."""

    def __init__(self, problem: MulticlassProblem, squared_norms: Floats) -> None:
        counted = problem.costs > 0.0
        self.is_absent = np.bincount(problem.codes[counted], minlength=problem.classes.size) == 0
        mean_norm, self.total_cost = float(squared_norms[counted].mean()), problem.total_cost
        # With a pull equal to the total cost, S moves b by at most 1 for any rows.
        self.first_pull = min(PULL / mean_norm, self.total_cost) if mean_norm > 0.0 else self.total_cost
        self.reach = float(np.sqrt(squared_norms.max()))

    def begin(self, state: CrammerSingerState, intercept: Floats) -> None:
        """Start from this bias and the dual point of the state."""
        state.bias = FreeBiasState(
            balance=state.alpha.sum(axis=0),
            pull=self.first_pull,
            care=0,
            rows_waited=0,
            last_imbalance=np.inf,
            least_gap=np.inf,
            least_before=np.inf,
        )
        self._put(state, intercept)

    def feature(self, state: CrammerSingerState) -> float:
        return float(1.0 / np.sqrt(state.bias.pull))

    def moves(self, state: CrammerSingerState) -> int:
        """Return the number of moves of the centre in the next epoch."""
        return 0 if state.bias.care else MOVES

    def bias(self, state: CrammerSingerState) -> Floats:
        return np.asarray(self.feature(state) * state.W[-1])

    def centre(self, state: CrammerSingerState) -> Floats:
        return np.asarray(self.bias(state) - state.bias.balance / state.bias.pull)

    def held_low(self, intercept: Floats) -> Floats:
        return np.where(self.is_absent, LEFT_OUT, intercept)

    def intercept(self, state: CrammerSingerState) -> Floats:
        """Return b. For a class without rows of positive cost, b is 2 below any score that a row can have for another
        class."""
        b, W = self.bias(state), state.W[:-1]
        is_out = b <= 0.5 * LEFT_OUT  # absent in this run, or in the run of the earlier state
        if not is_out.any():
            return b
        lowest = b - self.reach * np.sqrt((W * W).sum(axis=0))
        return np.where(is_out, lowest[~is_out].min() - 2.0, b)

    def imbalance(self, state: CrammerSingerState) -> float:
        """Return half the sum of |S_m|: the dual mass to move between classes to make S = 0.

        Moving this mass lowers the bound by about the same amount.
        """
        return 0.5 * float(np.abs(state.bias.balance).sum())

    def follow(self, state: CrammerSingerState, gap: float, visited: int, is_whole: bool, is_solved: bool) -> bool:
        """After a pass, move the centre if it is due, and adapt the pull. `gap` is the sum of the rows' terms of the
        gap.

        `is_solved` means that the rows need not or cannot come closer to the optimum around this centre. Returns
        whether the imbalance is only rounding error.
        """
        bias, imbalance = state.bias, self.imbalance(state)
        S, pull, care = bias.balance, bias.pull, bias.care
        bias.least_gap = min(bias.least_gap, gap + imbalance)
        bias.rows_waited += visited
        b = self.bias(state)
        is_solved = is_whole and (is_solved or gap <= SOLVED * float((S * S).sum()) / (2.0 * pull))
        is_time = care > 0 and (is_solved or bias.rows_waited >= care * care * state.order.size)
        if care > 0 and is_solved:
            if imbalance > 0.25 * bias.last_imbalance:
                bias.pull = self._weaker(pull, 0.25)
            bias.last_imbalance = imbalance
        elif is_whole and (is_time or care == 0):
            if imbalance > HIGH * gap:
                bias.pull = self._weaker(pull, 0.5)
            elif imbalance < LOW * gap:
                bias.pull = min(self.first_pull, 2.0 * pull)
        if is_time:
            bias.rows_waited = 0
        self._put(state, b + S / bias.pull if is_time else b)
        return imbalance <= SETTLED * self.total_cost

    def look_back(self, state: CrammerSingerState) -> None:
        """Raise `care` by one if the gap has not halved since the last call."""
        bias = state.bias
        if bias.least_gap > 0.5 * bias.least_before:
            bias.care += 1
        bias.least_before = min(bias.least_gap, bias.least_before)
        bias.least_gap = np.inf

    def _weaker(self, pull: float, factor: float) -> float:
        return max(factor * pull, LEAST_PULL * self.first_pull)

    def _put(self, state: CrammerSingerState, b: Floats) -> None:
        state.W[-1] = self.held_low(b) / self.feature(state)
