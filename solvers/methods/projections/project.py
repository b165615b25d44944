"""`project`: random directions, each solved exactly, of which the best is kept.

Schneider, Bogojeska, Vlachos: Solving linear SVMs with multiple 1D projections, CIKM 2014, Algorithm 2 (ProjectSVM).
The entries of a direction L are standard normal; the problem on the line w = s L is that of line_problem.py. Several
directions are projected in each pass over the data, by as many threads as there are. The paper shows that an answer
near the optimum takes a number of directions exponential in the square root of the number of features: this is a
baseline, and one for few features.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numba import njit

from solvers.cost import Footprint
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.projections.line_problem import Line, LineOptimum
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["RandomDirections"]

Part = TypeVar("Part")


class RandomDirections(Method[BinaryProblem, Any]):
    name = "project"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("free",)
    options = (
        Option("directions", int, 8, "random directions that are tried in one pass over the data", low=1, high=256),
        Option(
            "patience",
            int,
            250,
            "stalled after so many directions in a row that were no better than the best before them",
            low=1,
        ),
    )
    footprint = Footprint(row=23.5, squared_row=7.5, feature=12.0, kept_row=0.0, kept_feature=1.0)
    paper = "Schneider, Bogojeska, Vlachos (2014): Solving linear SVMs with multiple 1D projections, Algorithm 2"
    notes = "A baseline for a handful of features: the directions needed grow exponentially with their number."
    exact = False
    has_estimate = False
    uses_threads = True

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.lines = [self._line()]

    def init(self, seed: int, start: Start) -> State:
        data = self.problem.data
        at_zero = self.lines[0].solve(np.zeros(data.n_rows), 1.0)
        state: State = {
            "w": np.zeros(data.n_features),
            "intercept": at_zero.bias,
            "value": at_zero.value,
            "seed": seed,
            "tried": 0,
            "tried_before": 0,  # by the run that this one goes on with
            "tried_at_best": 0,
            "passes": 0,
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            self._start_at(state, start.coef)
        return state

    def step(self, state: State, target: float) -> Progress:
        count, data = self.chosen["directions"], self.problem.data
        directions = np.random.default_rng([state["seed"], state["tried"]]).standard_normal((data.n_features, count))
        norms = (directions**2).sum(axis=0)
        z = np.zeros((count, data.n_rows))
        edges = [data.n_rows * part // self.threads for part in range(self.threads + 1)]

        def project(part: int) -> None:
            _project_rows(*data.flat(), read_only(directions), edges[part], edges[part + 1], z)

        def solve(part: int) -> list[LineOptimum]:
            return [self.lines[part].solve(z[k], float(norms[k])) for k in range(part, count, self.threads)]

        self.lines += [self._line() for _ in range(self.threads - len(self.lines))]
        self._in_parts(project)
        parts = self._in_parts(solve)
        state["passes"] += 1
        for k in range(count):
            state["tried"] += 1
            optimum = parts[k % self.threads][k // self.threads]
            self._compare(state, np.ascontiguousarray(directions[:, k]), optimum)
            if not np.isfinite(optimum.value):
                return Progress(
                    state["tried"] - state["tried_before"], state["passes"], None, None, None, Status.NONFINITE
                )
        is_over = state["tried"] - state["tried_at_best"] >= self.chosen["patience"]
        finished = Status.STALLED if is_over else None
        return Progress(state["tried"] - state["tried_before"], state["passes"], state["value"], None, None, finished)

    def extract(self, state: State) -> Point:
        return Point(state["w"].copy(), state["intercept"], None)

    def _line(self) -> Line:
        return Line(self.problem.signs, self.problem.costs, self.problem.spec.exponent)

    def _in_parts(self, work: Callable[[int], Part]) -> list[Part]:
        """The work of each part, in as many threads; kernels hold no lock of the interpreter."""
        if self.threads == 1:
            return [work(0)]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(work, range(self.threads)))

    def _compare(self, state: State, direction: Floats, optimum: LineOptimum) -> None:
        """Keep the answer on this line if it is the best so far."""
        if optimum.value < state["value"]:
            state["w"] = optimum.slope * direction
            state["intercept"], state["value"], state["tried_at_best"] = optimum.bias, optimum.value, state["tried"]

    def _start_at(self, state: State, w: Floats) -> None:
        if w.any():
            z = np.empty(self.problem.data.n_rows)
            self.problem.data.margins(w, z)
            state["passes"] += 1
            self._compare(state, w, self.lines[0].solve(z, float((w**2).sum())))

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its weights are a start for other rows and costs, too."""
        w = np.array(earlier.get("w", ()), dtype=np.float64)
        if w.shape != state["w"].shape or not np.isfinite(w).all():
            raise InvalidOptions("warm_start", f"is not a state of project on {state['w'].size} features")
        self._start_at(state, w)
        if np.isclose(state["value"], float(earlier.get("value", np.nan)), rtol=1e-9):
            # The same problem: everything is taken over, so that going on from a checkpoint repeats the
            # uninterrupted run to the last bit.
            state["w"] = w
            for key in ("intercept", "value", "seed", "tried_at_best", "tried"):
                state[key] = earlier[key]
            state["tried_before"] = state["tried"]


# --- kernel. z: one row a direction; dense data comes without columns and starts -------------------------------------


@njit(cache=True, nogil=True)
def _project_rows(
    values: Array, columns: Array, starts: Array, directions: Array, first_row: int, past_row: int, z: Array
) -> None:
    """z[k, i] = x_i . directions[:, k] for the rows of this part."""
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
