"""`dcd`: dual coordinate descent, the method of LIBLINEAR; how it works is said in solvers/dual_descent.py."""

from solvers.dual_descent import DualDescent
from solvers.estimates import Footprint, Pace

__all__ = ["DualCoordinateDescent"]


class DualCoordinateDescent(DualDescent):
    name = "dcd"
    footprint = Footprint(row=19.0, squared_row=2.0, feature=4.5, kept_row=2.0, kept_feature=1.0)
    pace = Pace(
        least=2, hardness=0.69, hardest=1e12, precision=0.11, tallness=0.2, entry_seconds=4.8e-9, row_seconds=6.4e-8
    )
    paper = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan (2008): A dual coordinate descent method for large-scale linear SVM"
    )
    notes = "Fast for sparse data and moderate C; slows down as C grows or features are badly scaled."
