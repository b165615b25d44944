"""Linear support vector machines: one problem statement, many methods, every answer certified.

result = solvers.train(X, y, loss="squared_hinge", C=1.0, tol=1e-4)
result.coef, result.intercept, result.certificate.relative_gap
"""

from pathlib import Path

from .errors import InvalidOptions, InvalidProblem, SolverError, UnknownSolver, UnsupportedProblem
from .estimates import Estimate
from .kernel_cache import forget_stale
from .problem import Problem
from .protocol import Planes, Point
from .result import Certificate, LinearModel, SolveResult, Status, StepReport
from .training import available, check, estimate, train
from .verification import Verdict, certify
from .warming import warm_up

__all__ = [
    "Certificate",
    "Estimate",
    "InvalidOptions",
    "InvalidProblem",
    "LinearModel",
    "Planes",
    "Point",
    "Problem",
    "SolveResult",
    "SolverError",
    "Status",
    "StepReport",
    "UnknownSolver",
    "UnsupportedProblem",
    "Verdict",
    "available",
    "certify",
    "check",
    "estimate",
    "train",
    "warm_up",
]

forget_stale(Path(__file__).parent)
