"""`local`: coordinate search around the best direction so far; each trial is solved exactly on its line.

Schneider, Bogojeska, Vlachos (2014), Algorithm 3 (LocalSVM). A trial changes the direction of w by adding t or -t to
one coordinate, and solves the problem on the line through the result (line_problem.py), with any norm and bias. The
first lower value becomes the new w. A phase tries every coordinate once. After it, t is doubled or halved by the
paper's rule.

The scores z = X w are kept up to date, so a trial reads only one column. Many trials can be excluded without sorting.
Let alpha be the dual point of the line through w, and g = sum_i alpha_i y_i x_ij. If (|w|^2 + t g)^2 <= |w|^2 |w + t
e_j|^2, then no point of the line through w + t e_j is better than w. Such trials are skipped. This changes only the
time, not the result.

On some lines no point is better than w = 0. With hinge this is common if one class has few rows. The printed Algorithm
1 returns a worse point there. Here w stays 0, and of two such lines the one on which P rises more slowly is better.

The paper's proof of convergence requires a strictly convex P. With hinge, or if t shrank too soon, the search ends
above the optimum. The status is then `stalled`, and the certificate shows the distance from the optimum.

The paper's symbols: t is the change of a coordinate, c_t its factor and curr the current power of that factor; thres
and NoLossDecrease belong to its rule; l_min is the best value, l_last the value after the last phase.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from solvers.cost import Footprint
from solvers.data.columns import Columns, transposed
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Point, Progress, Start
from solvers.methods.projections.line_problem import Line, LineOptimum
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["LocalSearch", "LocalState"]


FIRST_CHANGE, CHANGE_FACTOR, FIRST_THRESHOLD = 1.0, 2.0, 1.1
"""First values of t, c_t and thres, as printed in the paper. Larger c_t: coarser and faster search."""
LEAST_CHANGE = 1e-8
"""Largest t at which the search can end, as a fraction of the square root of P. |w| is about sqrt(P), so smaller
changes are lost in rounding. Larger: the search ends earlier. Set by hand; no measurement is recorded."""
LEAST_GAIN = 1e-12
"""Largest gain of a phase, as a fraction of P, at which the search ends if t is below LEAST_CHANGE. Larger: the search
ends earlier. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class Phase(State):
    """The paper's rule for t."""

    t: float  # change of a coordinate
    curr: float  # factor for the next change of t
    thres: float  # a phase gained too little if the ratio of the values before and after it is below this
    l_last: float  # value after the last phase
    no_decrease: bool  # whether the last phase gained too little
    coordinate: int  # the next coordinate to try


@dataclass(slots=True)
class LocalState(State):
    w: Floats  # the weights without their scale
    w_scale: float  # the weights are w_scale * w; 0 if the best point is the origin, and w is only a direction
    z: Floats  # scores X w w_scale (or X w at the origin), one per row
    squared_norm: float  # squared norm of the weights (or of w at the origin)
    pull: Floats  # alpha_i y_i of the line through w
    intercept: float
    value: float  # P at the best point
    rise: float  # derivative of P along the line at the origin
    phase: Phase
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    iterations: int
    entries_read: int


class LocalSearch(Method[BinaryProblem, LocalState]):
    state_type = LocalState
    name = "local"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("free",)
    footprint = Footprint(row=24.5, squared_row=9.5, feature=8.0, copies_entries=True, kept_row=2.0, kept_feature=1.0)
    paper = "Schneider, Bogojeska, Vlachos (2014): Solving linear SVMs with multiple 1D projections, Algorithm 3"
    notes = "A rough answer quickly for dense data with few rows or features; it can stall above the optimum."
    exact = False
    has_estimate = False

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.counted = problem.costs > 0.0
        self.line = Line(problem.signs, problem.costs, is_squared=problem.loss.is_squared)
        self.columns = transposed(problem.data, np.where(self.counted, 1.0, 0.0), constant=False)
        self.entries = self.columns.values.size
        self.work_of_step = max(1, self.entries)
        """Work of one step: entries read plus rows of solved lines. It is about one pass."""

    def init(self, seed: int, start: Start) -> LocalState:
        n, d, earlier = self.problem.data.n_rows, self.problem.data.n_features, self.earlier(start)
        state = LocalState(
            w=np.zeros(d),
            w_scale=1.0,
            z=np.zeros(n),
            squared_norm=0.0,
            pull=np.zeros(n),
            intercept=0.0,
            value=np.inf,
            rise=np.inf,
            phase=Phase(FIRST_CHANGE, CHANGE_FACTOR, FIRST_THRESHOLD, 0.0, False, 0),
            total_cost=self.problem.total_cost,
            iterations=0,
            entries_read=2 * self.entries,  # to make the transposed copy
        )
        if earlier is not None:
            self._resume(state, earlier)
        else:
            self._start_at(state, np.zeros(d) if start.coef is None else start.coef)
        return state

    def step(self, state: LocalState, target: float) -> Progress:
        """Try coordinates for about the work of one pass. A trial costs the column's entries and a solve over all
        rows."""
        phase, work, finished = state.phase, 0, None
        while work < self.work_of_step and finished is None:
            first = phase.coordinate
            norm = state.squared_norm if state.w_scale != 0.0 else 0.0
            best = _Best(state.pull, state.w, state.w_scale, norm)
            found = _skip_hopeless(self.columns, best, phase.t, first, self.work_of_step - work)
            phase.coordinate = found.coordinate
            state.entries_read += found.read
            work += found.read
            if found.is_promising:
                work += self._try_coordinate(state, found.g)
            state.iterations += phase.coordinate - first
            if phase.coordinate == state.w.size:
                finished = self._end_phase(state)
                work += state.w.size
        passes = state.entries_read // max(1, self.entries)
        if not np.isfinite(state.value):
            return Progress(state.iterations, passes, None, None, None, Status.NONFINITE)
        return Progress(state.iterations, passes, state.value, None, None, finished)

    def extract(self, state: LocalState) -> Point:
        return Point(state.w_scale * state.w, state.intercept, None)

    def _try_coordinate(self, state: LocalState, g: float) -> int:
        """Change the coordinate by t and, if that is not better, by -t; return the work."""
        j, t = state.phase.coordinate, state.phase.t
        state.phase.coordinate += 1
        size, work, scale = int(self.columns.starts[j + 1] - self.columns.starts[j]), 0, state.w_scale or 1.0
        for change in (t, -t):
            norm = state.squared_norm + change * (2.0 * scale * float(state.w[j]) + change)
            reach = state.squared_norm + change * g
            if norm <= 0.0 or (state.w_scale != 0.0 and reach * reach <= state.squared_norm * norm):
                continue
            z = state.z.copy()
            _add_column(self.columns, j, change, z)
            state.entries_read += size
            work += size + z.size
            optimum = self.line.solve(z, norm, LineOptimum(1.0, state.intercept, state.value))
            rises_less = state.w_scale == optimum.slope == 0.0 and optimum.rise < state.rise
            # A NaN value is accepted as well; it ends the run.
            if not optimum.value >= state.value or rises_less:
                state.w[j] += change / scale
                self._move(state, z, norm, optimum)
                break
        return work

    def _move(self, state: LocalState, z: Floats, squared_norm: float, optimum: LineOptimum) -> None:
        """Move to the optimum of the line through w, whose scores are z."""
        s = optimum.slope
        state.pull = self.line.dual_point(z, optimum) * self.problem.signs
        state.intercept, state.value, state.rise = optimum.bias, optimum.value, optimum.rise
        if s == 0.0:
            state.z, state.squared_norm, state.w_scale = z, squared_norm, 0.0
            return
        state.z, state.squared_norm = s * z, s * s * squared_norm
        # Only the scale changes, so that a trial changes one coordinate, unless the scale becomes very small or large.
        state.w_scale = s * (state.w_scale or 1.0)
        if not 1e-100 < abs(state.w_scale) < 1e100:
            state.w *= state.w_scale
            state.w_scale = 1.0

    def _end_phase(self, state: LocalState) -> Status | None:
        """Apply the paper's rule for t."""
        phase, l_last, l_min = state.phase, state.phase.l_last, state.value
        too_little = l_last < l_min * phase.thres
        if too_little and phase.no_decrease:
            phase.thres = 1.0 + (phase.thres - 1.0) / CHANGE_FACTOR**4
            phase.curr = 1.0 / CHANGE_FACTOR
        elif too_little:
            phase.curr = 1.0 / phase.curr
        phase.no_decrease = too_little
        phase.t *= phase.curr
        phase.l_last, phase.coordinate = l_min, 0
        # Removes the rounding errors that adding t has left in it.
        state.squared_norm = (state.w_scale or 1.0) ** 2 * float((state.w**2).sum())
        is_small = phase.t <= LEAST_CHANGE * np.sqrt(l_min)
        return Status.STALLED if l_min == 0.0 or (is_small and l_last - l_min <= LEAST_GAIN * l_min) else None

    def _start_at(self, state: LocalState, w: Floats) -> None:
        """Start at the best point of the line through w."""
        z = np.zeros(self.problem.data.n_rows)
        if w.any():
            self.problem.data.margins(w, z)
            state.entries_read += self.entries
        squared_norm = float((w * w).sum())
        state.w = w.copy()
        optimum = self.line.solve(z, squared_norm or 1.0)
        self._move(state, z, squared_norm, optimum if squared_norm > 0.0 else optimum._replace(rise=np.inf))

    def _resume(self, state: LocalState, earlier: LocalState) -> None:
        """Continue from the state `earlier` with bit-identical results. If rows or costs differ, start from its
        weights."""
        w, z, counted = earlier.w, earlier.z, self.counted
        if w.shape != state.w.shape or not (np.isfinite(w).all() and np.isfinite(earlier.w_scale)):
            raise InvalidOptions(
                "warm_start", f"is not a state of local on data with {state.w.size} features; leave it out"
            )
        self._start_at(state, (earlier.w_scale or 1.0) * w)
        same_rows = z.shape == counted.shape and np.allclose(z[counted], state.z[counted], rtol=1e-9, atol=1e-9)
        if same_rows and earlier.total_cost == state.total_cost:
            state.w, state.w_scale, state.z = w, earlier.w_scale, z
            state.squared_norm, state.pull = earlier.squared_norm, earlier.pull
            state.intercept, state.value, state.rise = earlier.intercept, earlier.value, earlier.rise
            state.phase = earlier.phase


# --- kernels. N: |w|^2 ------------------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


class _Best(NamedTuple):
    """The best point so far."""

    pull: Array
    w: Array
    w_scale: float
    N: float


class _Found(NamedTuple):
    """The result of the search for a promising coordinate."""

    coordinate: int
    read: int
    """Number of entries read."""
    g: float
    """g of the coordinate if it is promising."""
    is_promising: bool
    """Whether a trial of the coordinate can succeed."""


@njit(cache=True, nogil=True)
def _skip_hopeless(columns: Columns, best: _Best, t: float, coordinate: int, most: int) -> _Found:
    """Skip coordinates, starting at this one, where neither t nor -t can succeed; stop after `most` entries."""
    values, rows, starts = columns.values, columns.rows, columns.starts
    pull, w, w_scale, N = best.pull, best.w, best.w_scale, best.N
    read = 0
    while coordinate < w.size and read < most:
        column = values[starts[coordinate] : starts[coordinate + 1]]
        at = rows[starts[coordinate] : starts[coordinate + 1]] if rows.size > 0 else rows
        g = _sum_pull(column, at, pull)
        read += column.size
        for change in (t, -t):
            norm = N + change * (2.0 * w_scale * w[coordinate] + change)
            if not (N + change * g) ** 2 <= N * norm:
                return _Found(coordinate, read, g, True)
        coordinate += 1
    return _Found(coordinate, read, 0.0, False)


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_pull(column: Array, at: Array, pull: Array) -> float:
    """Return g = sum_i alpha_i y_i x_ij of a column."""
    total = 0.0
    if at.size == 0:
        for e in range(column.size):
            total += column[e] * pull[e]
    else:
        for e in range(column.size):
            total += column[e] * pull[at[e]]
    return total


@njit(cache=True, nogil=True)
def _add_column(columns: Columns, j: int, multiplier: float, z: Array) -> None:
    """Add a multiple of column j to z."""
    values, rows, starts = columns.values, columns.rows, columns.starts
    column = values[starts[j] : starts[j + 1]]
    if rows.size == 0:
        for e in range(column.size):
            z[e] += multiplier * column[e]
    else:
        at = rows[starts[j] : starts[j + 1]]
        for e in range(column.size):
            z[at[e]] += multiplier * column[e]
