"""`dcd`: dual coordinate descent, the method of LIBLINEAR; how it works is said in solvers/dual_descent.py."""

from solvers.dual_descent import DualDescent

__all__ = ["DualCoordinateDescent"]


class DualCoordinateDescent(DualDescent):
    name = "dcd"
    paper = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan (2008): A dual coordinate descent method for large-scale linear SVM"
    )
    notes = "Fast for sparse data and moderate C; slows down as C grows or features are badly scaled."
