"""Trains in this process, with the package `solvers` of the server's distribution."""

from dataclasses import asdict
from typing import Any

from hyperplane._estimators.problems import Problem, Solution, gaps_of
from hyperplane._shared.types import Certificate

__all__ = ["train_here"]

MISSING = (
    "training in this process needs the package `solvers`: install `hyperplane`, or name a service with remote=url"
)


def train_here(problem: Problem) -> Solution:
    """Train with `solvers.train`, which is imported with the first use."""
    try:
        import solvers
    except ImportError as error:
        raise ImportError(MISSING) from error
    result = solvers.train(
        problem.X,
        problem.y,
        problem.solver,
        sample_weight=problem.weight,
        groups=problem.groups,
        tol=problem.tol,
        max_passes=problem.max_passes,
        seed=problem.seed,
        **problem.parameters,
    )
    shown: dict[str, Any] = asdict(result.certificate)
    if result.per_class is not None:
        shown["per_class"] = [asdict(one) for one in result.per_class]
    return Solution(
        coef=result.coef,
        intercept=result.intercept,
        thresholds=result.thresholds,
        certificate=Certificate({**shown, "claimed": False}),
        gaps=gaps_of(shown),
        solver=result.solver,
        converged=result.converged,
        passes=result.passes,
    )
