"""When the driver loses patience with a method, and which method goes on.

A method is given up if nothing that it reports moves, or if its successor would be faster.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from solvers.method import Method, Progress
from solvers.problem.problems import BinaryProblem
from solvers.state import StoredState

__all__ = ["Handover", "Patience", "StallWatch", "method_at"]

STALL_STEPS = 500
STALL_GAIN = 1e-14
"""A run is stuck if so many steps neither raise the bound by this relative amount nor lower the gap."""
FAIR_PASSES = 8
"""So many passes a method gets before it is judged by its pace."""


class Handover(NamedTuple):
    """What goes on from a method's weights if that becomes slow, or begins anew if it can get no further."""

    method: type[Method[Any, Any]]
    passes: float
    """Of the method before it, which take as long as this one would by itself; infinite: it is never slow enough."""
    fair_passes: int = FAIR_PASSES
    """That the method before it has in any case."""
    successor: "Handover | None" = None


def method_at(
    state: StoredState | None,
    method: type[Method[BinaryProblem, Any]],
    options: Mapping[str, Any],
    problem: BinaryProblem,
    successor: Handover | None,
) -> tuple[Method[BinaryProblem, Any], Handover | None]:
    """The method that goes on from a state, and its own successor: `method`, or the one it had handed over to."""
    owner = None if state is None else state.get("solver")
    later = successor
    while later is not None and later.method.name != owner:
        later = later.successor
    if later is None:
        return method(problem, options), successor
    return later.method.by_default(problem), later.successor


class StallWatch:
    """Notices when nothing that a method reports has moved for a long time.

    The gap is watched beside the bound: close to the optimum the bound moves by the square of what is
    left, so it stands still in floating point while the gap is still closing. Of a method that knows
    neither, the primal value is watched.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._primal = np.inf
        self._bound = -np.inf
        self._gaps = {True: np.inf, False: np.inf}

    def is_stuck(self, progress: Progress) -> bool:
        moved = False
        bound, gap = progress.dual_bound, progress.gap_estimate
        if bound is not None and bound > self._bound + STALL_GAIN * abs(bound):
            self._bound, moved = bound, True
        if gap is not None and gap < 0.99 * self._gaps[progress.is_complete]:
            self._gaps[progress.is_complete], moved = gap, True
        if bound is None and gap is None and progress.primal is not None:
            moved = progress.primal < self._primal - STALL_GAIN * abs(progress.primal)
            self._primal = min(self._primal, progress.primal)
        self._steps = 0 if moved else self._steps + 1
        return self._steps >= STALL_STEPS


class Patience:
    """Foretells how many passes a method still needs, from how fast its gap fell in the second half of those it had.

    It is over if they are more than `enough`, but not before `fair` ones. The least gap so far counts: one that rises
    for a pass, a step before the end, says nothing.
    """

    def __init__(self, tol: float, enough: float, fair: int) -> None:
        self._tol = tol
        self._enough = enough
        self._fair = fair
        self._gaps: list[tuple[int, float]] = []

    @classmethod
    def with_one_for(cls, successor: Handover | None, tol: float) -> "Patience | None":
        """None if no successor waits for its turn."""
        if successor is None or successor.passes == math.inf:
            return None
        return cls(tol, successor.passes, successor.fair_passes)

    def is_over(self, progress: Progress) -> bool:
        gap = progress.gap_estimate
        if gap is None or gap <= 0.0 or not progress.is_complete:
            return False
        gap = min(gap, self._gaps[-1][1]) if self._gaps else gap
        self._gaps.append((progress.passes, gap))
        half = next((passes, before) for passes, before in self._gaps if 2 * passes >= progress.passes)
        had = progress.passes - half[0]
        if progress.passes < self._fair or had == 0:
            return False
        fall = np.log(half[1] / gap)
        return bool(np.log(gap / self._tol) * had > self._enough * fall)
