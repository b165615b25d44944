"""`bmrm`: the bundle method for regularised risk minimisation, for hinge and squared hinge.

Teo, Smola, Vishwanathan, Le (2007). Cutting planes of any convex loss; with hinge it takes the same steps as `cpa`. The
point returned is the best of all iterations. See cutting_planes.py for the iteration and risks.py for the planes.
"""

from solvers.cost import Pace
from solvers.methods.cutting_planes.cutting_planes import CuttingPlanes, CuttingPlanesState

__all__ = ["BundleMethod"]


class BundleMethod(CuttingPlanes[CuttingPlanesState]):
    state_type = CuttingPlanesState
    name = "bmrm"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
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
        "Reads the data in passes only, so rows can come in blocks; many iterations for precise answers or large C. "
        "Solvers oca_e (hinge), asvm and tron (squared hinge) need fewer."
    )
