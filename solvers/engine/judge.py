"""Certifies the points of a run, keeps the best one, and decides when a certificate is worth a pass over the data.

`certify_weights` certifies weights that were found elsewhere.
"""

from dataclasses import replace

import numpy as np

from solvers.certificates import balanced_dual_point, certify, minimising_bias
from solvers.certificates.refinement import DualRefinement
from solvers.engine.limits import Limits
from solvers.linalg.clock import solving_time
from solvers.method import Point, Progress
from solvers.problem.problems import BinaryProblem, MulticlassProblem, Problem, RegressionProblem
from solvers.result import Certificate, Status

__all__ = ["Judge", "certify_weights", "with_best_bias", "zero_point"]

UNESTIMATED_PASSES = 2
"""Passes before the first certificate of a method that cannot estimate its gap. A further certificate follows each time
the number of passes has grown by half. Larger: fewer certificates, later stops. Set by hand; no measurement is
recorded."""
NARROW = 2.0
"""If a certificate's gap is above the tolerance but at most this multiple of it, the next certificate follows after
half the usual number of passes. Larger: more certificates that fail. Set by hand; no measurement is recorded."""
REFINED = "dual point from the margins, refined"
"""The `method` of a certificate whose dual point was refined."""
NEAR = 1e-6
"""Relative gap up to which a stalled run ends. Above it, the last-resort method starts. Larger: the last resort starts
less often. Set by hand; no measurement is recorded."""
REFINEMENTS = 8
"""Number of times that a dual point computed from weights is refined. Larger: tighter bounds, more passes (PASSES of
refinement.py for each). Set by hand; no measurement is recorded."""


class Judge:
    """Certifies points and keeps the best one. If the method's own estimate of its gap was too low, later certificates
    wait for a lower estimate."""

    def __init__(self, problem: Problem, limits: Limits, constant: float | None = None, *, has_estimate: bool) -> None:
        """`constant`: value of the best constant model; None: nothing is compared with it."""
        self.problem = problem
        self.tol = limits.tol
        """The relative gap to prove. With a least improvement it falls as the bound rises."""
        self.target = limits.tol
        """The estimated relative gap at which a certificate is worth computing."""
        self.certified_at = -1
        self.seconds = 0.0
        self._is_finite = True
        self._kept: tuple[Point, Certificate] | None = None
        self._is_pair = True
        """Whether the kept certificate was computed from the kept weights and the dual point of `bounding` together."""
        self.bounding: Point | None = None
        """The point whose dual point gave the best bound."""
        self._limits, self._constant = limits, constant
        self._has_estimate = has_estimate
        self._refinement: DualRefinement | None = None
        self._failures = 0
        self._not_before = 0 if has_estimate else UNESTIMATED_PASSES

    def begin_anew(self, *, has_estimate: bool) -> None:
        """Prepare for another method: forget the errors of the last method's estimates, but keep the best point and
        bound."""
        self.target = self.tol
        self._has_estimate = has_estimate
        self._failures = self._not_before = 0

    @property
    def verdict(self) -> Status | None:
        """The status that the certificates so far imply; None to continue."""
        if not self._is_finite:
            return Status.NONFINITE
        is_met = self._kept is not None and self._limits.are_met(self._kept[1])
        return Status.CONVERGED if is_met else None

    @property
    def is_far(self) -> bool:
        """Whether to try another method: the best point has no certificate, or a relative gap above max(tol, NEAR)."""
        gap = None if self._kept is None else self._kept[1].relative_gap
        return gap is None or gap > max(self.tol, NEAR)

    def is_worth_certifying(self, progress: Progress) -> bool:
        if progress.passes < self._not_before or not progress.is_complete:
            return False
        estimate = progress.gap_estimate
        return not self._has_estimate if estimate is None else estimate <= self.target

    def certify(self, point: Point, progress: Progress) -> Certificate | None:
        began = solving_time()
        point, certificate = self._certificate(with_best_bias(self.problem, point))
        self.certified_at = progress.iterations
        self._is_finite = bool(np.isfinite(certificate.primal))
        if not self._is_finite:
            return None
        self._keep(point, certificate.compared_with(self._constant))
        assert self._kept is not None
        was, self.tol = self.tol, self._limits.needed_gap(self._kept[1], self._constant, self.problem.primal_floor)
        self.target = min(self.target, self.target * self.tol / was)
        gap = certificate.relative_gap
        if gap is None or gap > self.tol:
            # The estimate was too low by the factor gap / target, so the next target is divided by that factor. The
            # wait grows after each failure, which limits the cost of failed certificates.
            is_narrow = gap is not None and gap <= NARROW * self.tol
            wait = 2 ** (self._failures if is_narrow else self._failures + 1)
            self._failures += 1
            if not self._has_estimate:
                wait = max(UNESTIMATED_PASSES, progress.passes // 2)
            self._not_before = progress.passes + wait
            self.target *= max(0.1, 0.9 * self.tol / gap) if gap else 0.1
        self.seconds += solving_time() - began
        return certificate

    def best(self) -> tuple[Point, Certificate]:
        """Return the best point and its certificate, computed with the dual point of `bounding`."""
        if self._kept is None or self.bounding is None:
            nothing = self.bounding = zero_point(self.problem)
            return nothing, certify(self.problem, nothing, self.tol).compared_with(self._constant)
        point, certificate = self._kept
        if self._is_pair:
            return point, certificate
        began = solving_time()
        paired = certify_weights(self.problem, point, self.bounding, self.tol)
        self.seconds += solving_time() - began
        return point, _tighter(paired, certificate).compared_with(self._constant)

    def _certificate(self, point: Point) -> tuple[Point, Certificate]:
        """Certify the point. If its method has no dual point, compute one here."""
        problem = self.problem
        has_own = self._has_estimate or point.alpha is not None
        if has_own or not isinstance(problem, BinaryProblem) or not DualRefinement.fits(problem):
            return point, certify(problem, point, self.tol)
        if not np.isfinite(point.coef).all():
            return point, certify(problem, point, self.tol)
        if self._refinement is None:
            self._refinement = DualRefinement(problem)
        alpha = self._refinement.refined(point.coef, float(point.intercept))
        point = point._replace(alpha=alpha.copy())
        return point, replace(certify(problem, point, self.tol), method=REFINED)

    def _keep(self, point: Point, certificate: Certificate) -> None:
        """Keep the lowest primal value and the highest bound so far. They can come from different points."""
        bare = point._replace(alpha=None, planes=None)
        if self._kept is None:
            self._kept, self.bounding, self._is_pair = (bare, certificate), point, True
            return
        kept_point, kept = self._kept
        is_better = certificate.primal < kept.primal
        assert kept.dual_bound is not None, "only finite points are kept"
        assert certificate.dual_bound is not None, "only finite points are kept"
        is_tighter = certificate.dual_bound > kept.dual_bound
        if is_tighter:
            self.bounding = point
        if is_better and is_tighter:
            self._kept, self._is_pair = (bare, certificate), True
        elif is_better or is_tighter:
            kept_point = bare if is_better else kept_point
            primal = min(certificate.primal, kept.primal)
            bound = max(certificate.dual_bound, kept.dual_bound)
            source = certificate.method if is_better else kept.method
            joined = Certificate.of_bounds(primal, bound, self.problem.primal_floor, source)
            self._kept = kept_point, joined.compared_with(self._constant)
            self._is_pair = False


def _tighter(one: Certificate, other: Certificate) -> Certificate:
    """Return the certificate with the smaller gap. Both are of the same weights."""
    return other if one.gap is None or (other.gap is not None and other.gap < one.gap) else one


def zero_point(problem: Problem) -> Point:
    """Return zero weights with a zero dual point: the result if no finite point was reached."""
    n, d, k = problem.data.n_rows, problem.data.n_features, problem.classes.size
    if isinstance(problem, MulticlassProblem):
        return Point(np.zeros((k, d)), np.zeros(k), np.zeros((n, k)))
    return Point(np.zeros(d), 0.0, np.zeros(n))


def with_best_bias(problem: Problem, point: Point) -> Point:
    """Prepare a point of a problem with a free bias for its certificate; return any other point unchanged.

    Binary problems and regression get the bias that is best for the weights. Jointly trained classes get a balanced
    dual point here, because balancing needs the weights, which are not stored with the dual point.
    """
    if problem.spec.bias != "free":
        return point
    if isinstance(problem, MulticlassProblem):
        return point._replace(alpha=balanced_dual_point(problem, point))
    if not isinstance(problem, BinaryProblem | RegressionProblem):
        return point
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(point.coef, scores)
    return point._replace(intercept=minimising_bias(problem, scores, float(point.intercept)))


def certify_weights(problem: Problem, point: Point, bounding: Point | None, tol: float | None = None) -> Certificate:
    """Certify weights with the dual point of `bounding`. If `bounding` is None, compute a dual point from the
    weights."""
    if bounding is None:
        return _refined(problem, point)
    if bounding.alpha is not None or bounding.planes is not None:
        return certify(problem, point._replace(alpha=bounding.alpha, planes=bounding.planes), tol)
    # `bounding` has no dual point, so one is derived from the margins of its weights.
    own, other = certify(problem, point, tol), certify(problem, bounding, tol)
    if own.dual_bound is None or other.dual_bound is None or own.dual_bound >= other.dual_bound:
        return own
    return _tighter(own, Certificate.of_bounds(own.primal, other.dual_bound, problem.primal_floor, other.method))


def _refined(problem: Problem, point: Point) -> Certificate:
    """Certify weights with the best dual point that refinement finds."""
    best = certify(problem, point)
    if not (isinstance(problem, BinaryProblem) and DualRefinement.fits(problem) and np.isfinite(point.coef).all()):
        return best
    refinement = DualRefinement(problem)
    for _ in range(REFINEMENTS):
        alpha = refinement.refined(point.coef, float(point.intercept))
        found = certify(problem, point._replace(alpha=alpha))
        if best.gap is None or (found.gap is not None and found.gap < best.gap):
            best = replace(found, method=REFINED)
    return best
