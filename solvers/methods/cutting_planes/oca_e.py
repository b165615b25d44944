"""`oca_e`: optimised cutting planes with the exact line search, binary and multi-class.

Franc, Sonnenburg: Optimized cutting plane algorithm for large-scale risk minimization, JMLR 2009; OCA-E of Arnosti and
Kalita (paper 003, Alg. 2 and 3). See oca.py for the iteration and oca_line_search.py for the search.
"""

from solvers.cost import Pace
from solvers.methods.cutting_planes.oca import OptimizedCuttingPlanes
from solvers.methods.cutting_planes.oca_line_search import Line
from solvers.state import StoredState as State

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
        "Needs two reads of the data an iteration and nothing else, so rows may come in blocks; "
        "few iterations for rough answers and small C, many for precise ones."
    )

    def _search(self, line: Line, state: State) -> float:
        return line.minimum(guess=state.get("mu") or 1.0)
