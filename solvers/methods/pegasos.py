"""`pegasos`: stochastic subgradient steps for hinge loss (Shalev-Shwartz, Singer, Srebro 2007).

The paper minimises lambda/2 |w|^2 plus the mean of the losses. With T = sum_i C_i, the objective P / T has this form:
lambda is 1/T, and row i has the weight C_i / T in the mean. So rows are drawn in proportion to C_i; a row of weight 2
is drawn as often as two copies of it. Step t draws k rows. The rows with y_i w.x_i < 1 violate the margin:

    w <- (1 - 1/t) w + T/(t k) sum of y_i x_i over the violators,    then |w| <= sqrt(T) by projection (an option)

The iterate is stored as w = (shrink / t) u, and the sum of the iterates as share * u + rest. A step then changes u and
rest only in the columns of its violators; t and the projection change only two numbers.

The error falls in proportion to 1 / steps, but the steps do not yield an estimate of the error. So P is evaluated from
time to time: the number of passes between two evaluations grows by half each time. It is evaluated at the mean of the
iterates since the last evaluation (option `average`) or at the last iterate. The result is the best point evaluated.
The run stalls after four evaluations in a row without a relative gain of 1e-5, counted from the first gain.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.rng import next_number
from solvers.linalg.row import FlatRows, add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["Pegasos"]


CHECK_GROWTH = 1.5
"""Factor by which the number of passes grows from one evaluation of P to the next. Larger: fewer evaluations, and more
passes after the best point before the run stalls. Set by hand; no measurement is recorded."""
LEAST_GAIN, PATIENCE = 1e-5, 4
"""The run stalls after PATIENCE consecutive evaluations that each lower P by less than the fraction LEAST_GAIN. A
larger PATIENCE or a smaller LEAST_GAIN: longer runs. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class PegasosState(State):
    u: Floats  # w = (shrink / t) u; the last entry is the weight of the bias feature
    rest: Floats  # the sum of the iterates minus share * u
    t: float  # number of steps so far
    shrink: float  # product of the factors of all projections
    squared_length: float  # |u|^2
    share: float  # multiple of u in the sum of the iterates
    averaged: float  # number of iterates in the sum
    best: Floats  # weights with the lowest P so far
    best_primal: float
    random_state: NDArray[np.uint64]
    age: int  # number of passes of steps
    next_check: int  # age at which P is evaluated next
    has_gained: bool  # whether steps have lowered P at least once
    idle: int  # consecutive evaluations without a gain, since the first gain
    iterations: int
    passes: int


class Pegasos(Method[BinaryProblem, PegasosState]):
    name = "pegasos"
    tasks = ("binary",)
    losses = ("hinge",)
    biases = ("none", "regularized")
    state_type = PegasosState
    options = (
        Option("batch_size", int, 1, "rows per step, at most the number of rows", low=1),
        Option("projection", bool, True, "project w onto the ball |w|^2 <= sum C_i, which contains the optimum"),
        Option("average", bool, True, "evaluate and return means of iterates instead of single iterates"),
    )
    footprint = Footprint(row=19.0, feature=8.0, kept_row=0.0, kept_feature=3.0)
    pace = Pace(
        least=18,
        hardness=1.41,
        hardest=1e12,
        precision=0.4,
        tallness=-0.16,
        entry_seconds=1.7e-9,
        row_seconds=4.7e-7,
        pass_seconds=2.4e-4,
    )
    paper = "Shalev-Shwartz, Singer, Srebro (2007): Pegasos: primal estimated sub-gradient solver for SVM"
    notes = (
        "A rough answer after few passes over many rows. It does not reach high precision, least of all with large C."
    )
    exact = False
    has_estimate = False

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        norms = problem.data.usable_squared_norms() + problem.bias_feature**2
        is_uniform = bool((problem.costs == problem.costs[0]).all())
        cumulated = np.empty(0) if is_uniform else np.cumsum(problem.costs)
        self.rows = problem.data.flat()
        self.terms = Terms(
            problem.signs, read_only(norms), read_only(cumulated), problem.bias_feature, problem.total_cost
        )
        batch_size = min(int(options["batch_size"]), problem.data.n_rows)
        self.steps_a_pass = -(-problem.data.n_rows // batch_size)
        self.rules = Rules(self.steps_a_pass, batch_size, options["projection"], options["average"])

    def init(self, seed: int, start: Start) -> PegasosState:
        k = self.problem.data.n_features + 1
        state = PegasosState(
            u=np.zeros(k),
            rest=np.zeros(k),
            t=0.0,
            shrink=1.0,
            squared_length=0.0,
            share=0.0,
            averaged=0.0,
            best=np.zeros(k),
            best_primal=math.inf,
            random_state=np.array([seed], dtype=np.uint64),
            age=0,
            next_check=0,
            has_gained=False,
            idle=0,
            iterations=0,
            passes=1,  # the pass that computed the norms of the rows
        )
        earlier = self.earlier(start)
        if earlier is not None:
            return self._resumed(state, earlier)
        if start.coef is not None:
            bias = float(start.intercept) / self.problem.bias_feature if self.problem.bias_feature > 0.0 else 0.0
            # t is set as if one pass of steps had led to these weights, because step t = 1 would multiply them by 0.
            state.t = float(self.steps_a_pass)
            state.u = state.t * np.append(start.coef, bias)
            state.squared_length = float((state.u * state.u).sum())
        return state

    def step(self, state: PegasosState, target: float) -> Progress:
        state.iterations += 1
        if state.age >= state.next_check:
            self._check(state)
        else:
            self._run_pass(state)
        finished = Status.STALLED if state.idle >= PATIENCE else None
        if not math.isfinite(state.squared_length + state.best_primal):
            finished = Status.NONFINITE
        return Progress(state.iterations, state.passes, state.best_primal, None, None, finished)

    def extract(self, state: PegasosState) -> Point:
        w = state.best
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), None)

    def _check(self, state: PegasosState) -> None:
        """Evaluate P, keep the point if it is the best so far, and start a new mean."""
        w = np.asarray(state.shrink / max(state.t, 1.0) * state.u)
        if state.averaged > 0.0:
            w = np.asarray((state.share * state.u + state.rest) / state.averaged)
        primal = self._primal(state, w)
        gains = primal < state.best_primal * (1.0 - LEAST_GAIN)
        state.has_gained = state.has_gained or (gains and state.best_primal < math.inf)
        state.idle = 0 if gains or not state.has_gained else state.idle + 1
        if primal < state.best_primal:
            state.best, state.best_primal = w, primal
        state.next_check = max(state.age + 1, int(CHECK_GROWTH * state.age))
        state.share, state.averaged, state.rest = 0.0, 0.0, np.zeros_like(w)

    def _primal(self, state: PegasosState, w: Floats) -> float:
        state.passes += 1
        problem = self.problem
        scores = np.empty(problem.data.n_rows)
        problem.data.margins(w[:-1], scores)
        slack = 1.0 - problem.signs * (scores + problem.bias_feature * w[-1])
        return 0.5 * float((w * w).sum()) + float((problem.costs * np.maximum(slack, 0.0)).sum())

    def _run_pass(self, state: PegasosState) -> None:
        state.passes += 1
        state.age += 1
        before = Scales(state.t, state.shrink, state.squared_length, state.share, state.averaged)
        after = _run_steps(self.rows, self.terms, self.rules, state.random_state, state.u, state.rest, before)
        state.t, state.shrink, _, state.share, state.averaged = after
        state.squared_length = float((state.u * state.u).sum())  # removes the rounding errors of the updates

    def _resumed(self, state: PegasosState, earlier: PegasosState) -> PegasosState:
        """Continue from the state `earlier`, with bit-identical results if the problem is the same."""
        vectors = earlier.u, earlier.rest, earlier.best
        if any(vector.shape != state.u.shape for vector in vectors):
            features = self.problem.data.n_features
            raise InvalidOptions(
                "warm_start", f"is not a state of pegasos on data with {features} features; leave it out"
            )
        if any(not np.isfinite(vector).all() for vector in vectors):
            raise InvalidOptions("warm_start", "has weights that are NaN or infinite; leave it out")
        before = earlier.best_primal
        earlier.iterations, earlier.passes = state.iterations, state.passes
        if before < math.inf:
            earlier.best_primal = self._primal(earlier, earlier.best)
            if earlier.best_primal != before:  # the state is of another problem
                earlier.idle = 0
        return earlier


# --- kernels. factor: shrink / t, so that w = factor u; T: total cost; unseen: part of a move not in share * u --------


class Terms(NamedTuple):
    """The rows' part of the problem."""

    signs: Array
    norms: Array
    """|x_i|^2 with the bias feature."""
    cumulated: Array
    """Running sums of the costs; empty if all costs are equal."""
    bias_feature: float
    total_cost: float


class Rules(NamedTuple):
    """The options of a pass."""

    steps: int
    batch_size: int
    projection: bool
    average: bool


class Scales(NamedTuple):
    """The scalars that a step changes; see PegasosState."""

    t: float
    shrink: float
    squared_length: float
    share: float
    averaged: float


_SMALL = 1e-4
"""Once `shrink` is below this value, u is multiplied by it and `shrink` becomes 1. Otherwise share * u and rest would
cancel, because the first steps can multiply w by 1e-100 or less. Smaller: fewer multiplications, more cancellation. Set
by hand; no measurement is recorded."""


@njit(cache=True, nogil=True, error_model="numpy")
def _run_steps(
    rows: FlatRows, terms: Terms, rules: Rules, random_state: Array, u: Array, rest: Array, scales: Scales
) -> Scales:
    values, columns, starts = rows
    signs, norms, cumulated, bias_feature, T = terms
    batch, scores = np.empty(rules.batch_size, dtype=np.int64), np.empty(rules.batch_size)
    dense, d = starts.size == 0, u.size - 1
    t, shrink, length, share, averaged = scales
    for _ in range(rules.steps):
        factor = shrink / max(t, 1.0)
        for b in range(batch.size):
            i = _draw_row(random_state, cumulated, signs.size)
            first = np.uint64(i * d) if dense else np.uint64(starts[i])
            past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
            score = dot_dense(values[first:past], u) if dense else dot_sparse(values, columns, first, past, u)
            batch[b], scores[b] = i, score + bias_feature * u[d]
        t += 1.0
        for b in range(batch.size):
            i = batch[b]
            if not signs[i] * factor * scores[b] < 1.0:
                continue
            first = np.uint64(i * d) if dense else np.uint64(starts[i])
            past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
            move = signs[i] * T / (batch.size * shrink)
            if rules.projection:
                score = scores[b]
                if b > 0:  # u has changed since the score was computed
                    score = dot_dense(values[first:past], u) if dense else dot_sparse(values, columns, first, past, u)
                    score += bias_feature * u[d]
                length += move * (2.0 * score + move * norms[i])
            unseen = share * move
            u[d] += move * bias_feature
            rest[d] -= unseen * bias_feature
            if dense:
                add_dense(values[first:past], move, u)
                add_dense(values[first:past], -unseen, rest)
            else:
                add_sparse(values, columns, first, past, move, u)
                add_sparse(values, columns, first, past, -unseen, rest)
        if rules.projection and shrink * shrink * length > t * t * T:
            shrink = t * np.sqrt(T / length)
        if rules.average:
            share += shrink / t
            averaged += 1.0
        if shrink < _SMALL:
            for j in range(d + 1):
                rest[j] += share * u[j]
                u[j] *= shrink
            length, share, shrink = length * shrink * shrink, 0.0, 1.0
    return Scales(t, shrink, length, share, averaged)


@njit(cache=True, nogil=True)
def _draw_row(random_state: Array, cumulated: Array, n: int) -> int:
    """Draw a row in proportion to its cost, given the running sums of the costs; uniformly if `cumulated` is empty."""
    fraction = np.float64(next_number(random_state) >> np.uint64(11)) * 2.0**-53
    if cumulated.size == 0:
        return min(int(fraction * n), n - 1)
    # The number drawn stays below the last sum even if the product rounds up, so the row found has a positive cost.
    wanted = min(fraction * cumulated[n - 1], cumulated[n - 1] * (1.0 - 2.0**-52))
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low
