"""Decides when the driver stops a method, and which method takes over.

A method is stopped if neither its bound nor its gap improves for many steps, or if its successor would be faster.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from solvers.method import AnyMethod, Progress
from solvers.problem.problems import BinaryProblem
from solvers.state import StoredState

__all__ = ["Handover", "Patience", "StallWatch", "method_at"]

STALL_STEPS = 500
STALL_GAIN = 1e-14
"""A run is stalled after STALL_STEPS steps in which the bound did not rise by the fraction STALL_GAIN and the gap did
not fall. A larger STALL_STEPS: a stalled run is noticed later. A larger STALL_GAIN: slow progress counts as stalled.
Set by hand; no measurement is recorded."""
FAIR_PASSES = 8
"""Passes that a method gets before its rate of convergence is judged. Larger: later handovers from slow methods, fewer
from methods that only start slowly. Set by hand; no measurement is recorded."""


class Handover(NamedTuple):
    """The method that follows another one. It continues from the weights of the method before it if that method becomes
    slow, and starts from zero if that method stalls."""

    method: type[AnyMethod]
    passes: float
    """Number of passes of the method before it that take as long as a whole run of this one; infinite if this one takes
    over only after a failure."""
    fair_passes: int = FAIR_PASSES
    """Passes that the method before it makes before it can be replaced for being slow."""
    successor: "Handover | None" = None


def method_at(
    state: StoredState | None,
    method: type[AnyMethod],
    options: Mapping[str, Any],
    problem: BinaryProblem,
    successor: Handover | None,
) -> tuple[AnyMethod, Handover | None]:
    """Find the method that the state belongs to: `method` or one of its successors. Return it with its own
    successor."""
    owner = None if state is None else state.get("solver")
    later = successor
    while later is not None and later.method.name != owner:
        later = later.successor
    if later is None:
        return method(problem, options), successor
    return later.method.by_default(problem), later.successor


class StallWatch:
    """Detects a stalled run.

    A run is stalled if neither the bound nor the gap improves. Both are needed: close to the optimum the bound changes
    by the square of the remaining error, so it is constant in floating point while the gap still falls. For a method
    that reports neither, the primal value decides.
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
    """Predicts how many more passes a method needs, from the decrease of its gap in the second half of its passes.

    The method is replaced if the prediction exceeds `enough` passes, but not before `fair` passes. The prediction uses
    the smallest gap so far, because a gap can rise for a pass shortly before the end.
    """

    def __init__(self, tol: float, enough: float, fair: int) -> None:
        self._tol = tol
        self._enough = enough
        self._fair = fair
        self._gaps: list[tuple[int, float]] = []

    @classmethod
    def with_one_for(cls, successor: Handover | None, tol: float) -> "Patience | None":
        """Return the rule for a method with this successor; None if there is none or it only follows a failure."""
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
