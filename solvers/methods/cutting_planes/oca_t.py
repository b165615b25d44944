"""`oca_t`: optimised cutting planes with the three-point line search, binary and multi-class.

Arnosti, Kalita: Cutting plane training for linear support vector machines (paper 003, Alg. 2 and 4). A few values of
the objective along the line, around where the last search ended, replace the exact minimum. See oca.py for the
iteration and oca_line_search.py for the search.
"""

from solvers.cost import Pace
from solvers.methods.cutting_planes.oca import OptimizedCuttingPlanes
from solvers.methods.cutting_planes.oca_line_search import Line, three_point_search
from solvers.state import StoredState as State

__all__ = ["OptimizedCuttingPlanesThreePoint"]

FIRST_MU = 1.0
"""Before anything is known, the solution of the reduced problem itself."""


class OptimizedCuttingPlanesThreePoint(OptimizedCuttingPlanes):
    name = "oca_t"
    pace = Pace(
        least=6.3,
        hardness=0.41,
        precision=0.17,
        tallness=0.19,
        entry_seconds=1.4e-9,
        row_seconds=8.5e-9,
        pass_seconds=2.1e-4,
    )
    paper = "Arnosti, Kalita (2011): Cutting plane training for linear support vector machines"
    notes = (
        "As oca_e with a cheaper, inexact line search that never stands still; "
        "ahead where rows have few features, so that the search is a large part of the work."
    )

    def _search(self, line: Line, state: State) -> float:
        return three_point_search(line, state.get("mu", FIRST_MU))
