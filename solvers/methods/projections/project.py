"""`project`: random directions, each solved exactly; the best one is kept.

Schneider, Bogojeska, Vlachos (2014), Algorithm 2 (ProjectSVM). The entries of a direction L are standard normal, and
the problem on the line w = s L is solved by line_problem.py. Each pass over the data projects the rows on several
directions, in several threads. The paper shows that a result near the optimum needs a number of directions exponential
in the square root of the number of features, so this method is a baseline for few features.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numba import njit

from solvers.cost import Footprint
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.projections.line_problem import Line, LineOptimum
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["ProjectState", "RandomDirections"]

Part = TypeVar("Part")


@dataclass(slots=True)
class ProjectState(State):
    w: Floats  # best weights so far
    intercept: float
    value: float  # P at the best weights
    seed: int
    tried: int  # number of directions so far; with the seed it determines the next ones
    tried_before: int  # number of directions tried before the warm start
    tried_at_best: int  # value of `tried` when the best direction was found
    passes: int


class RandomDirections(Method[BinaryProblem, ProjectState]):
    state_type = ProjectState
    name = "project"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("free",)
    options = (
        Option("directions", int, 8, "random directions to try in one pass over the data", low=1, high=256),
        Option(
            "patience",
            int,
            250,
            "stop as stalled after this number of consecutive directions without improvement",
            low=1,
        ),
    )
    footprint = Footprint(row=23.5, squared_row=7.5, feature=12.0, kept_row=0.0, kept_feature=1.0)
    paper = "Schneider, Bogojeska, Vlachos (2014): Solving linear SVMs with multiple 1D projections, Algorithm 2"
    notes = "A baseline for a handful of features: the number of directions needed grows exponentially with them."
    exact = False
    has_estimate = False
    uses_threads = True

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.lines = [self._line()]

    def init(self, seed: int, start: Start) -> ProjectState:
        data, earlier = self.problem.data, self.earlier(start)
        at_zero = self.lines[0].solve(np.zeros(data.n_rows), 1.0)
        state = ProjectState(
            w=np.zeros(data.n_features),
            intercept=at_zero.bias,
            value=at_zero.value,
            seed=seed,
            tried=0,
            tried_before=0,
            tried_at_best=0,
            passes=0,
        )
        if earlier is not None:
            self._resume(state, earlier)
        elif start.coef is not None:
            self._start_at(state, start.coef)
        return state

    def step(self, state: ProjectState, target: float) -> Progress:
        count, data = self.chosen["directions"], self.problem.data
        directions = np.random.default_rng([state.seed, state.tried]).standard_normal((data.n_features, count))
        norms = (directions**2).sum(axis=0)
        z = np.zeros((count, data.n_rows))
        edges = [data.n_rows * part // self.threads for part in range(self.threads + 1)]

        def project(part: int) -> None:
            _project_rows(data.flat(), read_only(directions), edges[part], edges[part + 1], z)

        def solve(part: int) -> list[LineOptimum]:
            return [self.lines[part].solve(z[k], float(norms[k])) for k in range(part, count, self.threads)]

        self.lines += [self._line() for _ in range(self.threads - len(self.lines))]
        self._in_parts(project)
        parts = self._in_parts(solve)
        state.passes += 1
        for k in range(count):
            state.tried += 1
            optimum = parts[k % self.threads][k // self.threads]
            self._compare(state, np.ascontiguousarray(directions[:, k]), optimum)
            if not np.isfinite(optimum.value):
                return Progress(state.tried - state.tried_before, state.passes, None, None, None, Status.NONFINITE)
        finished = Status.STALLED if state.tried - state.tried_at_best >= self.chosen["patience"] else None
        return Progress(state.tried - state.tried_before, state.passes, state.value, None, None, finished)

    def extract(self, state: ProjectState) -> Point:
        return Point(state.w.copy(), state.intercept, None)

    def _line(self) -> Line:
        return Line(self.problem.signs, self.problem.costs, is_squared=self.problem.loss.is_squared)

    def _in_parts(self, work: Callable[[int], Part]) -> list[Part]:
        """Run the work of each part in its own thread; the kernels release the interpreter's lock."""
        if self.threads == 1:
            return [work(0)]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(work, range(self.threads)))

    def _compare(self, state: ProjectState, direction: Floats, optimum: LineOptimum) -> None:
        """Keep the optimum of this line if it is the best so far."""
        if optimum.value < state.value:
            state.w = optimum.slope * direction
            state.intercept, state.value, state.tried_at_best = optimum.bias, optimum.value, state.tried

    def _start_at(self, state: ProjectState, w: Floats) -> None:
        if w.any():
            z = np.empty(self.problem.data.n_rows)
            self.problem.data.margins(w, z)
            state.passes += 1
            self._compare(state, w, self.lines[0].solve(z, float((w**2).sum())))

    def _resume(self, state: ProjectState, earlier: ProjectState) -> None:
        """Continue from the state `earlier` with bit-identical results. If rows or costs differ, start from its
        weights."""
        if earlier.w.shape != state.w.shape or not np.isfinite(earlier.w).all():
            raise InvalidOptions(
                "warm_start", f"is not a state of project on data with {state.w.size} features; leave it out"
            )
        self._start_at(state, earlier.w)
        if np.isclose(state.value, earlier.value, rtol=1e-9):
            state.w, state.intercept, state.value = earlier.w, earlier.intercept, earlier.value
            state.seed, state.tried, state.tried_at_best = earlier.seed, earlier.tried, earlier.tried_at_best
            state.tried_before = earlier.tried


# --- kernel. z: one row per direction ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _project_rows(rows: FlatRows, directions: Array, first_row: int, past_row: int, z: Array) -> None:
    """Write z[k, i] = x_i . directions[:, k] for the rows of this part."""
    values, columns, starts = rows.values, rows.columns, rows.starts
    d, count = directions.shape
    total = np.empty(count)
    for i in range(first_row, past_row):
        first, past = (i * d, (i + 1) * d) if starts.size == 0 else (starts[i], starts[i + 1])
        row = values[first:past]
        total[:] = 0.0
        for e in range(row.size):
            direction = directions[e if starts.size == 0 else columns[first + e]]
            for k in range(count):
                total[k] += row[e] * direction[k]
        z[:, i] = total
