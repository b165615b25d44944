"""`local`: coordinate search around the best direction so far, each trial solved exactly on its line.

Schneider, Bogojeska, Vlachos: Solving linear SVMs with multiple 1D projections, CIKM 2014, Algorithm 3 (LocalSVM). A
trial turns w by adding t or -t to one coordinate, and solves the problem on the line through it (line_problem.py): the
answer may have any length and bias. The first lower value becomes w. After each phase, a trial of every coordinate, t
is doubled or halved by the paper's rule.

What a trial costs. The scores z = X w are kept up to date, so a trial reads one column. Of many trials it is known
before anything is sorted that they cannot succeed: the dual point of the line through w, with
g = sum_i alpha_i y_i x_ij, proves that no point of the line through w + t e_j is better than w if
(|w|^2 + t g)^2 <= |w|^2 |w + t e_j|^2. Such trials are left out, which changes nothing but the time.

Where no point of a line is better than w = 0, which with hinge is common if one class has few rows, the printed
Algorithm 1 returns a worse point; here w stays 0, and of two such lines the better is the one on which P rises less.

The paper's proof of convergence asks for a strictly convex P. With hinge, or if t shrank too soon, the search ends
above the optimum: status `stalled`, and the certificate says how far.

The paper's symbols: t the change, c_t its factor (curr its present power), thres and NoLossDecrease of its rule, l_min
the best value, l_last that of the phase before.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint
from solvers.data.columns import transposed
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Point, Progress, Start
from solvers.methods.projections.line_problem import Line, LineOptimum
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["LocalSearch"]


FIRST_CHANGE, CHANGE_FACTOR, FIRST_THRESHOLD = 1.0, 2.0, 1.1
"""t, c_t and thres as printed."""
LEAST_CHANGE = 1e-8
"""Changes are lost in rounding once t is below this times the square root of the value, for |w| is not far above it."""
LEAST_GAIN = 1e-12
PHASE_KEYS = ("t", "curr", "thres", "l_last", "no_decrease", "coordinate")


class LocalSearch(Method[BinaryProblem, Any]):
    name = "local"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("free",)
    footprint = Footprint(row=24.5, squared_row=9.5, feature=8.0, copies_entries=True, kept_row=2.0, kept_feature=1.0)
    paper = "Schneider, Bogojeska, Vlachos (2014): Solving linear SVMs with multiple 1D projections, Algorithm 3"
    notes = "A rough answer quickly for dense data with few rows or features; it may stall above the optimum."
    exact = False
    has_estimate = False

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.counted = problem.costs > 0.0
        self.line = Line(problem.signs, problem.costs, problem.spec.exponent)
        self.columns = transposed(problem.data, np.where(self.counted, 1.0, 0.0), constant=False)
        self.entries = self.columns.values.size
        self.work_of_step = max(1, self.entries)
        """In entries and rows; about a pass."""

    def init(self, seed: int, start: Start) -> State:
        state: State = {
            "w": np.zeros(self.problem.data.n_features),
            "w_scale": 1.0,  # 0 while the best point is the origin; w is then the direction of the search alone
            "rise": np.inf,
            "t": FIRST_CHANGE,
            "curr": CHANGE_FACTOR,
            "thres": FIRST_THRESHOLD,
            "l_last": 0.0,
            "no_decrease": False,
            "coordinate": 0,
            "total_cost": self.problem.total_cost,
            "iterations": 0,
            "entries_read": 2 * self.entries,  # to make the copy
        }
        if start.state is not None:
            self._resume(state, start.state)
        else:
            self._start_at(state, np.zeros_like(state["w"]) if start.coef is None else start.coef)
        return state

    def step(self, state: State, target: float) -> Progress:
        """Coordinates for about the work of one pass: a column's entries, and all rows for a trial on its line."""
        d, work, finished = state["w"].size, 0, None
        while work < self.work_of_step and finished is None:
            first = state["coordinate"]
            norm = state["squared_norm"] if state["w_scale"] != 0.0 else 0.0
            state["coordinate"], read, g, is_promising = _skip_hopeless(
                *self.columns, state["pull"], state["w"], state["w_scale"], norm, state["t"], first,
                self.work_of_step - work,
            )  # fmt: skip
            state["entries_read"] += read
            work += read
            if is_promising:
                work += self._try_coordinate(state, g)
            state["iterations"] += state["coordinate"] - first
            if state["coordinate"] == d:
                finished = self._end_phase(state)
                work += d
        iterations, passes = state["iterations"], state["entries_read"] // max(1, self.entries)
        if not np.isfinite(state["value"]):
            return Progress(iterations, passes, None, None, None, Status.NONFINITE)
        return Progress(iterations, passes, state["value"], None, None, finished)

    def extract(self, state: State) -> Point:
        return Point(state["w_scale"] * state["w"], state["intercept"], None)

    def _try_coordinate(self, state: State, g: float) -> int:
        """Turn w by t and, if that was no better, by -t; returns the work."""
        j, t = state["coordinate"], state["t"]
        state["coordinate"] += 1
        size, work, scale = int(self.columns.starts[j + 1] - self.columns.starts[j]), 0, state["w_scale"] or 1.0
        for change in (t, -t):
            norm = state["squared_norm"] + change * (2.0 * scale * float(state["w"][j]) + change)
            reach = state["squared_norm"] + change * g
            if norm <= 0.0 or (state["w_scale"] != 0.0 and reach * reach <= state["squared_norm"] * norm):
                continue
            z = state["z"].copy()
            _add_column(*self.columns, j, change, z)
            state["entries_read"] += size
            work += size + z.size
            optimum = self.line.solve(z, norm, LineOptimum(1.0, state["intercept"], state["value"]))
            rises_less = state["w_scale"] == optimum.slope == 0.0 and optimum.rise < state["rise"]
            # A value that is not a number is taken, too, and ends the run.
            if not optimum.value >= state["value"] or rises_less:
                state["w"][j] += change / scale
                self._move(state, z, norm, optimum)
                break
        return work

    def _move(self, state: State, z: Floats, squared_norm: float, optimum: LineOptimum) -> None:
        """Go to the optimum of the line through w, whose scores are z."""
        s = optimum.slope
        state["pull"] = self.line.dual_point(z, optimum) * self.problem.signs
        state["intercept"], state["value"], state["rise"] = optimum.bias, optimum.value, optimum.rise
        if s == 0.0:
            state["z"], state["squared_norm"], state["w_scale"] = z, squared_norm, 0.0
            return
        state["z"], state["squared_norm"] = s * z, s * s * squared_norm
        # Not w itself, of which a trial should cost one coordinate only; unless the number leaves the middle range.
        state["w_scale"] = s * (state["w_scale"] or 1.0)
        if not 1e-100 < abs(state["w_scale"]) < 1e100:
            state["w"] *= state["w_scale"]
            state["w_scale"] = 1.0

    def _end_phase(self, state: State) -> Status | None:
        """The paper's rule for t."""
        l_last, l_min = state["l_last"], state["value"]
        too_little = l_last < l_min * state["thres"]
        if too_little and state["no_decrease"]:
            state["thres"] = 1.0 + (state["thres"] - 1.0) / CHANGE_FACTOR**4
            state["curr"] = 1.0 / CHANGE_FACTOR
        elif too_little:
            state["curr"] = 1.0 / state["curr"]
        state["no_decrease"] = too_little
        state["t"] *= state["curr"]
        state["l_last"], state["coordinate"] = l_min, 0
        # What many additions of t left of it in rounding ends here.
        state["squared_norm"] = (state["w_scale"] or 1.0) ** 2 * float((state["w"] ** 2).sum())
        is_small = state["t"] <= LEAST_CHANGE * np.sqrt(l_min)
        return Status.STALLED if l_min == 0.0 or (is_small and l_last - l_min <= LEAST_GAIN * l_min) else None

    def _start_at(self, state: State, w: Floats) -> None:
        """Go to the best point of the line through w."""
        z = np.zeros(self.problem.data.n_rows)
        if w.any():
            self.problem.data.margins(w, z)
            state["entries_read"] += self.entries
        squared_norm = float((w * w).sum())
        state["w"] = w.copy()
        optimum = self.line.solve(z, squared_norm or 1.0)
        self._move(state, z, squared_norm, optimum if squared_norm > 0.0 else optimum._replace(rise=np.inf))

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its weights are a start for other rows and costs, too."""
        w = np.array(earlier.get("w", ()), dtype=np.float64)
        w_scale = float(earlier.get("w_scale", np.nan))
        if w.shape != state["w"].shape or not (np.isfinite(w).all() and np.isfinite(w_scale)):
            raise InvalidOptions("warm_start", f"is not a state of local on {state['w'].size} features")
        self._start_at(state, (w_scale or 1.0) * w)
        z = np.asarray(earlier.get("z", ()), dtype=np.float64)
        same_rows = z.shape == self.counted.shape and np.allclose(
            z[self.counted], state["z"][self.counted], rtol=1e-9, atol=1e-9
        )
        if same_rows and earlier.get("total_cost") == state["total_cost"]:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats the
            # uninterrupted run to the last bit.
            state["w"], state["z"], state["pull"] = w, z.copy(), np.array(earlier["pull"], dtype=np.float64)
            for key in ("w_scale", "rise", "squared_norm", "intercept", "value", *PHASE_KEYS):
                state[key] = earlier[key]


# --- kernels. Columns as in data/columns.py; pull: alpha_i y_i of the line through w; N: |w|^2 ---------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def _skip_hopeless(
    values: Array,
    rows: Array,
    starts: Array,
    pull: Array,
    w: Array,
    w_scale: float,
    N: float,
    t: float,
    coordinate: int,
    most: int,
) -> tuple[int, int, float, bool]:
    """Pass over the coordinates from this one on for which neither t nor -t can help, until `most` entries are read.

    Returns (coordinate, entries read, g of the coordinate, whether a trial could help there).
    """
    read = 0
    while coordinate < w.size and read < most:
        column = values[starts[coordinate] : starts[coordinate + 1]]
        at = rows[starts[coordinate] : starts[coordinate + 1]] if rows.size > 0 else rows
        g = _sum_pull(column, at, pull)
        read += column.size
        for change in (t, -t):
            norm = N + change * (2.0 * w_scale * w[coordinate] + change)
            if not (N + change * g) ** 2 <= N * norm:
                return coordinate, read, g, True
        coordinate += 1
    return coordinate, read, 0.0, False


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_pull(column: Array, at: Array, pull: Array) -> float:
    total = 0.0
    if at.size == 0:
        for e in range(column.size):
            total += column[e] * pull[e]
    else:
        for e in range(column.size):
            total += column[e] * pull[at[e]]
    return total


@njit(cache=True, nogil=True)
def _add_column(values: Array, rows: Array, starts: Array, j: int, multiplier: float, z: Array) -> None:
    column = values[starts[j] : starts[j + 1]]
    if rows.size == 0:
        for e in range(column.size):
            z[e] += multiplier * column[e]
    else:
        at = rows[starts[j] : starts[j + 1]]
        for e in range(column.size):
            z[at[e]] += multiplier * column[e]
