"""What the certificates of all tasks share."""

import numpy as np

from solvers.linalg.types import Floats
from solvers.problem.problems import Problem
from solvers.result import Certificate

__all__ = ["certificate_of", "squared_norm"]


def certificate_of(problem: Problem, primal: float, gap: float, source: str) -> Certificate:
    """The certificate of a point with this primal value and proven gap; a gap that overflowed proves nothing."""
    if not np.isfinite(gap):
        return Certificate(primal, None, None, None, source)
    return Certificate(primal, primal - gap, gap, gap / max(primal, problem.primal_floor), source)


def squared_norm(vector: Floats) -> float:
    # Not vector @ vector: BLAS would use threads, whose waiting costs more than the sum on a busy machine.
    return float((vector * vector).sum())
