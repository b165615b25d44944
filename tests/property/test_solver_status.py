"""Why a run stopped agrees with its certificate: `converged` exactly if the certified relative gap is at most tol.

Every method is driven out of every exit, on every problem that it claims.
"""

import contextlib
import itertools

import numpy as np
import pytest

import solvers
from tests.support.conformance import CHOICES, every_choice, medium_problem, over

BINARY = list({choice.method: choice for choice in CHOICES if choice.task == "binary"}.values())
"""One problem of each method that can do classes one against the rest."""
TOLERANCES = 1e-300, 1e-3, 0.3, 2.0
"""Out of reach, usual, reached within some passes, true of the zero vector."""
EXITS = {
    "first pass": {"max_passes": 1},
    "fourth pass": {"max_passes": 4},
    "no time": {"max_seconds": 1e-9},
    "callback": {"callback": lambda report: True},
    "by itself": {"max_passes": 300},
}


def assert_agrees(result, tol):
    gap = result.certificate.relative_gap
    assert result.converged == (gap is not None and gap <= tol), (result.status, result.certificate)
    for part in result.per_class or []:
        assert part.relative_gap is None or part.relative_gap >= 0.0


def statuses(X, labels, **arguments):
    """Of every exit and tolerance."""
    seen = set()
    for tol, limits in itertools.product(TOLERANCES, EXITS.values()):
        result = solvers.train(X, labels, tol=tol, **limits, **arguments)
        assert_agrees(result, tol)
        seen.add(result.status)
    return seen


@every_choice
def test_every_exit_of_every_method(choice):
    X, labels = medium_problem(choice.task, n=60, d=8)
    seen = statuses(X, labels, **choice.arguments)
    assert solvers.Status.CONVERGED in seen
    assert seen & {solvers.Status.PASS_LIMIT, solvers.Status.STALLED}


def test_numbers_that_overflow():
    seen = set()
    for choice, scale, tol in itertools.product(CHOICES, (1e150, 1e-150), (1e-3, 2.0)):
        X, labels = medium_problem(choice.task, "dense", n=30, d=4)
        with contextlib.suppress(solvers.InvalidProblem):  # a square that overflows is refused
            result = solvers.train(X * scale, labels, tol=tol, max_passes=20, **{**choice.arguments, "C": 1e300})
            assert_agrees(result, tol)
            seen.add(result.status)
    assert solvers.Status.NONFINITE in seen


@over(BINARY)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_exit_of_classes_one_against_the_rest(choice, threads):
    X, labels = medium_problem("multiclass", n=60, d=8)
    arguments = {**choice.arguments, "task": "multiclass", "strategy": "ovr"}
    seen = statuses(X, labels, threads=threads, **arguments)
    assert solvers.Status.CONVERGED in seen
    assert seen & {solvers.Status.PASS_LIMIT, solvers.Status.STALLED}


def test_the_sum_of_the_classes_counts_and_not_each_class():
    """At some tolerance the sum is within it while a class is not."""
    X, labels = medium_problem("multiclass", n=400, d=30)
    found = []
    for tol in np.geomspace(1e-3, 1.0, 25):
        result = solvers.train(X, labels, solver="dcd", strategy="ovr", loss="hinge", tol=tol, max_passes=16)
        assert_agrees(result, tol)
        found.append(result.converged and max(part.relative_gap for part in result.per_class) > tol)
    assert any(found)
