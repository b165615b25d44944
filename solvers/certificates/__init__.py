"""Certificates: the primal value, dual bound and gap of a point, computed without any code of the solvers.

There is one module per task. docs/solvers.md derives the formulas of each module.
"""

from solvers.certificates.binary import certify_binary, evaluation_of_binary, feasible_dual_point
from solvers.certificates.evaluation import Evaluation, clear_evaluation
from solvers.certificates.free_bias import minimising_bias
from solvers.certificates.multiclass import balanced_dual_point, certify_multiclass, evaluation_of_multiclass
from solvers.certificates.multinomial import certify_multinomial, evaluation_of_multinomial
from solvers.certificates.ordinal import certify_ordinal
from solvers.certificates.regression import certify_regression, evaluation_of_regression
from solvers.method import Point
from solvers.problem.problems import BinaryProblem, MulticlassProblem, OrdinalProblem, Problem, RegressionProblem
from solvers.result import Certificate

__all__ = ["Evaluation", "balanced_dual_point", "certify", "evaluate_pair", "feasible_dual_point", "minimising_bias"]


def certify(problem: Problem, point: Point, tol: float | None = None) -> Certificate:
    """Certify a point. Its dual point is made feasible first, so an error in a solver can weaken the bound but not make
    it wrong.

    `tol` is the relative gap to prove. If rounding errors decide whether the gap is at most `tol`, the data is read
    again with compensated products. Without `tol`, the data is read again if rounding errors are more than half of the
    gap.
    """
    if isinstance(problem, BinaryProblem):
        return certify_binary(problem, point.coef, float(point.intercept), point.alpha, tol)
    if isinstance(problem, MulticlassProblem):
        certify_joint = certify_multinomial if problem.spec.loss == "logistic" else certify_multiclass
        return certify_joint(problem, point.coef, point.intercept, point.alpha, tol)
    if isinstance(problem, OrdinalProblem):
        return certify_ordinal(problem, point.coef, point.planes, tol)
    if isinstance(problem, RegressionProblem):
        return certify_regression(problem, point.coef, float(point.intercept), point.alpha, tol)
    raise TypeError(f"problems of type {type(problem).__name__} have no certificate")


def evaluate_pair(problem: Problem, point: Point, wanted: float) -> Evaluation:
    """Evaluate weights and dual point as a pair: the gap between them, the losses, and w(alpha).

    If the gap is below `wanted`, plain products are precise enough. Unlike a certificate, this function does not search
    for a better multiple of the dual point.
    """
    if isinstance(problem, BinaryProblem):
        return clear_evaluation(evaluation_of_binary(problem, point.coef, float(point.intercept), point.alpha), wanted)
    if isinstance(problem, MulticlassProblem):
        of_joint = evaluation_of_multinomial if problem.spec.loss == "logistic" else evaluation_of_multiclass
        return clear_evaluation(of_joint(problem, point.coef, point.intercept, point.alpha), wanted)
    if isinstance(problem, RegressionProblem):
        pair = evaluation_of_regression(problem, point.coef, float(point.intercept), point.alpha)
        return clear_evaluation(pair, wanted)
    raise TypeError(f"weights and dual point of a {type(problem).__name__} cannot be evaluated as a pair")
