"""`cpa`: the cutting-plane algorithm of SVM-Perf, for hinge.

Joachims (2006), Algorithm 1. In the paper's structural formulation all rows share one slack, and there is one
constraint per subset of the rows. The most violated constraint is the plane that touches R at w_t. The number of
iterations does not depend on the number of rows. cutting_planes.py has the iteration.

The paper's stopping rule compares the mean training loss at w_t with the value xi that the planes give there. It stops
once they differ by at most `epsilon`.
"""

from solvers.cost import Pace
from solvers.linalg.types import Floats
from solvers.method import Option
from solvers.methods.cutting_planes.cutting_planes import CuttingPlanes, CuttingPlanesState
from solvers.result import Status

__all__ = ["CuttingPlaneAlgorithm"]


class CuttingPlaneAlgorithm(CuttingPlanes[CuttingPlanesState]):
    state_type = CuttingPlanesState
    name = "cpa"
    tasks = ("binary",)
    losses = ("hinge",)
    biases = ("none", "regularized")
    options = (
        Option(
            "epsilon",
            float,
            0.0,
            "the paper's stopping rule: stop once the mean training loss is known to within this; "
            "0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    pace = Pace(
        least=7.6,
        hardness=0.38,
        precision=0.4,
        tallness=0.25,
        entry_seconds=1.2e-9,
        row_seconds=1.7e-8,
        pass_seconds=1.3e-4,
    )
    paper = "Joachims (2006): Training linear SVMs in linear time"
    notes = (
        "The number of iterations does not depend on the number of rows. Reads the data only in passes, so rows can "
        "come in blocks; oca_e and oca_t need fewer passes."
    )

    def _finished(self, bound: float, weights: Floats) -> Status | None:
        excess = (self.risk.loss(self.scores) - self._promised(bound, weights)) / self.problem.total_cost
        return Status.STOPPED if excess <= self.chosen["epsilon"] and self.chosen["epsilon"] > 0.0 else None
