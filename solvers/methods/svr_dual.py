"""`svr_dual`: dual coordinate descent for support vector regression (Ho, Lin 2012).

The method maximises the dual, which has one variable b_i per row,

    D(b) = sum_i (y_i b_i - epsilon |b_i| - 1/2 D_ii b_i^2) - 1/2 |w(b)|^2,    w(b) = sum_i b_i x_i,    |b_i| <= U_i,

in one b_i at a time, in random order. It keeps w up to date, so a step reads only one row. The dual has a kink at b_i =
0. Rows whose variable stays at 0 or at a bound are shrunk until the other rows are solved. Every FACE_PASSES passes all
variables between their bounds are solved together (dual_face.py).

The paper's symbols: G is the gradient f(x_i) - y_i + D_ii b_i of -D without epsilon. U is the bound of |b_i|: C_i, or
infinity for the squared loss, which adds D_ii = 1 / (2 C_i). Q_ii = |x_i|^2 + D_ii.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.rng import shuffle
from solvers.linalg.row import FlatRows, add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.dual_face import BoxFace, ascend
from solvers.problem.problems import RegressionProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["SupportVectorRegression"]


FACE_PASSES = 50
"""Passes between two joint solves of all variables between their bounds. Larger: slow phases of coordinate descent last
longer. Set by hand; no measurement is recorded."""
FACE_READS, FACE_ENTRIES = 80, 20_000_000
"""Maximum passes over X, and maximum entries read, in one joint solve. The solve is part of one step, so FACE_ENTRIES
limits the time of a step. Larger: more precise, longer solves. Set by hand; no measurement is recorded."""

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@dataclass(slots=True)
class SvrState(State):
    alpha: Floats  # dual variables b_i, one per row
    w: Floats  # sum_i b_i x_i; the last entry is the weight of the bias feature
    order: NDArray[np.int64]  # the rows with a positive cost, active ones first
    active: int  # number of active rows
    threshold: float  # rows that satisfy their optimality conditions by more than this are shrunk
    first_violation: float  # sum of the violations in the first epoch; negative before it
    random_state: NDArray[np.uint64]
    rows_until_face: int  # rows to visit before the next joint solve of the variables between their bounds
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    epochs: int
    rows_read: int


class SupportVectorRegression(Method[RegressionProblem, SvrState]):
    name = "svr_dual"
    tasks = ("regression",)
    losses = ("epsilon_insensitive", "squared_epsilon_insensitive")
    biases = ("none", "regularized")
    state_type = SvrState
    options = (
        Option("shrinking", bool, True, "skip rows while their variable stays at zero or at a bound"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the sum of all rows' violations is below this times "
            "the sum in the first pass; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=21.0, squared_row=2.0, feature=4.0, kept_row=2.0, kept_feature=1.0)
    pace = Pace(least=3.5, hardness=1.15, hardest=1e12, precision=0.12, entry_seconds=2.2e-9, row_seconds=4.5e-8)
    paper = "Ho, Lin (2012): Large-scale linear support vector regression"
    notes = "For wide and sparse rows. Slower as C grows or if features are badly scaled; scale X and y."

    def __init__(self, problem: RegressionProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.counted = problem.costs > 0.0
        self.diagonal = problem.loss.dual_diagonal(problem.costs)
        norms = problem.data.usable_squared_norms() + problem.bias_feature**2
        self.upper = problem.loss.dual_top(problem.costs)
        columns = [problem.targets, problem.costs, self.diagonal, norms + self.diagonal]
        # Gradients are differences of targets and scores, so their rounding errors have the scale of the targets.
        noise = 1e-13 * float(np.abs(problem.targets).max())
        self.terms = Terms(
            problem.data.flat(),
            read_only(np.stack(columns, axis=1)),
            problem.spec.epsilon,
            problem.bias_feature,
            noise,
            options["shrinking"],
        )

    def init(self, seed: int, start: Start) -> SvrState:
        order = np.flatnonzero(self.counted)
        state = SvrState(
            alpha=np.zeros(self.problem.data.n_rows),
            w=np.zeros(self.problem.data.n_features + 1),
            order=order,
            active=order.size,
            threshold=np.inf,
            first_violation=-1.0,
            random_state=np.array([seed], dtype=np.uint64),
            rows_until_face=FACE_PASSES * order.size,
            total_cost=self.problem.total_cost,
            epochs=0,
            rows_read=0,
        )
        earlier = self.earlier(start)
        if earlier is not None:
            return self._resumed(state, earlier)
        if start.coef is not None:
            self._approach(state, start.coef, float(start.intercept))
        return state

    def step(self, state: SvrState, target: float) -> Progress:
        few_violations = self.chosen["violation_tol"] * state.first_violation
        goal = Goal(target, self.problem.primal_floor, few_violations)
        visits = Visits(state.order, state.active, state.threshold, state.random_state)
        seen = _run_pass(self.terms, state.alpha, state.w, visits, goal)
        self._note(state, seen)
        if state.rows_until_face <= 0:
            self._solve_face(state)
        return self._progress(state, seen, few_violations)

    def extract(self, state: SvrState) -> Point:
        return Point(state.w[:-1].copy(), float(self.problem.bias_feature * state.w[-1]), state.alpha.copy())

    def _note(self, state: SvrState, seen: "PassReport") -> None:
        """Count the rows that a pass read, and keep its active set."""
        state.active, state.threshold = seen.active, seen.threshold
        state.epochs += seen.epochs
        state.rows_read += seen.visited
        state.rows_until_face -= seen.visited
        if state.first_violation < 0.0:
            state.first_violation = seen.violation

    def _progress(self, state: SvrState, seen: "PassReport", few_violations: float) -> Progress:
        passes = state.rows_read // self.problem.data.n_rows
        if not np.isfinite(seen.dual):
            return Progress(state.epochs, passes, None, None, None, Status.NONFINITE)
        finished = None
        if seen.is_whole and seen.updates == 0:
            finished = Status.STALLED
        elif seen.is_whole and seen.violation < few_violations:
            finished = Status.STOPPED
        # With w = w(b) the gap is the sum of the rows' terms; each was computed when its row was visited.
        primal = seen.dual + seen.gap
        gap = seen.gap / max(primal, self.problem.primal_floor)
        return Progress(state.epochs, passes, primal, seen.dual, gap, finished, seen.is_whole)

    def _solve_face(self, state: SvrState) -> None:
        """Solve for all variables between their bounds together, with the others fixed."""
        data, beta, epsilon = self.problem.data, state.alpha, self.problem.spec.epsilon
        reads = min(FACE_READS, FACE_ENTRIES // max(1, data.stored_entries), self.reads_left - 1)
        state.rows_until_face = FACE_PASSES * state.order.size
        if reads >= 6:
            # With epsilon > 0 the dual has a kink at zero, so each variable keeps its sign.
            lower = np.where((beta >= 0.0) & (epsilon > 0.0), 0.0, -self.upper)
            upper = np.where((beta <= 0.0) & (epsilon > 0.0), 0.0, self.upper)
            linear = self.problem.targets - epsilon * np.sign(beta)
            face = BoxFace(self.problem, linear, self.diagonal, lower, upper)
            state.alpha, state.w, used = ascend(face, beta, state.w, reads)
            state.rows_read += used * data.n_rows

    def _approach(self, state: SvrState, coef: Floats, intercept: float) -> None:
        """Start from a dual point built from these weights by the optimality conditions.

        The point is scaled by the factor that maximises the dual, so its value is never below that of zero.
        """
        spec = self.problem.spec
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(coef, scores)
        errors = self.problem.targets - scores - intercept
        sizes, _ = self.problem.loss.dual_bounds(np.abs(errors) - spec.epsilon, self.problem.costs, 0.0)
        beta = np.sign(errors) * sizes
        w = self._weights_of(beta)
        gain = float((self.problem.targets * beta - spec.epsilon * np.abs(beta)).sum())
        quadratic = float((w * w).sum() + (self.diagonal * beta * beta).sum())
        length = min(1.0, max(0.0, gain) / quadratic) if quadratic > 0.0 else 1.0
        state.alpha, state.w = beta * length, w * length
        state.rows_read = 2 * self.problem.data.n_rows

    def _weights_of(self, beta: Floats) -> Floats:
        w = np.empty(self.problem.data.n_features + 1)
        self.problem.data.weighted_column_sums(beta, w[:-1])
        w[-1] = self.problem.bias_feature * float(beta.sum())
        return w

    def _resumed(self, state: SvrState, earlier: SvrState) -> SvrState:
        """Continue from the state `earlier`. On the same problem results are bit-identical; otherwise the run starts
        from its dual point."""
        if earlier.alpha.shape != state.alpha.shape or earlier.w.shape != state.w.shape:
            rows, features = self.problem.data.n_rows, self.problem.data.n_features
            raise InvalidOptions(
                "warm_start", f"is not a state of svr_dual on data with {rows} rows x {features} features; leave it out"
            )
        if not np.isfinite(earlier.alpha).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite; leave it out")
        beta = np.clip(earlier.alpha, -self.upper, self.upper)
        w = self._weights_of(beta)
        state.alpha, state.w = beta, w
        state.rows_read = self.problem.data.n_rows
        rows_kept = np.array_equal(np.sort(earlier.order), state.order)
        w_kept = np.allclose(w, earlier.w, rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        if not (rows_kept and w_kept and earlier.total_cost == state.total_cost):
            return state
        earlier.alpha, earlier.epochs, earlier.rows_read = beta, state.epochs, state.rows_read
        earlier.active = min(max(earlier.active, 1), earlier.order.size)
        return earlier


# --- kernels. y, b, U, C, D: y_i, b_i, its bound, C_i and D_ii of the current row; g: G -------------------------------


class Terms(NamedTuple):
    """Constants of a run."""

    rows: FlatRows
    constants: Array
    """y_i, C_i, D_ii and |x_i|^2 + D_ii of each row, in adjacent memory: reading a random row costs one cache miss."""
    epsilon: float
    bias_feature: float
    noise: float
    """Violations up to this value count as rounding errors."""
    shrinking: bool


class Visits(NamedTuple):
    """The rows that an epoch visits; see SvrState."""

    order: Array
    active: int
    threshold: float
    random_state: Array


class Goal(NamedTuple):
    """When the active rows count as solved, so that the next epoch visits all rows."""

    target: float
    """Target of the relative gap."""
    floor: float
    """Smallest divisor of a relative gap, used if the primal value is below it."""
    few_violations: float


class EpochReport(NamedTuple):
    active: int
    """Number of rows still active."""
    largest: float
    """Largest violation of any visited row."""
    violation: float
    """Sum of the violations."""
    gap: float
    """Sum of the rows' terms of the gap."""
    updates: int


class PassReport(NamedTuple):
    """The active set after a pass, the counts of the pass, and the results of its last epoch."""

    active: int
    threshold: float
    epochs: int
    visited: int
    is_whole: bool
    """Whether the last epoch visited every row."""
    gap: float
    violation: float
    updates: int
    dual: float


@njit(cache=True, nogil=True)
def _run_pass(terms: Terms, beta: Array, w: Array, visits: Visits, goal: Goal) -> PassReport:
    """Run one epoch over all rows, or several epochs over the active rows that together visit at most as many rows.

    All rows become active again once the gap of the active rows, or the sum of their violations, is below the goal.
    """
    order, active, threshold, random_state = visits
    size = order.size
    dual = _dual_value(beta, terms.constants, terms.epsilon, w)
    epochs, visited = 0, 0
    while True:
        is_whole = active == size
        visited += active
        epochs += 1
        seen = _run_epoch(terms, beta, w, Visits(order, active, threshold, random_state))
        active = seen.active
        threshold = seen.largest if seen.largest > 0.0 else np.inf
        is_close = seen.gap <= goal.target * max(dual + seen.gap, goal.floor)
        is_solved = seen.updates == 0 or seen.violation < goal.few_violations or is_close
        if active == 0 or (is_solved and not is_whole):
            active, threshold = size, np.inf
        if is_whole or active == size or visited + active > size:
            break
    dual = _dual_value(beta, terms.constants, terms.epsilon, w)
    return PassReport(active, threshold, epochs, visited, is_whole, seen.gap, seen.violation, seen.updates, dual)


@njit(cache=True, nogil=True, error_model="numpy")
def _run_epoch(terms: Terms, beta: Array, w: Array, visits: Visits) -> EpochReport:
    """Visit the active rows in a new random order; shrink rows that satisfy their optimality conditions."""
    values, columns, starts = terms.rows
    constants, epsilon, bias_feature = terms.constants, terms.epsilon, terms.bias_feature
    noise, shrinking = terms.noise, terms.shrinking
    order, active, threshold, random_state = visits
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
        # The one-sided derivatives of -D at b; at a bound only one of them counts.
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
    return EpochReport(active, largest, violations, gap, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def _best_on_row(b: float, g: float, curvature: float, epsilon: float, U: float) -> float:
    """Return the b' within its bounds that minimises 1/2 curvature (b' - b)^2 + g (b' - b) + epsilon |b'|."""
    if curvature == 0.0:
        return 0.0 if abs(g) <= epsilon else -np.copysign(U, g)
    best = b - (g + epsilon) / curvature
    if best < 0.0:
        best = min(b - (g - epsilon) / curvature, 0.0)
    return min(max(best, -U), U)


@njit(cache=True, nogil=True)
def _gap_term(error: float, b: float, C: float, D: float, epsilon: float) -> float:
    """Return a row's term of the gap, C xi^p + conj(|b|) + epsilon |b| - b error, as a sum of terms >= 0."""
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
