"""The free bias of the joint multi-class problem, by the proximal point method.

A bias b that is not regularised asks of the dual that S_m = sum_i A_i^m is 0 for every class m. b is held near a centre
b_0 instead: with pull / 2 |b - b_0|^2 added to the problem, b = b_0 + S / pull, which is a regularised bias of feature
1 / sqrt(pull) whose centre is not 0. Then the centre moves to b, and so on; S goes to 0.

At first the centre moves some times an epoch, and the pull is so strong that the bias adds little to the curvature of
a row. It yields where the imbalance is the larger part of the gap, and comes back where it is next to nothing. That
is fast as a rule, but nothing says that it converges: rows can chase a bias that runs ahead of them. So each time the
gap has not halved for long, more care is taken. With care c the centre moves once the problem around it is solved to
a part of what the move is worth, as the proximal point method asks (Rockafellar, 1976), or after c^2 passes; and if
what was solved has not lowered the imbalance to a quarter, the pull yields.

A class of which no row has a cost gives nothing, so it may take nothing: its weights are 0, and every bias is optimal
that is so low that the class does not matter to any row. The bias LEFT_OUT keeps it out of the way.
"""

import numpy as np

from solvers.linalg.types import Floats
from solvers.problem.problems import MulticlassProblem
from solvers.state import StoredState as State

__all__ = ["FreeBias"]

PULL = 30.0
"""Over the mean |x_i|^2: the bias then adds 1/30 to the curvature, and thirty rows that answer are enough to move it.
Of 30, 100, 300 and 1,000, 30 took the fewest passes on four sets with C = 0.01, and no more than others with C = 1."""
MOVES = 4
"""How often an epoch moves the centre, while there is no care."""
LEFT_OUT = -1e100
SOLVED = 0.25
"""Of what a move is worth, |S|^2 / (2 pull): a gap up to which the problem around a centre counts as solved."""
HIGH, LOW = 1.0, 0.01
"""Times the gap of the rows: an imbalance above which the pull yields, and one below which it comes back."""
LEAST_PULL = 1e-12
"""Times the first one."""
SETTLED = 1e-15
"""Of all costs: an imbalance that is no more than rounding."""


class FreeBias:
    """How the bias of one problem follows its dual point: in the state, `W[-1]` times the feature is b."""

    SCALARS = ("pull", "care", "rows_waited", "last_imbalance", "least_gap", "least_before")
    """What it keeps in the state beside W and `balance`, which is S."""

    def __init__(self, problem: MulticlassProblem, squared_norms: Floats) -> None:
        counted = problem.costs > 0.0
        self.is_absent = np.bincount(problem.codes[counted], minlength=problem.classes.size) == 0
        mean_norm, self.total_cost = float(squared_norms[counted].mean()), problem.total_cost
        # A pull of the total cost lets S move b by 1 at the most, whatever the rows are.
        self.first_pull = min(PULL / mean_norm, self.total_cost) if mean_norm > 0.0 else self.total_cost
        self.reach = float(np.sqrt(squared_norms.max()))

    def begin(self, state: State, intercept: Floats) -> None:
        """With this bias, for the dual point that the state has."""
        state["balance"] = state["alpha"].sum(axis=0)
        state |= zip(self.SCALARS, (self.first_pull, 0, 0, np.inf, np.inf, np.inf), strict=True)
        self._put(state, intercept)

    def feature(self, state: State) -> float:
        return float(1.0 / np.sqrt(state["pull"]))

    def moves(self, state: State) -> int:
        """How often the next epoch is to move the centre."""
        return 0 if state["care"] else MOVES

    def bias(self, state: State) -> Floats:
        return np.asarray(self.feature(state) * state["W"][-1])

    def centre(self, state: State) -> Floats:
        return np.asarray(self.bias(state) - state["balance"] / state["pull"])

    def held_low(self, intercept: Floats) -> Floats:
        return np.where(self.is_absent, LEFT_OUT, intercept)

    def intercept(self, state: State) -> Floats:
        """b; of classes left out, one below all scores that rows can have for others, by the margin and 1."""
        b, W = self.bias(state), state["W"][:-1]
        is_out = b <= 0.5 * LEFT_OUT  # here, or in the run that the state is of
        if not is_out.any():
            return b
        lowest = b - self.reach * np.sqrt((W * W).sum(axis=0))
        return np.where(is_out, lowest[~is_out].min() - 2.0, b)

    def imbalance(self, state: State) -> float:
        """The shares that are to be taken back for a balance; each costs the bound about 1."""
        return 0.5 * float(np.abs(state["balance"]).sum())

    def follow(self, state: State, gap: float, visited: int, is_whole: bool, is_solved: bool) -> bool:
        """After a pass with this gap of the rows: move the centre if it is time, and choose the pull. Returns whether
        the imbalance is no more than rounding. `is_solved`: the rows need not or cannot come closer at this centre."""
        S, pull, care, imbalance = state["balance"], state["pull"], state["care"], self.imbalance(state)
        state["least_gap"] = min(state["least_gap"], gap + imbalance)
        state["rows_waited"] += visited
        b = self.bias(state)
        is_solved = is_whole and (is_solved or gap <= SOLVED * float((S * S).sum()) / (2.0 * pull))
        is_time = care > 0 and (is_solved or state["rows_waited"] >= care * care * state["order"].size)
        if care > 0 and is_solved:
            if imbalance > 0.25 * state["last_imbalance"]:
                state["pull"] = self._weaker(pull, 0.25)
            state["last_imbalance"] = imbalance
        elif is_whole and (is_time or care == 0):
            if imbalance > HIGH * gap:
                state["pull"] = self._weaker(pull, 0.5)
            elif imbalance < LOW * gap:
                state["pull"] = min(self.first_pull, 2.0 * pull)
        if is_time:
            state["rows_waited"] = 0
        self._put(state, b + S / state["pull"] if is_time else b)
        return imbalance <= SETTLED * self.total_cost

    def look_back(self, state: State) -> None:
        """Take more care if the gap did not halve since this was asked last."""
        if state["least_gap"] > 0.5 * state["least_before"]:
            state["care"] += 1
        state["least_before"] = min(state["least_gap"], state["least_before"])
        state["least_gap"] = np.inf

    def _weaker(self, pull: float, factor: float) -> float:
        return max(factor * pull, LEAST_PULL * self.first_pull)

    def _put(self, state: State, b: Floats) -> None:
        state["W"][-1] = self.held_low(b) / self.feature(state)
