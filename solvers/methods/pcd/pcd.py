"""`pcd`: primal coordinate descent (Chang, Hsieh, Lin 2008), for squared hinge.

The method minimises P over one weight w_j at a time, in random order. It takes a Newton step on the one-variable
function and shortens it by the paper's line search if it is too long. It keeps the slacks of all rows up to date, so a
step reads one column of the transposed copy of X.

The option `combine` is an addition to the paper: after each sweep over the columns, P is also minimised over the linear
combinations of the last sweeps' moves (combined_moves.py). The slacks are linear in w, so this reads no column.

The paper's symbols: b_i = 1 - y_i f(x_i) is the slack of row i; D(z) = P(w + z e_j); D1 and D2 are its first and
(generalised) second derivative at 0; z is the step and lambda its fraction; H_j >= D2 is the second derivative if every
row were active; sigma and beta are the constants of the line search. The regularised bias is the last coordinate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.data.columns import transposed
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.pcd.column_steps import Sweep, WeightedColumns, curvatures, sum_gradient, sum_losses, visit_columns
from solvers.methods.pcd.combined_moves import combine_moves
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["PcdState", "PrimalCoordinateDescent"]

MOVES = 5
"""Number of sweeps whose moves are combined. Larger: fewer sweeps, more time and memory per combination. Set by hand;
no measurement is recorded."""
FIRST_GUESS = 0.1
"""First value of `PcdState.guess`: the gap after a sweep, as a fraction of the estimate from the derivatives during the
sweep. Larger: the first exact gap is computed later. Set by hand; no measurement is recorded."""
LEAST_GUESS = 1e-3
"""Lower limit of `PcdState.guess` once it is measured. Larger: the exact gap is computed later. Set by hand; no
measurement is recorded."""


@dataclass(slots=True)
class PcdState(State):
    w: Floats  # weights; the last entry is the bias's weight
    b: Floats  # slacks, one per row
    w_moves: Floats  # change of w in each of the last MOVES sweeps
    b_moves: Floats  # change of the slacks in the same sweeps
    sweeps: int
    order: NDArray[np.intp]  # columns in the order of this sweep
    position: int  # index of the next column in `order`; 0 between sweeps
    moved: int  # number of columns whose weight changed in this sweep
    seen: float  # sum of the squared derivatives seen in this sweep
    last_seen: float  # half of that sum for the last sweep: an estimate of the gap, too high
    guess: float  # ratio of the gap to `last_seen` when both were last known
    check_due: bool  # whether the next step computes the exact gap
    dual_scale: float  # the t for which the dual point t * 2 C xi has the best bound
    random_state: NDArray[np.uint64]
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    steps: int
    entries_read: int


class PrimalCoordinateDescent(Method[BinaryProblem, PcdState]):
    state_type = PcdState
    name = "pcd"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("none", "regularized")
    options = (
        Option(
            "shuffle", bool, True, "visit the columns in a new random order in each sweep; false: in ascending order"
        ),
        Option(
            "combine", bool, True, "also minimise over the combinations of the last sweeps' moves; not in the paper"
        ),
    )
    footprint = Footprint(row=19.0, feature=14.0, copies_entries=True, kept_row=6.0, kept_feature=7.0)
    pace = Pace(
        least=18,
        hardness=0.18,
        hardest=1e6,
        tallness=-0.06,
        sparsity=0.05,
        entry_seconds=3.1e-9,
        row_seconds=6.3e-8,
        pass_seconds=2.4e-4,
    )
    paper = "Chang, Hsieh, Lin (2008): Coordinate descent method for large-scale L2-loss linear SVM"
    notes = "For more rows than columns and few non-zeros per column; stores one transposed copy of the data."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        signs = np.where(problem.costs > 0.0, problem.signs, 0.0)
        columns = transposed(problem.data, signs, constant=problem.bias_feature != 0.0)
        scales = np.ones(problem.data.n_features + 1)
        scales[-1] = problem.bias_feature
        self.columns = WeightedColumns(*columns, read_only(2.0 * problem.costs), scales)
        self.curvature = read_only(curvatures(self.columns))
        if not np.isfinite(self.curvature).all():
            column = int(np.flatnonzero(~np.isfinite(self.curvature))[0])
            raise InvalidProblem("X", f"column {column} (counted from 0) is too large to be squared; rescale X")
        self.entries = columns.values.size

    def init(self, seed: int, start: Start) -> PcdState:
        n, k, earlier = self.problem.data.n_rows, self.problem.data.n_features + 1, self.earlier(start)
        state = PcdState(
            w=np.zeros(k),
            b=np.ones(n),
            w_moves=np.zeros((MOVES, k)),
            b_moves=np.zeros((MOVES, n)),
            sweeps=0,
            order=np.flatnonzero(self.curvature > 1.0),
            position=0,
            moved=0,
            seen=0.0,
            last_seen=np.inf,
            guess=FIRST_GUESS,
            check_due=False,
            dual_scale=1.0,
            random_state=np.array([seed], dtype=np.uint64),
            total_cost=self.problem.total_cost,
            steps=0,
            entries_read=2 * self.entries,  # to make the transposed copy
        )
        if earlier is not None:
            self._resume(state, earlier)
        elif start.coef is not None:
            bias_feature = self.problem.bias_feature
            self._start_at(state, np.append(start.coef, start.intercept / bias_feature if bias_feature else 0.0))
        return state

    def step(self, state: PcdState, target: float) -> Progress:
        state.steps += 1
        is_check, finished = state.check_due, None
        if is_check:
            loss = sum_losses(state.b, self.columns.u)
            gap = self._measure_gap(state, loss)
            state.guess = max(gap / state.last_seen, LEAST_GUESS)
        else:
            finished = self._continue_sweep(state)
            loss = sum_losses(state.b, self.columns.u)
            gap = state.last_seen
        primal = 0.5 * float((state.w**2).sum()) + loss
        passes = state.entries_read // max(self.entries, 1)
        if not np.isfinite(primal + state.seen):
            return Progress(state.steps, passes, None, None, None, Status.NONFINITE)
        scale = max(primal, self.problem.primal_floor)
        is_near = gap > target * scale >= state.guess * gap
        state.check_due = bool(not is_check and state.position == 0 and is_near)
        bound = primal - gap if is_check else None
        return Progress(state.steps, passes, primal, bound, gap / scale if np.isfinite(gap) else None, finished)

    def extract(self, state: PcdState) -> Point:
        alpha = state.dual_scale * self.columns.u * np.maximum(state.b, 0.0)
        return Point(state.w[:-1].copy(), float(self.problem.bias_feature * state.w[-1]), alpha)

    def _continue_sweep(self, state: PcdState) -> Status | None:
        """Visit columns to the end of the sweep or of the current pass over the data, whichever comes first."""
        slot = state.sweeps % MOVES
        if state.position == 0:
            # The move of this sweep (the point after it minus the point before it) replaces the oldest move.
            state.w_moves[slot], state.b_moves[slot] = -state.w, -state.b
        most = self.entries - state.entries_read % max(self.entries, 1)
        sweep = Sweep(state.order, state.w, state.b, state.random_state)
        visited = visit_columns(self.columns, self.curvature, sweep, state.position, most, self.chosen["shuffle"])
        state.position = visited.position
        state.entries_read += visited.read
        state.moved += visited.moved
        state.seen += visited.seen
        state.dual_scale = 1.0
        if state.position > 0:
            return None
        is_still = state.moved == 0
        state.last_seen, state.seen, state.moved = 0.5 * state.seen, 0.0, 0
        state.w_moves[slot] += state.w
        state.b_moves[slot] += state.b
        if self.chosen["combine"] and not is_still:
            combine_moves(state.w, state.b, state.w_moves, state.b_moves, self.columns.u, slot)
        state.sweeps += 1
        return Status.STALLED if is_still else None

    def _measure_gap(self, state: PcdState, loss: float) -> float:
        """Return the gap to the best dual point t * 2 C xi, computed from the gradient at w. Costs one pass."""
        w, gradient = state.w, np.empty_like(state.w)
        sum_gradient(self.columns, w, state.b, gradient)
        state.entries_read += self.entries
        # alpha = 2 C xi has w(alpha) = w - gradient, and D(t alpha) is a parabola in t.
        curvature = 2.0 * loss + float(((w - gradient) ** 2).sum())
        t = float((self.columns.u * np.maximum(state.b, 0.0)).sum()) / curvature if curvature > 0.0 else 1.0
        state.dual_scale = t
        apart = (1.0 - t) * w + t * gradient
        return 0.5 * float((apart**2).sum()) + (1.0 - t) ** 2 * loss

    def _start_at(self, state: PcdState, w: Floats) -> None:
        """Start at w, with weight 0 in the columns that no loss depends on: there the regulariser alone decides, and
        its minimum is 0."""
        w = np.where(self.curvature > 1.0, w, 0.0)
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(w[:-1], scores)
        state.w = w
        state.b = 1.0 - self.problem.signs * (scores + self.problem.bias_feature * w[-1])
        state.entries_read += self.entries

    def _resume(self, state: PcdState, earlier: PcdState) -> None:
        """Continue from the state `earlier` with bit-identical results. If rows or costs differ, start from its
        weights."""
        if earlier.w.shape != state.w.shape or not np.isfinite(earlier.w).all():
            raise InvalidOptions(
                "warm_start", f"is not a state of pcd on data with {state.w.size - 1} features; leave it out"
            )
        self._start_at(state, earlier.w)
        counted = self.problem.costs > 0.0
        same_order = np.array_equal(np.sort(earlier.order), state.order)
        same_rows = earlier.b.shape == counted.shape and np.allclose(
            earlier.b[counted], state.b[counted], rtol=1e-9, atol=1e-9
        )
        if same_order and same_rows and earlier.total_cost == state.total_cost:
            state.b, state.w_moves, state.b_moves = earlier.b, earlier.w_moves, earlier.b_moves
            state.order, state.position, state.sweeps = earlier.order, earlier.position, earlier.sweeps
            state.moved, state.seen, state.last_seen = earlier.moved, earlier.seen, earlier.last_seen
            state.guess, state.check_due, state.dual_scale = earlier.guess, earlier.check_due, earlier.dual_scale
            state.random_state = earlier.random_state
            # A step ends when a pass over the data is complete. The part of the pass that was read before the state was
            # stored counts.
            state.entries_read += earlier.entries_read % max(self.entries, 1)
