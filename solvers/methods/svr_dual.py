"""`svr_dual`: dual coordinate descent for regression.

Ho, Lin: Large-scale linear support vector regression, JMLR 2012. It maximises the dual, of one variable b_i a row

    D(b) = sum_i (y_i b_i - epsilon |b_i| - 1/2 D_ii b_i^2) - 1/2 |w(b)|^2,    w(b) = sum_i b_i x_i,    |b_i| <= U_i,

one b_i at a time in random order and keeps w up to date, so a step costs one row. It is the method of `dcd` with
a kink at b_i = 0, and shares its ways: rows that have settled at 0 or at a bound are left out ("shrunk") until the
rest is solved, and every FACE_PASSES passes the others are solved for together, see dual_face.py.

The paper's symbols: G is the slope f(x_i) - y_i + D_ii b_i of -D without epsilon, U the bound of |b_i| (C_i, or
infinity for the squared loss, which adds D_ii = 1 / (2 C_i)), Q_ii = |x_i|^2 + D_ii.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.rng import shuffle
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.dual_face import BoxFace, ascend
from solvers.problem.problems import RegressionProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["SupportVectorRegression"]


FACE_PASSES = 50
"""After so many passes without an end, the rows between their bounds are solved for together."""
FACE_READS, FACE_ENTRIES = 80, 20_000_000
"""At most so many reads of X, and of its entries, for that: it is within a step."""

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


class SupportVectorRegression(Method[RegressionProblem, Any]):
    name = "svr_dual"
    tasks = ("regression",)
    losses = ("epsilon_insensitive", "squared_epsilon_insensitive")
    biases = ("none", "regularized")
    options = (
        Option("shrinking", bool, True, "leave rows out while they are settled at zero or at a bound"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the violations of all rows add up to less than this times "
            "what they were in the first pass; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=21.0, squared_row=2.0, feature=4.0, kept_row=2.0, kept_feature=1.0)
    pace = Pace(least=3.5, hardness=1.15, hardest=1e12, precision=0.12, entry_seconds=2.2e-9, row_seconds=4.5e-8)
    paper = "Ho, Lin (2012): Large-scale linear support vector regression"
    notes = "For wide and sparse rows. Slows down as C grows or features are badly scaled; scale X and y."

    def __init__(self, problem: RegressionProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        squared = problem.spec.exponent == 2.0
        self.counted = problem.costs > 0.0
        self.diagonal = np.zeros_like(problem.costs)
        if squared:
            np.divide(0.5, problem.costs, out=self.diagonal, where=self.counted)
        norms = problem.data.usable_squared_norms() + problem.bias_feature**2
        self.upper = np.where(self.counted, np.inf, 0.0) if squared else problem.costs
        # Side by side, because a random row costs one cache miss for each array it is looked up in.
        columns = [problem.targets, problem.costs, self.diagonal, norms + self.diagonal]
        self.constants = read_only(np.stack(columns, axis=1))
        # Slopes are differences of targets and scores, so they are no more exact than those.
        self.noise = 1e-13 * float(np.abs(problem.targets).max())
        self.rows = problem.data.flat()

    def init(self, seed: int, start: Start) -> State:
        order = np.flatnonzero(self.counted)
        state: State = {
            "alpha": np.zeros(self.problem.data.n_rows),
            "w": np.zeros(self.problem.data.n_features + 1),
            "order": order,
            "active": order.size,
            "threshold": np.inf,
            "first_violation": -1.0,
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
        few_violations = self.chosen["violation_tol"] * state["first_violation"]
        active, threshold, epochs, visited, is_whole, gap, violation, updates, dual = _run_pass(
            *self.rows,
            self.constants,
            self.problem.spec.epsilon,
            self.problem.bias_feature,
            self.noise,
            self.chosen["shrinking"],
            state["threshold"],
            state["active"],
            state["order"],
            state["alpha"],
            state["w"],
            state["random_state"],
            target,
            floor,
            few_violations,
        )
        state["active"], state["threshold"] = active, threshold
        state["epochs"] += epochs
        state["rows_read"] += visited
        state["rows_until_face"] -= visited
        if state["first_violation"] < 0.0:
            state["first_violation"] = violation
        if state["rows_until_face"] <= 0:
            self._explore_face(state)
        passes = state["rows_read"] // self.problem.data.n_rows
        if not np.isfinite(dual):
            return Progress(state["epochs"], passes, None, None, None, Status.NONFINITE)
        finished = None
        if is_whole and updates == 0:
            finished = Status.STALLED
        elif is_whole and violation < few_violations:
            finished = Status.STOPPED
        # With w = w(b) the gap is the sum of the rows' terms, each taken when its row was visited.
        primal = dual + gap
        return Progress(state["epochs"], passes, primal, dual, gap / max(primal, floor), finished, is_whole)

    def extract(self, state: State) -> Point:
        w = state["w"]
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), state["alpha"].copy())

    def _explore_face(self, state: State) -> None:
        data, beta, epsilon = self.problem.data, state["alpha"], self.problem.spec.epsilon
        reads = min(FACE_READS, FACE_ENTRIES // max(1, data.stored_entries), self.reads_left - 1)
        state["rows_until_face"] = FACE_PASSES * state["order"].size
        if reads >= 6:
            # Where there is a kink at zero, a variable keeps its sign.
            lower = np.where((beta >= 0.0) & (epsilon > 0.0), 0.0, -self.upper)
            upper = np.where((beta <= 0.0) & (epsilon > 0.0), 0.0, self.upper)
            linear = self.problem.targets - epsilon * np.sign(beta)
            face = BoxFace(self.problem, linear, self.diagonal, lower, upper)
            state["alpha"], state["w"], used = ascend(face, beta, state["w"], reads)
            state["rows_read"] += used * data.n_rows

    def _approach(self, state: State, coef: Floats, intercept: float) -> None:
        """Start from the dual point that the optimality conditions suggest for these weights, shortened
        to the length at which it is worth most: never worse than starting from zero."""
        spec = self.problem.spec
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(coef, scores)
        errors = self.problem.targets - scores - intercept
        excess = np.maximum(np.abs(errors) - spec.epsilon, 0.0)
        sizes = 2.0 * excess if spec.exponent == 2.0 else excess > 0.0
        beta = np.sign(errors) * self.problem.costs * sizes
        w = self._weights_of(beta)
        gain = float((self.problem.targets * beta - spec.epsilon * np.abs(beta)).sum())
        quadratic = float((w * w).sum() + (self.diagonal * beta * beta).sum())
        length = min(1.0, max(0.0, gain) / quadratic) if quadratic > 0.0 else 1.0
        state["alpha"], state["w"] = beta * length, w * length
        state["rows_read"] = 2 * self.problem.data.n_rows

    def _weights_of(self, beta: Floats) -> Floats:
        w = np.empty(self.problem.data.n_features + 1)
        self.problem.data.weighted_column_sums(beta, w[:-1])
        w[-1] = self.problem.bias_feature * float(beta.sum())
        return w

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its dual point is a start for other costs, too."""
        if any(key not in earlier or np.shape(earlier[key]) != np.shape(state[key]) for key in ("alpha", "w")):
            rows, features = self.problem.data.n_rows, self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of svr_dual on {rows} rows x {features} features")
        beta = np.asarray(earlier["alpha"], dtype=np.float64)
        if not np.isfinite(beta).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite")
        beta = np.clip(beta, -self.upper, self.upper)
        w = self._weights_of(beta)
        rows_kept = np.array_equal(np.sort(earlier.get("order", ())), state["order"])
        w_kept = np.allclose(w, earlier["w"], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        state["alpha"], state["w"] = beta, w
        state["rows_read"] = self.problem.data.n_rows
        if rows_kept and w_kept and earlier.get("total_cost") == state["total_cost"]:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats
            # the uninterrupted run to the last bit.
            for key in ("w", "order", "random_state"):
                state[key] = np.array(earlier[key], dtype=state[key].dtype)
            state["active"] = min(max(int(earlier["active"]), 1), state["order"].size)
            state["rows_until_face"] = int(earlier["rows_until_face"])
            state["threshold"], state["first_violation"] = earlier["threshold"], earlier["first_violation"]


# --- kernels. y, b, U, C, D: y_i, b_i, its bound, C_i and D_ii of the row at hand; g: G -------------------------------


@njit(cache=True, nogil=True)
def _run_pass(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    epsilon: float,
    bias_feature: float,
    noise: float,
    shrinking: bool,
    threshold: float,
    active: int,
    order: Array,
    beta: Array,
    w: Array,
    random_state: Array,
    target: float,
    floor: float,
    few_violations: float,
) -> tuple[int, float, int, int, bool, float, float, int, float]:
    """One epoch over all rows, or several over the active ones that together read no more.

    The active rows are done with, and all rows wanted next, once their own share of the gap (or their violations) is
    below the target. Returns (active, threshold, epochs, rows visited, whether the last epoch saw all rows, the sum of
    its gap terms, the sum of its violations, its updates, dual objective).
    """
    size = order.size
    dual = _dual_value(beta, constants, epsilon, w)
    epochs, visited = 0, 0
    while True:
        is_whole = active == size
        visited += active
        epochs += 1
        active, largest, violation, gap, updates = _run_epoch(
            values, columns, starts, constants, epsilon, bias_feature, noise, shrinking, threshold,
            active, order, beta, w, random_state,
        )  # fmt: skip
        threshold = largest if largest > 0.0 else np.inf
        is_solved = updates == 0 or violation < few_violations or gap <= target * max(dual + gap, floor)
        if active == 0 or (is_solved and not is_whole):
            active, threshold = size, np.inf
        if is_whole or active == size or visited + active > size:
            break
    dual = _dual_value(beta, constants, epsilon, w)
    return active, threshold, epochs, visited, is_whole, gap, violation, updates, dual


@njit(cache=True, nogil=True, error_model="numpy")
def _run_epoch(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    epsilon: float,
    bias_feature: float,
    noise: float,
    shrinking: bool,
    threshold: float,
    active: int,
    order: Array,
    beta: Array,
    w: Array,
    random_state: Array,
) -> tuple[int, float, float, float, int]:
    """One epoch over the first `active` rows of `order`, in a new random order.

    Returns (rows still active, largest violation, sum of violations, sum of the gap's terms, number of updates).
    """
    dense = starts.size == 0
    d = w.size - 1
    bias_weight = w[d]
    largest, violations, gap, updates = 0.0, 0.0, 0.0, 0
    shuffle(order, active, 1, random_state)
    s = 0
    while s < active:
        i = order[s]
        y, C, D, curvature = constants[i, 0], constants[i, 1], constants[i, 2], constants[i, 3]
        U = np.inf if D > 0.0 else C
        b = beta[i]
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], w) if dense else dot_sparse(values, columns, first, past, w)
        score += bias_feature * bias_weight
        g = score - y + D * b
        gap += _gap_term(y - score, b, C, D, epsilon)
        # The slope to either side of b, as far as the bounds leave room; above 0 means that b should fall.
        rising = g + epsilon if b >= 0.0 else g - epsilon
        falling = g + epsilon if b > 0.0 else g - epsilon
        up = -rising if b < U else -np.inf
        down = falling if b > -U else -np.inf
        violation = max(up, down)
        if shrinking and violation < -threshold:
            active -= 1
            order[s], order[active] = order[active], order[s]
            continue
        s += 1
        if violation > noise:
            largest = max(largest, violation)
            violations += violation
            moved = _best_on_row(b, g, curvature, epsilon, U)
            change = moved - b
            if change != 0.0:
                beta[i] = moved
                updates += 1
                bias_weight += change * bias_feature
                if dense:
                    add_dense(values[first:past], change, w)
                else:
                    add_sparse(values, columns, first, past, change, w)
    w[d] = bias_weight
    return active, largest, violations, gap, updates


@njit(cache=True, nogil=True, error_model="numpy")
def _best_on_row(b: float, g: float, curvature: float, epsilon: float, U: float) -> float:
    """The b' that minimises 1/2 curvature (b' - b)^2 + g (b' - b) + epsilon |b'| within its bounds."""
    if curvature == 0.0:
        return 0.0 if abs(g) <= epsilon else -np.copysign(U, g)
    best = b - (g + epsilon) / curvature
    if best < 0.0:
        best = min(b - (g - epsilon) / curvature, 0.0)
    return min(max(best, -U), U)


@njit(cache=True, nogil=True)
def _gap_term(error: float, b: float, C: float, D: float, epsilon: float) -> float:
    """This row's term of the gap: C xi^p + conj(|b|) + epsilon |b| - b error, from terms >= 0."""
    size = abs(b)
    towards = error if b >= 0.0 else -error
    excess = max(abs(error) - epsilon, 0.0)
    is_over = towards >= epsilon
    slack = 0.0 if is_over else size * (epsilon - towards)
    if D == 0.0:
        return ((C - size) if is_over else C) * excess + slack
    share = D * size
    return C * ((excess - share) ** 2 if is_over else excess**2 + share**2) + slack


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dual_value(beta: Array, constants: Array, epsilon: float, w: Array) -> float:
    total = 0.0
    for i in range(beta.size):
        b = beta[i]
        total += b * (constants[i, 0] - 0.5 * constants[i, 2] * b) - epsilon * abs(b)
    for j in range(w.size):
        total -= 0.5 * w[j] * w[j]
    return total
