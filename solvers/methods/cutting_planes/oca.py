"""The optimised cutting-plane algorithm (Franc and Sonnenburg 2009), shared by `oca_e` and `oca_t`.

The best point so far moves along the line from w_b to the solution w_t of the reduced problem,

    w_b <- (1 - mu) w_b + mu w_t,

and the next plane is cut at w_c = (1 - lambda) w_b + lambda w_t (Arnosti and Kalita 2011, Algorithm 2). The two methods
differ in their search for mu. Scores are linear in w, so the scores of w_b and w_c follow from those of the last w_b
and of w_t without a pass over X.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.clock import solving_time
from solvers.linalg.types import Array, Floats
from solvers.method import Option
from solvers.methods.cutting_planes.cutting_planes import CuttingPlanes, CuttingPlanesState
from solvers.methods.cutting_planes.oca_line_search import Line
from solvers.problem.problems import BinaryProblem, MulticlassProblem

__all__ = ["OcaState", "OptimizedCuttingPlanes"]


ROUNDING = 1e-13
"""Distance between w_b and w_t, relative to the norm of w_t, below which they count as equal and w_b does not move.
Larger: progress can end earlier. The value is above the rounding error of the difference."""


@dataclass(slots=True)
class OcaState(CuttingPlanesState):
    mu: float = 1.0  # result of the last line search; at first 1, which is w_t
    search_seconds: float = 0.0  # total time of all line searches, in seconds
    standstills: int = 0  # number of line searches that ended at w_b


class OptimizedCuttingPlanes(CuttingPlanes[OcaState]):
    state_type = OcaState
    tasks = ("binary", "multiclass")
    losses = ("hinge",)
    biases = ("none", "regularized")
    options = (
        Option(
            "cutting_share",
            float,
            0.1,
            "the paper's lambda: where planes are cut, as a fraction of the way from the best point to the solution of "
            "the reduced problem",
            low=1e-6,
            high=1.0,
        ),
    )

    def __init__(self, problem: BinaryProblem | MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.cutting_share = options["cutting_share"]

    def _improve(self, state: OcaState, weights: Floats) -> None:
        """Move w_b along the line to w_t."""
        square, slope, length = _measure_step(read_only(state.weights), read_only(weights))
        if square <= ROUNDING**2 * length:
            return  # the difference is only rounding error, which a long step would magnify
        line = self.risk.line(state.scores, self.scores, square, slope)
        began = solving_time()
        state.mu = mu = self._search(line, state)
        state.search_seconds += solving_time() - began
        if mu == 0.0:
            state.standstills += 1
        else:
            _move_towards(state.weights, read_only(weights), mu)
            _move_towards(state.scores.reshape(-1), read_only(self.scores).reshape(-1), mu)
            state.primal = self._objective(state.weights, state.scores)

    @abstractmethod
    def _search(self, line: Line, state: OcaState) -> float:
        """Return mu, the step length from w_b towards w_t."""


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _measure_step(start: Array, towards: Array) -> tuple[float, float, float]:
    """Return (|s|^2, start . s, |towards|^2) for s = towards - start."""
    square = slope = length = 0.0
    for j in range(start.size):
        step = towards[j] - start[j]
        square += step * step
        slope += start[j] * step
        length += towards[j] * towards[j]
    return square, slope, length


@njit(cache=True, nogil=True)
def _move_towards(vector: Array, towards: Array, share: float) -> None:
    """Move the vector by the given fraction of the way to `towards`."""
    for i in range(vector.size):
        vector[i] += share * (towards[i] - vector[i])
