"""`pcd`: primal coordinate descent for squared hinge.

Chang, Hsieh, Lin: Coordinate descent method for large-scale L2-loss linear support vector machines, JMLR 2008.
It minimises P one w_j at a time, in random order: a Newton step on the one-variable function, shortened by the
paper's line search where it would go too far. The slacks of all rows are kept up to date, so a step costs one
column of the transposed copy of X.

One thing is added to the paper (option `combine`): after each sweep over the columns P is also minimised over the
combinations of the last sweeps' moves. The slacks are linear in w, so this reads no column.

The paper's symbols: b_i = 1 - y_i f(x_i) is the slack of row i, D(z) = P(w + z e_j), D1 and D2 its first and
(generalised) second derivative at 0, z the step, lambda its fraction, H_j >= D2 the second derivative if every
row were active, sigma and beta the constants of the line search. The regularised bias is the last coordinate.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.data.columns import transposed
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.rng import shuffle
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["PrimalCoordinateDescent"]

Entry = np.uint64

MOVES = 5
"""How many sweeps' moves are combined."""
FIRST_GUESS = 0.1
"""Of the gap after a sweep over the gap that the derivatives seen during the sweep amount to."""
SIGMA, BETA = 0.01, 0.5


class PrimalCoordinateDescent(Method[BinaryProblem, Any]):
    name = "pcd"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("none", "regularized")
    options = (
        Option("shuffle", bool, True, "visit the columns in a new random order each time; else as they come"),
        Option("combine", bool, True, "minimise over the combinations of the last moves, too; the paper does not"),
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
    notes = "For more rows than columns and few non-zeros in a column; it holds one transposed copy of the data."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.twice_costs = read_only(2.0 * problem.costs)
        signs = np.where(problem.costs > 0.0, problem.signs, 0.0)
        self.columns = transposed(problem.data, signs, constant=problem.bias_feature != 0.0)
        self.scales = np.ones(problem.data.n_features + 1)
        self.scales[-1] = problem.bias_feature
        curvature = np.empty_like(self.scales)
        _sum_curvatures(*self.columns, self.twice_costs, self.scales, curvature)
        if not np.isfinite(curvature).all():
            column = int(np.flatnonzero(~np.isfinite(curvature))[0])
            raise InvalidProblem("X", f"column {column} (counted from 0) is too large to be squared; rescale X")
        self.curvature = read_only(curvature)
        self.entries = self.columns.values.size

    def init(self, seed: int, start: Start) -> State:
        state: State = {
            "w": np.zeros(self.scales.size),
            "b": np.ones(self.problem.data.n_rows),
            "w_moves": np.zeros((MOVES, self.scales.size)),
            "b_moves": np.zeros((MOVES, self.problem.data.n_rows)),
            "sweeps": 0,
            "order": np.flatnonzero(self.curvature > 1.0),
            "position": 0,
            "moved": 0,
            "seen": 0.0,
            "last_seen": np.inf,
            "guess": FIRST_GUESS,
            "check_due": False,
            "dual_scale": 1.0,
            "random_state": np.array([seed], dtype=np.uint64),
            "total_cost": self.problem.total_cost,
            "steps": 0,
            "entries_read": 2 * self.entries,  # to make the copy
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            bias_feature = self.problem.bias_feature
            self._start_at(state, np.append(start.coef, start.intercept / bias_feature if bias_feature else 0.0))
        return state

    def step(self, state: State, target: float) -> Progress:
        state["steps"] += 1
        finished = None
        if state["check_due"]:
            loss = _sum_losses(state["b"], self.twice_costs)
            gap = self._measure_gap(state, loss)
            # What a sweep saw and what was left after it: that tells when to measure again.
            state["guess"] = max(gap / state["last_seen"], 1e-3)
        else:
            finished = self._visit_columns(state)
            loss = _sum_losses(state["b"], self.twice_costs)
            gap = state["last_seen"]
        primal = 0.5 * float((state["w"] ** 2).sum()) + loss
        passes = state["entries_read"] // max(self.entries, 1)
        if not np.isfinite(primal + state["seen"]):
            return Progress(state["steps"], passes, None, None, None, Status.NONFINITE)
        scale = max(primal, self.problem.primal_floor)
        bound = primal - gap if state["check_due"] else None
        is_near = gap > target * scale >= state["guess"] * gap
        state["check_due"] = not state["check_due"] and state["position"] == 0 and is_near
        return Progress(state["steps"], passes, primal, bound, gap / scale if np.isfinite(gap) else None, finished)

    def extract(self, state: State) -> Point:
        alpha = state["dual_scale"] * self.twice_costs * np.maximum(state["b"], 0.0)
        return Point(state["w"][:-1].copy(), float(self.problem.bias_feature * state["w"][-1]), alpha)

    def _visit_columns(self, state: State) -> Status | None:
        """The rest of a sweep over the columns, as far as the pass that is being read pays for it."""
        slot = state["sweeps"] % MOVES
        if state["position"] == 0:
            # This sweep's move takes the place of the oldest: minus where it starts now, plus where it ends later.
            state["w_moves"][slot], state["b_moves"][slot] = -state["w"], -state["b"]
        state["position"], read, moved, seen = _visit_in_order(
            *self.columns, self.twice_costs, self.scales, self.curvature, self.chosen["shuffle"],
            self.entries - state["entries_read"] % max(self.entries, 1),
            state["position"], state["order"], state["w"], state["b"], state["random_state"],
        )  # fmt: skip
        state["entries_read"] += read
        state["moved"] += moved
        state["seen"] += seen
        state["dual_scale"] = 1.0
        if state["position"] > 0:
            return None
        is_still = state["moved"] == 0
        state["last_seen"], state["seen"], state["moved"] = 0.5 * state["seen"], 0.0, 0
        state["w_moves"][slot] += state["w"]
        state["b_moves"][slot] += state["b"]
        if self.chosen["combine"] and not is_still:
            self._combine_moves(state, slot)
        state["sweeps"] += 1
        return Status.STALLED if is_still else None

    def _combine_moves(self, state: State, slot: int) -> None:
        """Go to the minimum of P(w + sum_k z_k w_moves_k), which is a quadratic in pieces, by Newton's method in z.

        The way there is added to the latest move, in `slot`.
        """
        w, b, w_moves, b_moves = (state[key] for key in ("w", "b", "w_moves", "b_moves"))
        # A smaller move is rounding for the most part; multiplied, it would carry the slacks away from w.
        is_rounding = np.abs(b_moves).max(axis=1) < 1e-9 * np.abs(b).max()
        w_moves[is_rounding], b_moves[is_rounding] = 0.0, 0.0
        gram = np.array([(w_moves * move).sum(axis=1) for move in w_moves])
        linear = (w_moves * w).sum(axis=1)
        z, g, H = np.zeros(MOVES), np.empty(MOVES), np.empty((MOVES, MOVES))
        value = _derive_moves(gram, linear, b_moves, self.twice_costs, b, z, g, H)
        for _ in range(8):
            if not np.isfinite(H).all():
                return
            # Moves differ in length by orders and may be parallel: hence units, and a little more on the diagonal.
            lengths = np.sqrt(np.diag(H))
            units = np.divide(1.0, lengths, out=np.zeros(MOVES), where=lengths > 0.0)
            scaled = H * np.outer(units, units)
            np.fill_diagonal(scaled, 1.0 + 1e-8)
            p = -units * np.linalg.solve(scaled, units * g)
            slope, before, is_lower = float(p @ g), value, False
            for _ in range(6):
                value = _derive_moves(gram, linear, b_moves, self.twice_costs, b, z + p, g, H)
                is_lower = value < before or float(p @ g) <= 0.0
                if is_lower:
                    z += p
                    break
                p *= 0.5
            if not is_lower or abs(float(p @ g)) <= 0.1 * abs(slope):
                break
        if np.abs(z).max() <= 1e3:
            for vector, moves in ((w, w_moves), (b, b_moves)):
                way = (z[:, None] * moves).sum(axis=0)
                vector += way
                moves[slot] += way

    def _measure_gap(self, state: State, loss: float) -> float:
        """The gap that the best dual point t * 2 C xi leaves, from the gradient at w: one pass, no step."""
        w, gradient = state["w"], np.empty_like(state["w"])
        _sum_gradient(*self.columns, self.twice_costs, self.scales, w, state["b"], gradient)
        state["entries_read"] += self.entries
        # alpha = 2 C xi has w(alpha) = w - gradient, and D(t alpha) is a parabola in t.
        curvature = 2.0 * loss + float(((w - gradient) ** 2).sum())
        t = float((self.twice_costs * np.maximum(state["b"], 0.0)).sum()) / curvature if curvature > 0.0 else 1.0
        state["dual_scale"] = t
        apart = (1.0 - t) * w + t * gradient
        return 0.5 * float((apart**2).sum()) + (1.0 - t) ** 2 * loss

    def _start_at(self, state: State, w: Floats) -> None:
        """Go to w, apart from what only a penalty acts on, which is best at zero."""
        w = np.where(self.curvature > 1.0, w, 0.0)
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(w[:-1], scores)
        state["w"] = w
        state["b"] = 1.0 - self.problem.signs * (scores + self.problem.bias_feature * w[-1])
        state["entries_read"] += self.entries

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its weights are a start for other rows and costs, too."""
        w = np.array(earlier.get("w", ()), dtype=np.float64)
        if w.shape != state["w"].shape or not np.isfinite(w).all():
            raise InvalidOptions("warm_start", f"is not a state of pcd on {self.scales.size - 1} features")
        self._start_at(state, w)
        b = np.asarray(earlier.get("b", ()), dtype=np.float64)
        same_order = np.array_equal(np.sort(earlier.get("order", ())), state["order"])
        counted = self.problem.costs > 0.0
        same_rows = b.shape == counted.shape and np.allclose(b[counted], state["b"][counted], rtol=1e-9, atol=1e-9)
        if same_order and same_rows and earlier.get("total_cost") == state["total_cost"]:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats the
            # uninterrupted run to the last bit.
            for key in ("b", "order", "random_state", "w_moves", "b_moves"):
                state[key] = np.array(earlier[key], dtype=state[key].dtype)
            for key in ("position", "sweeps", "moved", "seen", "last_seen", "guess", "check_due", "dual_scale"):
                state[key] = earlier[key]


# --- kernels. Columns as in data/columns.py, times scales[j]; u_i = 2 C_i; e: an entry of a column, i: its row. ---
# --- Entries are unsigned, because a signed index is tested for a negative value each time it is used ---------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def _visit_in_order(
    values: Array, rows: Array, starts: Array, u: Array, scales: Array, H: Array, is_shuffled: bool,
    most: int, position: int, order: Array, w: Array, b: Array, random_state: Array,
) -> tuple[int, int, int, float]:  # fmt: skip
    """Steps on the columns of `order` from `position` on, until `most` entries have been read.

    Returns (position of the next column, entries read, steps that moved, sum of squared derivatives seen).
    """
    if position == 0 and is_shuffled:
        shuffle(order, order.size, 1, random_state)
    read, moved, seen = 0, 0, 0.0
    while position < order.size:
        if read >= most:
            return position, read, moved, seen
        j = order[position]
        first, past = np.uint64(starts[j]), np.uint64(starts[j + 1])
        size, scale = starts[j + 1] - starts[j], scales[j]
        position += 1
        D1, D2 = _derive(values, rows, first, past, u, b)
        D1, D2 = w[j] - scale * D1, 1.0 + scale * scale * D2
        read += size
        seen += D1 * D1
        z = -D1 / D2
        # A step this short decreases P enough whatever rows it makes active.
        safe = D2 / (0.5 * H[j] + SIGMA)
        fraction = 1.0
        while fraction > safe:
            step = fraction * z
            change = step * (w[j] + 0.5 * step) + _loss_change(values, rows, first, past, u, b, step * scale)
            read += size
            if change <= -SIGMA * step * step:
                break
            fraction *= BETA
        step = fraction * z
        if w[j] + step != w[j]:
            moved += 1
            w[j] += step
            _lower_slacks(values, rows, first, past, b, step * scale)
    return 0, read, moved, seen


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derive(values: Array, rows: Array, first: Entry, past: Entry, u: Array, b: Array) -> tuple[float, float]:
    """(sum of u b x, sum of u x x) over the active rows of a column."""
    slope, bend = 0.0, 0.0
    if rows.size == 0:
        column = values[first:past]
        for i in range(column.size):
            ux = u[i] * column[i] if b[i] > 0.0 else 0.0
            slope += ux * b[i]
            bend += ux * column[i]
        return slope, bend
    for e in range(first, past):
        i = rows[e]
        if b[i] > 0.0:
            ux = u[i] * values[e]
            slope += ux * b[i]
            bend += ux * values[e]
    return slope, bend


@njit(cache=True, nogil=True, fastmath=_SUM)
def _loss_change(values: Array, rows: Array, first: Entry, past: Entry, u: Array, b: Array, step: float) -> float:
    """By how much the losses change if each slack falls by step * x."""
    total = 0.0
    for e in range(first, past):
        i = np.uint64(rows[e]) if rows.size > 0 else e - first
        before = max(b[i], 0.0)
        after = max(b[i] - step * values[e], 0.0)
        total += 0.5 * u[i] * (after - before) * (after + before)
    return total


@njit(cache=True, nogil=True)
def _lower_slacks(values: Array, rows: Array, first: Entry, past: Entry, b: Array, step: float) -> None:
    if rows.size == 0:
        column = values[first:past]
        for i in range(column.size):
            b[i] -= step * column[i]
    else:
        for e in range(first, past):
            b[rows[e]] -= step * values[e]


@njit(cache=True, nogil=True)
def _sum_gradient(
    values: Array, rows: Array, starts: Array, u: Array, scales: Array, w: Array, b: Array, out: Array
) -> None:
    for j in range(w.size):
        out[j] = w[j] - scales[j] * _derive(values, rows, np.uint64(starts[j]), np.uint64(starts[j + 1]), u, b)[0]


@njit(cache=True, nogil=True)
def _sum_curvatures(values: Array, rows: Array, starts: Array, u: Array, scales: Array, out: Array) -> None:
    """The H_j: every row counts as active."""
    active = np.ones(u.size)
    for j in range(out.size):
        out[j] = (
            1.0 + scales[j] ** 2 * _derive(values, rows, np.uint64(starts[j]), np.uint64(starts[j + 1]), u, active)[1]
        )


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_losses(b: Array, u: Array) -> float:
    total = 0.0
    for i in range(b.size):
        xi = max(b[i], 0.0)
        total += 0.5 * u[i] * xi * xi
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derive_moves(
    gram: Array, linear: Array, b_moves: Array, u: Array, b: Array, z: Array, g: Array, H: Array
) -> float:
    """P(w + sum_k z_k w_moves_k), up to a constant; its gradient and Hessian in z are written to g and H."""
    K = z.size
    value = 0.0
    for k in range(K):
        g[k] = linear[k]
        for m in range(K):
            H[k, m] = gram[k, m]
            g[k] += gram[k, m] * z[m]
        value += 0.5 * z[k] * (g[k] + linear[k])
    for i in range(b.size):
        slack = b[i]
        for k in range(K):
            slack += z[k] * b_moves[k, i]
        if slack > 0.0:
            value += 0.5 * u[i] * slack * slack
            for k in range(K):
                ux = u[i] * b_moves[k, i]
                g[k] += ux * slack
                for m in range(k + 1):
                    H[k, m] += ux * b_moves[m, i]
    for k in range(K):
        for m in range(k):
            H[m, k] = H[k, m]
    return value
