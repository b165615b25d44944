"""`dcd`: dual coordinate descent, the method of LIBLINEAR; how it works is said in solvers/dual_descent.py."""

from solvers.dual_descent import DualDescent
from solvers.estimates import Footprint, Pace

__all__ = ["DualCoordinateDescent"]


class DualCoordinateDescent(DualDescent):
    name = "dcd"
    footprint = Footprint(row=19.0, squared_row=2.0, feature=4.5, kept_row=2.0, kept_feature=1.0)
    pace = Pace(
        least=5.4,
        hardness=0.78,
        hardest=1e12,
        precision=0.076,
        tallness=-0.09,
        squared=1.17,
        entry_seconds=1.4e-9,
        row_seconds=2e-7,
    )
    paper = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan (2008): A dual coordinate descent method for large-scale linear SVM"
    )
    notes = "Fast for sparse data and moderate C; slows down as C grows or features are badly scaled."
