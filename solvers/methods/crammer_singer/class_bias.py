"""The free bias of the joint multi-class problem, by the proximal point method.

An unregularised bias b requires S_m = sum_i A_i^m = 0 of the dual point, for every class m. Instead, b is kept near a
centre b_0: with pull / 2 |b - b_0|^2 added to the problem, b = b_0 + S / pull, which is a regularised bias of feature
1 / sqrt(pull) with a centre other than 0. Then the centre moves to b, and so on; S tends to 0.

At first the centre moves several times an epoch, and the pull is so strong that the bias adds little to the curvature
of a row. The pull is reduced where the imbalance is the larger part of the gap, and raised again where it is
negligible. That is usually fast, but need not converge: rows can follow a bias that runs ahead of them. Each time the
gap has not halved for long, `care` is raised. With care c the centre moves once the problem around it is solved to a
fraction of what the move is worth, as the proximal point method asks (Rockafellar 1976), or after c^2 passes; if
solving has not reduced the imbalance to a quarter, the pull is reduced.

A class none of whose rows has a cost has zero weights, and every bias is optimal for it that is too low to matter to
any row. It gets the bias LEFT_OUT.
"""

import numpy as np

from solvers.linalg.types import Floats
from solvers.methods.crammer_singer.class_state import CrammerSingerState, FreeBiasState
from solvers.problem.problems import MulticlassProblem

__all__ = ["FreeBias"]

PULL = 30.0
"""First pull, over 1 / mean |x_i|^2: the bias adds 1/30 to the curvature, and thirty rows are enough to move it.
Larger: longer steps of the rows, slower moves of the bias. Of 30, 100, 300 and 1,000, 30 took the fewest passes on four
sets with C = 0.01, and no more than the others with C = 1."""
MOVES = 4
"""Moves of the centre in an epoch without care."""
LEFT_OUT = -1e100
SOLVED = 0.25
"""The problem around a centre counts as solved once its gap is below this share of |S|^2 / (2 pull), the worth of a
move of the centre. Larger: earlier moves."""
HIGH, LOW = 1.0, 0.01
"""The pull is reduced while the imbalance is above HIGH times the rows' gap, and raised while it is below LOW times."""
LEAST_PULL = 1e-12
"""Least pull, as a share of the first one."""
SETTLED = 1e-15
"""Imbalance, as a share of all costs, that is no more than rounding."""


class FreeBias:
    """How the bias of one problem follows its dual point: b is `W[-1]` times the feature."""

    def __init__(self, problem: MulticlassProblem, squared_norms: Floats) -> None:
        counted = problem.costs > 0.0
        self.is_absent = np.bincount(problem.codes[counted], minlength=problem.classes.size) == 0
        mean_norm, self.total_cost = float(squared_norms[counted].mean()), problem.total_cost
        # With a pull of the total cost, S moves b by at most 1, whatever the rows are.
        self.first_pull = min(PULL / mean_norm, self.total_cost) if mean_norm > 0.0 else self.total_cost
        self.reach = float(np.sqrt(squared_norms.max()))

    def begin(self, state: CrammerSingerState, intercept: Floats) -> None:
        """Start with this bias beside the dual point of the state."""
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
        """Moves of the centre in the next epoch."""
        return 0 if state.bias.care else MOVES

    def bias(self, state: CrammerSingerState) -> Floats:
        return np.asarray(self.feature(state) * state.W[-1])

    def centre(self, state: CrammerSingerState) -> Floats:
        return np.asarray(self.bias(state) - state.bias.balance / state.bias.pull)

    def held_low(self, intercept: Floats) -> Floats:
        return np.where(self.is_absent, LEFT_OUT, intercept)

    def intercept(self, state: CrammerSingerState) -> Floats:
        """b; for classes left out, a value below all scores that rows can have for others, by the margin and 1."""
        b, W = self.bias(state), state.W[:-1]
        is_out = b <= 0.5 * LEFT_OUT  # in this run, or in the run that the state comes from
        if not is_out.any():
            return b
        lowest = b - self.reach * np.sqrt((W * W).sum(axis=0))
        return np.where(is_out, lowest[~is_out].min() - 2.0, b)

    def imbalance(self, state: CrammerSingerState) -> float:
        """The shares that a balanced dual point would have to give back; each costs the bound about 1."""
        return 0.5 * float(np.abs(state.bias.balance).sum())

    def follow(self, state: CrammerSingerState, gap: float, visited: int, is_whole: bool, is_solved: bool) -> bool:
        """After a pass with this gap of the rows: move the centre if it is time, and choose the pull.

        `is_solved`: the rows need not or cannot come closer at this centre. Returns whether the imbalance is no more
        than rounding.
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
        """Raise the care if the gap has not halved since the last look back."""
        bias = state.bias
        if bias.least_gap > 0.5 * bias.least_before:
            bias.care += 1
        bias.least_before = min(bias.least_gap, bias.least_before)
        bias.least_gap = np.inf

    def _weaker(self, pull: float, factor: float) -> float:
        return max(factor * pull, LEAST_PULL * self.first_pull)

    def _put(self, state: CrammerSingerState, b: Floats) -> None:
        state.W[-1] = self.held_low(b) / self.feature(state)
