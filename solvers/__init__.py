"""Linear support vector machines: one problem definition, many methods, and a certificate for every result.

result = solvers.train(X, y, loss="squared_hinge", C=1.0, tol=1e-4)
result.coef, result.intercept, result.certificate.relative_gap
"""

from pathlib import Path

from solvers.api import Verdict, available, certify, check, estimate, train
from solvers.cost import Estimate
from solvers.engine.limits import AUTO_TOL
from solvers.errors import InvalidOptions, InvalidProblem, SolverError, UnknownSolver, UnsupportedProblem
from solvers.linalg.kernel_cache import forget_stale
from solvers.method import Planes, Point
from solvers.problem.problems import Problem
from solvers.problem.spec import PARAMETERS, Parameter, Parameters
from solvers.result import Certificate, LinearModel, SolveResult, Status, StepReport
from solvers.tuning.certify import TuningCertificate
from solvers.tuning.costs import PathResult, path
from solvers.tuning.curve import Scorer
from solvers.tuning.leave_one_out import LeaveOneOut, leave_one_out
from solvers.tuning.outcome import Best, FoldModel, OuterEstimate, Trial, TuneResult
from solvers.tuning.quick import ChosenC, choose_c
from solvers.tuning.reports import Tried, TuneProgress
from solvers.tuning.search import tune
from solvers.warm_up import load_kernels, warm_up

__all__ = [
    "AUTO_TOL",
    "PARAMETERS",
    "Best",
    "Certificate",
    "ChosenC",
    "Estimate",
    "FoldModel",
    "InvalidOptions",
    "InvalidProblem",
    "LeaveOneOut",
    "LinearModel",
    "OuterEstimate",
    "Parameter",
    "Parameters",
    "PathResult",
    "Planes",
    "Point",
    "Problem",
    "Scorer",
    "SolveResult",
    "SolverError",
    "Status",
    "StepReport",
    "Trial",
    "Tried",
    "TuneProgress",
    "TuneResult",
    "TuningCertificate",
    "UnknownSolver",
    "UnsupportedProblem",
    "Verdict",
    "available",
    "certify",
    "check",
    "choose_c",
    "estimate",
    "leave_one_out",
    "load_kernels",
    "path",
    "train",
    "tune",
    "warm_up",
]

forget_stale(Path(__file__).parent)
