"""`dcd`: dual coordinate descent, the method of LIBLINEAR.

Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale linear SVM,
ICML 2008. It minimises the dual one alpha_i at a time in random order and keeps w = sum_i alpha_i y_i x_i
up to date, so a step costs one row. Rows whose alpha_i has settled at a bound are left out ("shrunk")
until the rest is solved; the estimate is then taken over all rows again before anything is certified.
Every FACE_PASSES passes the rows between their bounds are solved for together, see dual_face.py.

The paper's symbols: G is the gradient of the dual objective in alpha_i, PG the projected gradient,
U the upper bound of alpha_i, D_ii the diagonal that squared hinge adds, Q_ii = |x_i|^2 + D_ii.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from solvers.dual_face import ascend_on_face
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.estimates import Footprint, Pace
from solvers.problem import BinaryProblem
from solvers.protocol import Method, Option, Point, Progress, Start
from solvers.result import State, Status
from solvers.rows import CsrRows, DenseRows, Floats, read_only

__all__ = ["DualCoordinateDescent"]

Array = NDArray[Any]

FACE_PASSES = 100
"""After so many passes without an end, the rows between their bounds are solved for together."""
FACE_ENTRIES = 20_000_000
"""At most so many entries of X are read for that at once."""

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_IN_ORDER = {"contract"}  # gathered weights: reordered for vectors the sum takes more than twice as long
_FAR, _NEAR = 8, 4  # how many rows ahead row numbers, then row contents, are prefetched


def _generate_prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to load the index-th element of a contiguous array soon; no effect on values."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        prefetch_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.globals.get("llvm.prefetch.p0")
        if prefetch is None:
            prefetch = ir.Function(builder.module, prefetch_type, "llvm.prefetch.p0")
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # to read, all levels, data
        return context.get_dummy_value()

    return types.void(array, index), generate


_prefetch: Any = intrinsic(_generate_prefetch)


class DualCoordinateDescent(Method[BinaryProblem]):
    name = "dcd"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("none", "regularized")
    options = (
        Option("shrinking", bool, True, "leave rows out while their alpha is settled at a bound"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the largest minus the smallest projected gradient "
            "over all rows is below this; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=19.0, squared_row=2.0, feature=4.5, kept_row=2.0, kept_feature=1.0)
    pace = Pace(
        least=2, hardness=0.69, hardest=1e12, precision=0.11, tallness=0.2, entry_seconds=4.8e-9, row_seconds=6.4e-8
    )
    paper = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan (2008): A dual coordinate descent method for large-scale linear SVM"
    )
    notes = "Fast for sparse data and moderate C; slows down as C grows or features are badly scaled."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        squared = problem.setting.exponent == 2.0
        counted = problem.costs > 0.0
        diagonal = np.zeros_like(problem.costs)
        if squared:
            np.divide(0.5, problem.costs, out=diagonal, where=counted)
        norms = problem.data.squared_norms() + problem.bias_feature**2
        if not np.isfinite(norms).all():
            row = int(np.flatnonzero(~np.isfinite(norms))[0])
            raise InvalidProblem("X", f"row {row} (counted from 0) is too large to be squared; rescale X")
        self.upper = np.where(counted, np.inf, 0.0) if squared else problem.costs
        # Side by side, because a random row costs one cache miss for each array it is looked up in.
        self.constants = read_only(np.stack([problem.signs, problem.costs, diagonal, norms + diagonal], axis=1))
        self.counted = counted
        data = problem.data
        if isinstance(data, CsrRows):
            self.rows = data.values, data.columns, data.starts
        else:
            assert isinstance(data, DenseRows)
            nothing = read_only(np.empty(0, np.uint32)), read_only(np.empty(0, np.int64))
            self.rows = data.values.reshape(-1), *nothing

    def init(self, seed: int, start: Start) -> State:
        order = np.flatnonzero(self.counted)
        state: State = {
            "alpha": np.zeros(self.problem.data.n_rows),
            "w": np.zeros(self.problem.data.n_features + 1),
            "order": order,
            "active": order.size,
            "pg_above": np.inf,
            "pg_below": -np.inf,
            "random_state": np.array([seed], dtype=np.uint64),
            "rows_until_face": FACE_PASSES * order.size,
            "total_cost": self.problem.total_cost,
            "epochs": 0,
            "rows_read": 0,
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            self._approach(state, start.coef, float(start.intercept))
        return state

    def step(self, state: State, target: float) -> Progress:
        floor = self.problem.primal_floor
        active, pg_above, pg_below, epochs, visited, is_whole, gap, violation, updates, dual = _run_pass(
            *self.rows,
            self.constants,
            self.problem.bias_feature,
            self.chosen["shrinking"],
            state["pg_above"],
            state["pg_below"],
            state["active"],
            state["order"],
            state["alpha"],
            state["w"],
            state["random_state"],
            target,
            floor,
            self.chosen["violation_tol"],
        )
        state["active"], state["pg_above"], state["pg_below"] = active, pg_above, pg_below
        state["epochs"] += epochs
        state["rows_read"] += visited
        state["rows_until_face"] -= visited
        if state["rows_until_face"] <= 0:
            self._explore_face(state)
        passes = state["rows_read"] // self.problem.data.n_rows
        if not np.isfinite(dual):
            return Progress(state["epochs"], passes, None, None, None, Status.NONFINITE)
        finished = None
        if is_whole and updates == 0:
            finished = Status.STALLED
        elif is_whole and violation < self.chosen["violation_tol"]:
            finished = Status.STOPPED
        # With w = w(alpha) the gap is the sum of the rows' terms, each taken when its row was visited.
        primal = dual + gap
        return Progress(state["epochs"], passes, primal, dual, gap / max(primal, floor), finished, is_whole)

    def extract(self, state: State) -> Point:
        w = state["w"]
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), state["alpha"].copy())

    def _explore_face(self, state: State) -> None:
        data = self.problem.data
        # Within a step, so it must be short: half as many reads as descent had, and a blink in all.
        reads = min(FACE_PASSES // 2, FACE_ENTRIES // max(1, data.stored_entries), self.reads_left - 1)
        state["rows_until_face"] = FACE_PASSES * state["order"].size
        if reads >= 6:
            state["alpha"], state["w"], used = ascend_on_face(
                self.problem, self.constants[:, 2], self.upper, state["alpha"], state["w"], reads
            )
            state["rows_read"] += used * data.n_rows

    def _approach(self, state: State, coef: Floats, intercept: float) -> None:
        """Start from the dual point that the optimality conditions suggest for these weights, shortened
        to the length at which it is worth most: never worse than starting from zero."""
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(coef, scores)
        slack = 1.0 - self.problem.signs * (scores + intercept)
        if self.problem.setting.exponent == 2.0:
            alpha = 2.0 * self.problem.costs * np.maximum(slack, 0.0)
        else:
            alpha = np.where(slack > 0.0, self.problem.costs, 0.0)
        w = self.problem.weights_of(alpha)
        quadratic = float((w * w).sum() + (self.constants[:, 2] * alpha * alpha).sum())
        length = min(1.0, float(alpha.sum()) / quadratic) if quadratic > 0.0 else 1.0
        state["alpha"], state["w"] = alpha * length, w * length
        state["rows_read"] = 2 * self.problem.data.n_rows

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its alpha is a start for other costs, too."""
        if any(key not in earlier or np.shape(earlier[key]) != np.shape(state[key]) for key in ("alpha", "w")):
            rows, features = self.problem.data.n_rows, self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of dcd on {rows} rows x {features} features")
        alpha = np.asarray(earlier["alpha"], dtype=np.float64)
        if not np.isfinite(alpha).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite")
        alpha = np.clip(alpha, 0.0, self.upper)
        w = self.problem.weights_of(alpha)
        rows_kept = np.array_equal(np.sort(earlier.get("order", ())), state["order"])
        w_kept = np.allclose(w, earlier["w"], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        state["alpha"], state["w"] = alpha, w
        state["rows_read"] = self.problem.data.n_rows
        if rows_kept and w_kept and earlier.get("total_cost") == state["total_cost"]:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats
            # the uninterrupted run to the last bit.
            for key in ("w", "order", "random_state"):
                state[key] = np.array(earlier[key], dtype=state[key].dtype)
            state["active"] = min(max(int(earlier["active"]), 1), state["order"].size)
            state["rows_until_face"] = int(earlier["rows_until_face"])
            state["pg_above"], state["pg_below"] = float(earlier["pg_above"]), float(earlier["pg_below"])


# --- kernels. y, a, U, C, D: y_i, alpha_i, its upper bound, C_i and D_ii of the row at hand; g: G, pg: PG ------------


@njit(cache=True, nogil=True)
def _run_pass(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    shrinking: bool,
    pg_above: float,
    pg_below: float,
    active: int,
    order: Array,
    alpha: Array,
    w: Array,
    random_state: Array,
    target: float,
    floor: float,
    violation_tol: float,
) -> tuple[int, float, float, int, int, bool, float, float, int, float]:
    """One epoch over all rows, or several over the active ones that together read no more.

    The active rows are done with, and all rows wanted next, once their own share of the gap (or their
    violation) is below the target. Returns (active, pg_above, pg_below, epochs, rows visited, whether the
    last epoch saw all rows, the sum of its gap terms, its largest violation, its updates, dual objective).
    """
    size = order.size
    dual = _dual_value(alpha, constants, w)
    epochs, visited = 0, 0
    while True:
        is_whole = active == size
        visited += active
        epochs += 1
        active, pg_max, pg_min, gap, updates = _run_epoch(
            values, columns, starts, constants, bias_feature, shrinking, pg_above, pg_below,
            active, order, alpha, w, random_state,
        )  # fmt: skip
        pg_above = pg_max if pg_max > 0.0 else np.inf
        pg_below = pg_min if pg_min < 0.0 else -np.inf
        violation = max(pg_max, 0.0) - min(pg_min, 0.0)
        is_solved = updates == 0 or violation < violation_tol or gap <= target * max(dual + gap, floor)
        if active == 0 or (is_solved and not is_whole):
            active, pg_above, pg_below = size, np.inf, -np.inf
        if is_whole or active == size or visited + active > size:
            break
    dual = _dual_value(alpha, constants, w)
    return active, pg_above, pg_below, epochs, visited, is_whole, gap, violation, updates, dual


@njit(cache=True, nogil=True, error_model="numpy")
def _run_epoch(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    shrinking: bool,
    pg_above: float,
    pg_below: float,
    active: int,
    order: Array,
    alpha: Array,
    w: Array,
    random_state: Array,
) -> tuple[int, float, float, float, int]:
    """One epoch over the first `active` rows of `order`, in a new random order.

    Returns (rows still active, largest PG, smallest PG, sum of the gap's terms, number of updates).
    """
    dense = starts.size == 0
    d = w.size - 1
    bias_weight = w[d]
    pg_max, pg_min, gap, updates = -np.inf, np.inf, 0.0, 0
    _shuffle(order, active, random_state)
    s = 0
    while s < active:
        # A random row is a cache miss in every array: ask for the rows ahead while this one is worked on.
        if s + _FAR < active:
            ahead = order[s + _FAR]
            _prefetch(alpha, ahead)
            _prefetch(constants, 4 * ahead)
            if not dense:
                _prefetch(starts, ahead)
        if s + _NEAR < active:
            ahead = order[s + _NEAR] * d if dense else starts[order[s + _NEAR]]
            _prefetch(values, ahead)
            _prefetch(values, ahead + 64 // values.itemsize)
            if not dense:
                _prefetch(columns, ahead)
        i = order[s]
        y, C, D, curvature = constants[i, 0], constants[i, 1], constants[i, 2], constants[i, 3]
        U = np.inf if D > 0.0 else C
        a = alpha[i]
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        score = _dot_dense(values, first, w) if dense else _dot_sparse(values, columns, first, past, w)
        margin = y * (score + bias_feature * bias_weight)
        g = margin - 1.0 + D * a
        gap += _gap_term(margin, g, a, C, D)
        if shrinking and ((a == 0.0 and g > pg_above) or (a == U and g < pg_below)):
            active -= 1
            order[s], order[active] = order[active], order[s]
            continue
        s += 1
        pg = g
        if a == 0.0:
            pg = min(g, 0.0)
        elif a == U:
            pg = max(g, 0.0)
        pg_max = max(pg_max, pg)
        pg_min = min(pg_min, pg)
        if abs(pg) > 1e-12:
            alpha[i] = min(max(a - g / curvature, 0.0), U)
            change = (alpha[i] - a) * y
            if change != 0.0:
                updates += 1
                bias_weight += change * bias_feature
                if dense:
                    for j in range(d):
                        w[j] += change * values[first + j]
                else:
                    for k in range(first, past):
                        w[columns[k]] += change * values[k]
    w[d] = bias_weight
    return active, pg_max, pg_min, gap, updates


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


@njit(cache=True, nogil=True)
def _gap_term(margin: float, g: float, a: float, C: float, D: float) -> float:
    """This row's term of the gap: C xi^p + conj(alpha) - alpha (1 - margin)."""
    if D > 0.0:
        return g * g * C if margin < 1.0 else a * (0.5 * D * a + margin - 1.0)
    return (C - a) * (1.0 - margin) if margin < 1.0 else a * (margin - 1.0)


@njit(cache=True, nogil=True, fastmath=_IN_ORDER)
def _dot_sparse(values: Array, columns: Array, first: int, past: int, w: Array) -> float:
    total = 0.0
    for k in range(first, past):
        total += values[k] * w[columns[k]]
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dot_dense(values: Array, first: int, w: Array) -> float:
    total = 0.0
    for j in range(w.size - 1):
        total += values[first + j] * w[j]
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dual_value(alpha: Array, constants: Array, w: Array) -> float:
    total = 0.0
    for i in range(alpha.size):
        total += alpha[i] * (1.0 - 0.5 * constants[i, 2] * alpha[i])
    for j in range(w.size):
        total -= 0.5 * w[j] * w[j]
    return total
