"""The optimised cutting-plane algorithm (Franc and Sonnenburg; 003 Alg. 2): what `oca_e` and `oca_t` share.

The best point so far moves along the line from w_b to the solution w_t of the reduced problem,

    w_b <- (1 - mu) w_b + mu w_t,

so its objective hardly ever rises, and the next plane is cut at w_c = (1 - lambda) w_b + lambda w_t. The two methods
differ in how they find mu. Scores are linear in w: those of w_b and w_c follow from the ones before and those of w_t.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.clock import solving_time
from solvers.linalg.types import Array, Floats
from solvers.method import Option, Start
from solvers.methods.cutting_planes.cutting_planes import CuttingPlanes
from solvers.methods.cutting_planes.oca_line_search import Line
from solvers.problem.problems import BinaryProblem, MulticlassProblem
from solvers.state import StoredState as State

__all__ = ["OptimizedCuttingPlanes"]


ROUNDING = 1e-13
"""The distance of two weight vectors, over their length, below which they are taken as equal."""


class OptimizedCuttingPlanes(CuttingPlanes):
    tasks = ("binary", "multiclass")
    losses = ("hinge",)
    biases = ("none", "regularized")
    options = (
        Option(
            "cutting_share",
            float,
            0.1,
            "the paper's lambda: how far from the best point towards the reduced problem's solution planes are cut",
            low=1e-6,
            high=1.0,
        ),
    )

    def __init__(self, problem: BinaryProblem | MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.cutting_share = options["cutting_share"]

    def init(self, seed: int, start: Start) -> State:
        # What was resumed has its own.
        return {"search_seconds": 0.0, "standstills": 0, **super().init(seed, start)}

    def _improve(self, state: State, weights: Floats) -> None:
        square, slope, length = _measure_step(read_only(state["weights"]), read_only(weights))
        if square <= ROUNDING**2 * length:
            return  # the two are one, and what is left between them would only be blown up
        line = self.risk.line(state["scores"], self.scores, square, slope)
        began = solving_time()
        mu = self._search(line, state)
        state["search_seconds"] += solving_time() - began
        state["mu"] = mu
        if mu == 0.0:
            state["standstills"] += 1
        else:
            _move_towards(state["weights"], read_only(weights), mu)
            _move_towards(state["scores"].reshape(-1), read_only(self.scores).reshape(-1), mu)
            state["primal"] = self._objective(state["weights"], state["scores"])

    @abstractmethod
    def _search(self, line: Line, state: State) -> float:
        """mu"""


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _measure_step(start: Array, towards: Array) -> tuple[float, float, float]:
    """For s = towards - start: (|s|^2, start . s, |towards|^2)"""
    square = slope = length = 0.0
    for j in range(start.size):
        step = towards[j] - start[j]
        square += step * step
        slope += start[j] * step
        length += towards[j] * towards[j]
    return square, slope, length


@njit(cache=True, nogil=True)
def _move_towards(vector: Array, towards: Array, share: float) -> None:
    for i in range(vector.size):
        vector[i] += share * (towards[i] - vector[i])
