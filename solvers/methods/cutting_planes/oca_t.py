"""`oca_t`: optimised cutting planes with the three-point line search, binary and multi-class.

Arnosti and Kalita (2011), Algorithms 2 and 4. Instead of finding the exact minimum, the search compares a few values of
the objective, starting from the result of the last search. oca.py has the iteration, oca_line_search.py the search.
"""

from solvers.cost import Pace
from solvers.methods.cutting_planes.oca import OcaState, OptimizedCuttingPlanes
from solvers.methods.cutting_planes.oca_line_search import Line, three_point_search

__all__ = ["OptimizedCuttingPlanesThreePoint"]


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
        "Like oca_e, with a cheaper, inexact line search that always moves; "
        "faster where rows have few features, so that the search is a large part of the work."
    )

    def _search(self, line: Line, state: OcaState) -> float:
        return three_point_search(line, state.mu)
