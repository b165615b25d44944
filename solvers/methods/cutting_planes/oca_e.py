"""`oca_e`: optimised cutting planes with the exact line search, binary and multi-class.

Franc and Sonnenburg (2009); OCA-E of Arnosti and Kalita (2011), Algorithms 2 and 3. oca.py has the iteration,
oca_line_search.py the search.
"""

from solvers.cost import Pace
from solvers.methods.cutting_planes.oca import OcaState, OptimizedCuttingPlanes
from solvers.methods.cutting_planes.oca_line_search import Line

__all__ = ["OptimizedCuttingPlanesExact"]


class OptimizedCuttingPlanesExact(OptimizedCuttingPlanes):
    name = "oca_e"
    pace = Pace(
        least=11.8,
        hardness=0.29,
        precision=0.27,
        tallness=-0.05,
        sparsity=0.2,
        entry_seconds=1.6e-9,
        row_seconds=2.2e-8,
        pass_seconds=2.3e-4,
    )
    paper = "Franc, Sonnenburg (2009): Optimized cutting plane algorithm for large-scale risk minimization"
    notes = (
        "Reads the data only in passes, two per iteration, so rows can come in blocks; "
        "few iterations for rough answers and small C, many for precise ones."
    )

    def _search(self, line: Line, state: OcaState) -> float:
        return line.minimum(guess=state.mu or 1.0)
