"""`crammer_singer`: dual coordinate descent for all classes jointly.

Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class linear SVMs, KDD 2008.
The dual has one variable A_i^m a row and class. A step minimises exactly over all k variables of a row, and the
weights W = sum_i x_i A_i' are kept up to date. In the shares q of a row's cost C_i,

    q_m = C_i [m = y_i] - A_i^m >= 0,    sum_m q_m = C_i,    v_m = [m != y_i] + f_m(x_i) - f_yi(x_i),

a step is the projection of q + v / |x_i|^2 onto that simplex; the row's term of the gap is sum_m q_m (max v - v_m).

W is stored by features, so that an entry of X meets the weights of all classes side by side. Rows whose cost has
settled on one class are left out ("shrunk") until the rest is solved; classes of a row are not: up to some thirty, all
together cost hardly more than a few picked out. Every FACE_PASSES passes the shares that are not zero are solved for
together, see dual_face.py.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.class_duals import ClassDuals, SharesFace
from solvers.dual_face import ascend
from solvers.errors import InvalidOptions
from solvers.estimates import Footprint, Pace
from solvers.problem import MulticlassProblem
from solvers.protocol import Method, Option, Point, Progress, Start
from solvers.result import State, Status

__all__ = ["CrammerSinger"]

Array = NDArray[Any]

FACE_PASSES, FACE_READS = 50, 100
"""After so many passes without an end, the shares above zero are solved for together, by at most so many reads."""
FACE_PRODUCTS = 100_000_000
"""At most so many products of an entry of X and a weight are taken for that at once: it is within a step."""

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_ACTIVE_SHARE = 0.1  # once the active rows' gap is so small beside that of all rows before, all are looked at again
_SETTLED = 1e-12  # a difference of scores that is no more than rounding


class CrammerSinger(Method[MulticlassProblem]):
    name = "crammer_singer"
    tasks = ("multiclass",)
    losses = ("hinge",)
    biases = ("none", "regularized")
    options = (
        Option("shrinking", bool, True, "leave rows out while their cost is settled on one class"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the largest violation of any row is below this; "
            "0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=13.7, feature=3.1, row_and_class=7.1, feature_and_class=3.1, kept_feature=1.0)
    pace = Pace(least=1.8, hardness=1.69, hardest=1e12, precision=0.46, entry_seconds=4.6e-9, row_seconds=4.3e-7)
    paper = "Keerthi et al. (2008): A sequential dual method for large scale multi-class linear SVMs"
    notes = "All classes jointly; holds one number a row and class. Slows down as C grows or features are badly scaled."

    def __init__(self, problem: MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.shape = problem.data.n_rows, problem.classes.size
        self.rows = problem.data.flat()
        self.duals = ClassDuals(problem)
        self.norms = self.duals.squared_norms()

    def init(self, seed: int, start: Start) -> State:
        order = np.flatnonzero(self.problem.costs > 0.0)
        state: State = {
            "alpha": np.zeros(self.shape),
            "W": np.zeros((self.problem.data.n_features + 1, self.shape[1])),
            "order": order,
            "active": order.size,
            "active_goal": np.inf,
            "random_state": np.array([seed], dtype=np.uint64),
            "rows_until_face": FACE_PASSES * order.size,
            "total_cost": self.problem.total_cost,
            "epochs": 0,
            "rows_read": 0,
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            state["alpha"], state["W"] = self.duals.suggested(start.coef, np.asarray(start.intercept))
            state["rows_read"] = 2 * self.shape[0]
        return state

    def step(self, state: State, target: float) -> Progress:
        floor = self.problem.primal_floor
        active, goal, epochs, visited, is_whole, gap, violation, updates, dual = _run_pass(
            *self.rows,
            self.problem.costs,
            self.norms,
            self.problem.codes,
            self.problem.bias_feature,
            self.chosen["shrinking"],
            state["active_goal"],
            state["active"],
            state["order"],
            state["alpha"],
            state["W"],
            state["random_state"],
            target,
            floor,
            self.chosen["violation_tol"],
        )
        state["active"], state["active_goal"] = active, goal
        state["epochs"] += epochs
        state["rows_read"] += visited
        state["rows_until_face"] -= visited
        if state["rows_until_face"] <= 0:
            self._explore_face(state)
        passes = state["rows_read"] // self.shape[0]
        if not np.isfinite(dual):
            return Progress(state["epochs"], passes, None, None, None, Status.NONFINITE)
        finished = None
        if is_whole and updates == 0:
            finished = Status.STALLED
        elif is_whole and violation < self.chosen["violation_tol"]:
            finished = Status.STOPPED
        # With W = W(A) the gap is the sum of the rows' terms, each taken when its row was visited.
        primal = dual + gap
        return Progress(state["epochs"], passes, primal, dual, gap / max(primal, floor), finished, is_whole)

    def extract(self, state: State) -> Point:
        W = state["W"]
        return Point(W[:-1].T.copy(), self.problem.bias_feature * W[-1], state["alpha"].copy())

    def _explore_face(self, state: State) -> None:
        n, k = self.shape
        affordable = FACE_PRODUCTS // max(1, k * self.problem.data.stored_entries)
        reads = min(FACE_READS, affordable, self.reads_left - 1)
        state["rows_until_face"] = FACE_PASSES * state["order"].size
        if reads >= 6:
            face = SharesFace(self.duals)
            state["alpha"], state["W"], used = ascend(face, state["alpha"], state["W"], reads)
            state["rows_read"] += used * n

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its dual point is a start for other costs, too."""
        if any(key not in earlier or np.shape(earlier[key]) != np.shape(state[key]) for key in ("alpha", "W")):
            shape = f"{self.shape[0]} rows x {self.problem.data.n_features} features and {self.shape[1]} classes"
            raise InvalidOptions("warm_start", f"is not a state of crammer_singer on {shape}")
        given = np.array(earlier["alpha"], dtype=np.float64)
        if not np.isfinite(given).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite")
        A = self.duals.feasible(given)
        W = self.duals.weights_of(A)
        rows_kept = np.array_equal(np.sort(earlier.get("order", ())), state["order"])
        W_kept = np.allclose(W, earlier["W"], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(W).max())))
        A_kept = np.allclose(A, given, rtol=1e-9, atol=1e-9 * float(self.problem.costs.max()))
        state["alpha"], state["W"] = A, W
        state["rows_read"] = self.shape[0]
        if rows_kept and W_kept and A_kept and earlier.get("total_cost") == state["total_cost"]:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats
            # the uninterrupted run to the last bit.
            for key in ("alpha", "W", "order", "random_state"):
                state[key] = np.array(earlier[key], dtype=state[key].dtype)
            state["active"] = min(max(int(earlier["active"]), 1), state["order"].size)
            state["rows_until_face"] = int(earlier["rows_until_face"])
            state["active_goal"] = float(earlier["active_goal"])


# --- kernels. q, v: the shares and violations of the row at hand, by class --------------------------------------------


@njit(cache=True, nogil=True)
def _run_pass(
    values: Array,
    columns: Array,
    starts: Array,
    costs: Array,
    norms: Array,
    codes: Array,
    bias_feature: float,
    shrinking: bool,
    goal: float,
    active: int,
    order: Array,
    A: Array,
    W: Array,
    random_state: Array,
    target: float,
    floor: float,
    violation_tol: float,
) -> tuple[int, float, int, int, bool, float, float, int, float]:
    """One epoch over all rows, or several over the active ones that together read no more.

    All rows are wanted next once the active ones' gap is below the target, or the goal set when all were seen last.
    Returns (active, goal, epochs, rows visited, whether the last epoch saw all rows, the sum of its gap terms, its
    largest violation, its updates, dual objective).
    """
    size = order.size
    dual = _dual_value(A, codes, W)
    epochs, visited = 0, 0
    while True:
        is_whole = active == size
        visited += active
        epochs += 1
        active, violation, gap, updates = _run_epoch(
            values, columns, starts, costs, norms, codes, bias_feature, shrinking,
            active, order, A, W, random_state,
        )  # fmt: skip
        if is_whole:
            goal = _ACTIVE_SHARE * gap
        is_solved = updates == 0 or violation < violation_tol or gap <= max(goal, target * max(dual + gap, floor))
        if active == 0 or (is_solved and not is_whole):
            active = size
        if is_whole or active == size or visited + active > size:
            break
    dual = _dual_value(A, codes, W)
    return active, goal, epochs, visited, is_whole, gap, violation, updates, dual


@njit(cache=True, nogil=True, error_model="numpy")
def _run_epoch(
    values: Array,
    columns: Array,
    starts: Array,
    costs: Array,
    norms: Array,
    codes: Array,
    bias_feature: float,
    shrinking: bool,
    active: int,
    order: Array,
    A: Array,
    W: Array,
    random_state: Array,
) -> tuple[int, float, float, int]:
    """One epoch over the first `active` rows of `order`, in a new random order.

    Returns (rows still active, largest violation, sum of the gap's terms, number of updates).
    """
    dense = starts.size == 0
    d, k = W.shape[0] - 1, W.shape[1]
    entries, places = np.empty(d + 1), np.empty(d + 1, np.uint32)
    v, q, change = np.empty(k), np.empty(k), np.empty(k)
    largest, gap, updates = 0.0, 0.0, 0
    _shuffle(order, active, random_state)
    s = 0
    while s < active:
        i = order[s]
        C, y = costs[i], codes[i]
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        count = _gather_nonzeros(values[first:past], entries, places) if dense else 0
        v[:] = 0.0
        if dense:
            _add_scores(entries[:count], places[:count], W, v)
        else:
            _add_scores(values[first:past], columns[first:past], W, v)
        a = A[i]
        highest, lowest, rest, used = _find_violations(a, C, y, bias_feature, W[d], v, q)
        for m in range(k):
            gap += q[m] * (highest - v[m])
        if shrinking and used == 1 and lowest > rest:
            active -= 1
            order[s], order[active] = order[active], order[s]
            continue
        s += 1
        largest = max(largest, highest - lowest)
        if highest - lowest <= _SETTLED:
            continue
        _move_shares(norms[i], C, v, q)
        if _replace_variables(q, C, y, a, change):
            updates += 1
            if dense:
                _add_products(entries[:count], places[:count], change, W)
            else:
                _add_products(values[first:past], columns[first:past], change, W)
            W[d] += bias_feature * change
    return active, largest, gap, updates


@njit(cache=True, nogil=True)
def _find_violations(
    a: Array, C: float, y: int, bias_feature: float, bias_weights: Array, v: Array, q: Array
) -> tuple[float, float, float, int]:
    """Turns scores into violations; (highest, lowest with a share, highest without a share, how many have a share)."""
    own = v[y] + bias_feature * bias_weights[y]
    highest, lowest, rest, used = 0.0, np.inf, -np.inf, 0
    for m in range(v.size):
        v[m] += bias_feature * bias_weights[m] - own + 1.0
        q[m] = -a[m]
        if m == y:
            v[m], q[m] = 0.0, C - a[m]
        highest = max(highest, v[m])
        if q[m] > 0.0:
            used += 1
            lowest = min(lowest, v[m])
        else:
            rest = max(rest, v[m])
    return highest, lowest, rest, used


@njit(cache=True, nogil=True)
def _move_shares(h: float, C: float, v: Array, q: Array) -> None:
    """q becomes the point of its simplex nearest to q + v / h (Michelot's projection); v is used up."""
    top = -np.inf
    for m in range(v.size):
        v[m] += h * q[m]
        top = max(top, v[m])
    if not h * C > 0.0:  # an empty row: nothing weighs against the highest violation
        for m in range(v.size):
            q[m] = 0.0
        q[v.argmax()] = C
        return
    # Measured from the top, shares are (v - level) / h where that is above 0, and no level is below -h C.
    level, count = -h * C, v.size + 1
    while True:
        total, above = 0.0, 0
        for m in range(v.size):
            if v[m] - top > level:
                total += v[m] - top
                above += 1
        if above >= count:
            break
        level, count = (total - h * C) / above, above
    for m in range(v.size):
        q[m] = max(v[m] - top - level, 0.0) / h


@njit(cache=True, nogil=True)
def _replace_variables(q: Array, C: float, y: int, a: Array, change: Array) -> bool:
    """The variables of the shares q, whose sum is 0 to rounding, in a; what that changed; whether it changed any."""
    total = 0.0
    for m in range(q.size):
        if m != y:
            total += q[m]
    is_full = q[y] == 0.0 or total > C
    factor = C / total if is_full else 1.0
    is_changed = False
    for m in range(q.size):
        new = -q[m] * factor
        if m == y:
            new = C if is_full else total
        change[m] = new - a[m]
        a[m] = new
        is_changed = is_changed or change[m] != 0.0
    return is_changed


@njit(cache=True, nogil=True)
def _gather_nonzeros(row: Array, entries: Array, places: Array) -> int:
    """A dense row as a sparse one, without a branch that would be guessed wrong; returns its number of entries."""
    count = 0
    for j in range(row.size):
        entries[count], places[count] = row[j], j
        count += row[j] != 0.0
    return count


@njit(cache=True, nogil=True)
def _add_scores(entries: Array, places: Array, W: Array, out: Array) -> None:
    for e in range(entries.size):
        x, weights = entries[e], W[places[e]]
        for m in range(out.size):
            out[m] += x * weights[m]


@njit(cache=True, nogil=True)
def _add_products(entries: Array, places: Array, change: Array, W: Array) -> None:
    for e in range(entries.size):
        x, weights = entries[e], W[places[e]]
        for m in range(change.size):
            weights[m] += x * change[m]


@njit(cache=True, nogil=True)
def _shuffle(order: Array, active: int, random_state: Array) -> None:
    """A uniform permutation of order[:active] (splitmix64; numbers are scaled without division)."""
    state = random_state[0]
    for s in range(active):
        state += np.uint64(0x9E3779B97F4A7C15)
        z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
        j = s + np.int64((z * np.uint64(active - s)) >> np.uint64(32))
        order[s], order[j] = order[j], order[s]
    random_state[0] = state


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dual_value(A: Array, codes: Array, W: Array) -> float:
    total = 0.0
    for i in range(codes.size):
        total += A[i, codes[i]]
    for j in range(W.shape[0]):
        for m in range(W.shape[1]):
            total -= 0.5 * W[j, m] * W[j, m]
    return total
