"""`bmrm`: the bundle method for regularised risk minimisation, for any convex loss of two classes.

Teo, Smola, Vishwanathan, Le (2007). With hinge it takes the same steps as `cpa`. It returns the best point of all
iterations. cutting_planes.py has the iteration, risks.py the planes of hinge and squared hinge. The planes of any other
loss come from its loss object: for every alpha in the dual's domain, the loss of a row is at least
alpha (margin - m) - conj(alpha), with equality where alpha is the derivative of the loss.
"""

import numpy as np

from solvers.cost import Pace
from solvers.linalg.types import Floats
from solvers.methods.cutting_planes.cutting_planes import CuttingPlanes, CuttingPlanesState
from solvers.methods.cutting_planes.risks import Cut, Risk, SquaredHingeRisk, risk_of
from solvers.problem.problems import BinaryProblem, MulticlassProblem

__all__ = ["BundleMethod"]


class AnyLossRisk(SquaredHingeRisk):
    """The total loss R for a loss that has no kernels in risks.py. A plane stores its alpha in its marks, as for
    squared hinge."""

    def loss(self, scores: Floats) -> float:
        loss, costs = self.problem.loss, self.problem.costs
        return float(loss.value(loss.margin - scores, costs).sum())

    def cut(self, scores: Floats, towards: Floats, share: float, last: Cut | None) -> Cut:
        loss, costs = self.problem.loss, self.problem.costs
        slack = loss.margin - (scores + share * (towards - scores))
        # alpha is rounded to float32 first, so that the plane and its marks use the same numbers.
        marks = np.minimum(loss.derivative(slack, costs), loss.dual_top(costs)).astype(np.float32)
        alpha = np.minimum(marks.astype(np.float64), loss.dual_top(costs))
        level = float((loss.margin * alpha - loss.conjugate(alpha, costs)).sum())
        kept = marks[: self.marks[0]]
        return Cut(self._normal(self.problem.signs * alpha), level, kept[:0], kept, int(np.count_nonzero(alpha)))


class BundleMethod(CuttingPlanes[CuttingPlanesState]):
    state_type = CuttingPlanesState
    name = "bmrm"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    takes_any_loss = True
    biases = ("none", "regularized")
    pace = Pace(
        least=9.5,
        hardness=0.56,
        precision=0.34,
        tallness=0.22,
        entry_seconds=1.2e-9,
        row_seconds=2.3e-8,
        pass_seconds=1.1e-4,
    )
    paper = "Teo, Smola, Vishwanathan, Le (2007): A scalable modular convex solver for regularized risk minimization"
    notes = (
        "Reads the data only in passes, so rows can come in blocks; needs many iterations for precise answers or large "
        "C. Solvers oca_e (hinge), asvm and tron (squared hinge) need fewer."
    )

    def _risk(self, problem: BinaryProblem | MulticlassProblem) -> Risk:
        if isinstance(problem, BinaryProblem) and problem.spec.loss not in self.losses:
            return AnyLossRisk(problem)
        return risk_of(problem)
