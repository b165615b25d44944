"""`pegasos`: stochastic subgradient steps for hinge loss.

Shalev-Shwartz, Singer, Srebro: Pegasos: primal estimated sub-gradient solver for SVM, ICML 2007. The paper minimises
lambda/2 |w|^2 + the mean of the losses. With T the sum of the costs, P / T is that for lambda = 1/T if each row counts
in the mean by its cost: rows are drawn in proportion to C_i, so a row of weight 2 is drawn as often as the row twice.
Step t draws a batch of k rows, of which those with y_i w.x_i < 1 violate the margin:

    w <- (1 - 1/t) w + T/(t k) sum of y_i x_i over the violators;    then into the ball |w| <= sqrt(T), if wanted

Here w = (shrink / t) u: a step changes u by its violators only, t and the projection change two numbers. The sum of
the iterates is kept as share * u + rest in the same way.

The error falls like 1 / steps, and the steps do not tell how large it is. So after passes that grow by half each time
P is evaluated, of the mean of the iterates since the time before (`average`) or of the last one. The best point so
far is the answer. Once steps have gained anything, four evaluations in a row without a relative gain of 1e-5 end the
run as stalled.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.rng import next_number
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["Pegasos"]


CHECK_GROWTH = 1.5
LEAST_GAIN, PATIENCE = 1e-5, 4

_STEPPED = ("t", "shrink", "squared_length", "share", "averaged")  # in the order of the kernel's `numbers`
_VECTORS = ("u", "rest", "best")


class Pegasos(Method[BinaryProblem, Any]):
    name = "pegasos"
    tasks = ("binary",)
    losses = ("hinge",)
    biases = ("none", "regularized")
    options = (
        Option("batch_size", int, 1, "rows of a step; at most all", low=1),
        Option("projection", bool, True, "keep the weights in the ball that must contain the optimum"),
        Option("average", bool, True, "judge and return means of the iterates instead of single ones"),
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
    notes = "A rough answer after few passes over many rows; high precision is out of its reach, more so if C is large."
    exact = False
    has_estimate = False

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        norms = problem.data.usable_squared_norms() + problem.bias_feature**2
        self.norms = read_only(norms)
        is_uniform = bool((problem.costs == problem.costs[0]).all())
        self.cumulated = read_only(np.empty(0) if is_uniform else np.cumsum(problem.costs))
        self.batch_size = min(int(options["batch_size"]), problem.data.n_rows)
        self.steps_a_pass = -(-problem.data.n_rows // self.batch_size)

    def init(self, seed: int, start: Start) -> State:
        k = self.problem.data.n_features + 1
        state: State = {
            "u": np.zeros(k),
            "rest": np.zeros(k),
            "best": np.zeros(k),
            "best_primal": math.inf,
            "t": 0.0,  # steps taken
            "shrink": 1.0,
            "squared_length": 0.0,  # of u
            "share": 0.0,
            "averaged": 0.0,  # iterates in the sum
            "random_state": np.array([seed], dtype=np.uint64),
            "age": 0,  # passes of steps
            "next_check": 0,  # the age at which P is evaluated next
            "has_gained": False,  # whether any steps did
            "idle": 0,  # evaluations without a gain since they did
            "iterations": 0,
            "passes": 1,  # the lengths of the rows
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            bias = float(start.intercept) / self.problem.bias_feature if self.problem.bias_feature > 0.0 else 0.0
            # As if a pass of steps had led there: the first steps of all would throw any start away.
            state["t"] = float(self.steps_a_pass)
            state["u"] = state["t"] * np.append(start.coef, bias)
            state["squared_length"] = float((state["u"] * state["u"]).sum())
        return state

    def step(self, state: State, target: float) -> Progress:
        state["iterations"] += 1
        if state["age"] >= state["next_check"]:
            self._check(state)
        else:
            self._run_pass(state)
        finished = Status.STALLED if state["idle"] >= PATIENCE else None
        if not math.isfinite(state["squared_length"] + state["best_primal"]):
            finished = Status.NONFINITE
        return Progress(state["iterations"], state["passes"], state["best_primal"], None, None, finished)

    def extract(self, state: State) -> Point:
        w = state["best"]
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), None)

    def _check(self, state: State) -> None:
        """Evaluate P, keep the point if it is the best, and begin a new mean."""
        w = np.asarray(state["shrink"] / max(state["t"], 1.0) * state["u"])
        if state["averaged"] > 0.0:
            w = np.asarray((state["share"] * state["u"] + state["rest"]) / state["averaged"])
        primal = self._primal(state, w)
        gains = primal < state["best_primal"] * (1.0 - LEAST_GAIN)
        state["has_gained"] = state["has_gained"] or (gains and state["best_primal"] < math.inf)
        state["idle"] = 0 if gains or not state["has_gained"] else state["idle"] + 1
        if primal < state["best_primal"]:
            state["best"], state["best_primal"] = w, primal
        state["next_check"] = max(state["age"] + 1, int(CHECK_GROWTH * state["age"]))
        state["share"], state["averaged"], state["rest"] = 0.0, 0.0, np.zeros_like(w)

    def _primal(self, state: State, w: Floats) -> float:
        state["passes"] += 1
        problem = self.problem
        scores = np.empty(problem.data.n_rows)
        problem.data.margins(w[:-1], scores)
        slack = 1.0 - problem.signs * (scores + problem.bias_feature * w[-1])
        return 0.5 * float((w * w).sum()) + float((problem.costs * np.maximum(slack, 0.0)).sum())

    def _run_pass(self, state: State) -> None:
        state["passes"] += 1
        state["age"] += 1
        problem = self.problem
        numbers = np.array([state[name] for name in _STEPPED])
        _run_steps(
            *problem.data.flat(),
            problem.signs,
            self.norms,
            self.cumulated,
            problem.bias_feature,
            problem.total_cost,
            self.steps_a_pass,
            self.chosen["projection"],
            self.chosen["average"],
            np.empty(self.batch_size, dtype=np.int64),
            np.empty(self.batch_size),
            state["random_state"],
            state["u"],
            state["rest"],
            numbers,
        )
        state.update(zip(_STEPPED, map(float, numbers), strict=True))
        state["squared_length"] = float((state["u"] * state["u"]).sum())  # without what rounding added up

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state, to the same bits if the problem is the same."""
        if any(name not in earlier or np.shape(earlier[name]) != state[name].shape for name in _VECTORS):
            features = self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of pegasos on {features} features")
        if any(not np.isfinite(earlier[name]).all() for name in _VECTORS):
            raise InvalidOptions("warm_start", "has weights that are NaN or infinite")
        state.update({name: np.array(earlier[name], dtype=np.float64) for name in _VECTORS})
        state.update({name: float(earlier[name]) for name in _STEPPED})
        state.update({name: int(earlier[name]) for name in ("age", "next_check", "idle")})
        state["has_gained"] = bool(earlier["has_gained"])
        state["random_state"] = np.array(earlier["random_state"], dtype=np.uint64)
        if earlier["best_primal"] < math.inf:
            state["best_primal"] = self._primal(state, state["best"])
            if state["best_primal"] != earlier["best_primal"]:
                state["idle"] = 0


# --- kernels. numbers: t, shrink, |u|^2, share, averaged; factor: shrink / t, so that w = factor u; T: total cost -----

_SMALL = 1e-4  # with less shrink, share * u and rest would cancel; the first steps can shrink w by 1e-100 and more


@njit(cache=True, nogil=True, error_model="numpy")
def _run_steps(
    values: Array, columns: Array, starts: Array, signs: Array, norms: Array, cumulated: Array, bias_feature: float,
    T: float, steps: int, projection: bool, average: bool, batch: Array, scores: Array, random_state: Array, u: Array,
    rest: Array, numbers: Array,
) -> None:  # fmt: skip
    dense, d = starts.size == 0, u.size - 1
    t, shrink, length, share, averaged = numbers
    for _ in range(steps):
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
            if projection:
                score = scores[b]
                if b > 0:  # u has moved since
                    score = dot_dense(values[first:past], u) if dense else dot_sparse(values, columns, first, past, u)
                    score += bias_feature * u[d]
                length += move * (2.0 * score + move * norms[i])
            unseen = share * move  # what the sum of the earlier iterates has not of this change
            u[d] += move * bias_feature
            rest[d] -= unseen * bias_feature
            if dense:
                add_dense(values[first:past], move, u)
                add_dense(values[first:past], -unseen, rest)
            else:
                add_sparse(values, columns, first, past, move, u)
                add_sparse(values, columns, first, past, -unseen, rest)
        if projection and shrink * shrink * length > t * t * T:
            shrink = t * np.sqrt(T / length)
        if average:
            share += shrink / t
            averaged += 1.0
        if shrink < _SMALL:
            for j in range(d + 1):
                rest[j] += share * u[j]
                u[j] *= shrink
            length, share, shrink = length * shrink * shrink, 0.0, 1.0
    numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] = t, shrink, length, share, averaged


@njit(cache=True, nogil=True)
def _draw_row(random_state: Array, cumulated: Array, n: int) -> int:
    """A row in proportion to its cost, of which `cumulated` are the sums; empty: all alike."""
    fraction = np.float64(next_number(random_state) >> np.uint64(11)) * 2.0**-53
    if cumulated.size == 0:
        return min(int(fraction * n), n - 1)
    # Below the last sum even if the product rounds up; then the first sum above it is of a row with cost.
    wanted = min(fraction * cumulated[n - 1], cumulated[n - 1] * (1.0 - 2.0**-52))
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low
