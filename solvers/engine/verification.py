"""Certifying weights anew, by a dual point that a run kept or one found here."""

import numpy as np

from solvers.certificates import certify as certify_point
from solvers.certificates.refinement import DualRefinement
from solvers.engine.judge import REFINED
from solvers.method import Point
from solvers.problem.problems import BinaryProblem, Problem
from solvers.result import Certificate

__all__ = ["certify_weights"]

REFINEMENTS = 8
"""How often a dual point that is found here is improved; each takes a few passes over the data."""


def certify_weights(problem: Problem, point: Point, bounding: Point | None) -> Certificate:
    """What weights are worth by a dual point that a run kept, or by the best one that is found here."""
    if bounding is None:
        return _refined(problem, point)
    if bounding.alpha is not None or bounding.planes is not None:
        return certify_point(problem, point._replace(alpha=bounding.alpha, planes=bounding.planes))
    # The bound is what the margins of these other weights suggest.
    own, other = certify_point(problem, point), certify_point(problem, bounding)
    if other.dual_bound is None or (own.dual_bound is not None and own.dual_bound >= other.dual_bound):
        return own
    gap = max(0.0, own.primal - other.dual_bound)
    return Certificate(own.primal, other.dual_bound, gap, gap / max(own.primal, problem.primal_floor), other.method)


def _refined(problem: Problem, point: Point) -> Certificate:
    """With the best dual point that can be found from the weights alone."""
    best = certify_point(problem, point)
    if not (isinstance(problem, BinaryProblem) and DualRefinement.fits(problem) and np.isfinite(point.coef).all()):
        return best
    refinement = DualRefinement(problem)
    for _ in range(REFINEMENTS):
        alpha = refinement.refined(point.coef, float(point.intercept))
        found = certify_point(problem, point._replace(alpha=alpha))
        if best.gap is None or (found.gap is not None and found.gap < best.gap):
            best = Certificate(found.primal, found.dual_bound, found.gap, found.relative_gap, REFINED)
    return best
