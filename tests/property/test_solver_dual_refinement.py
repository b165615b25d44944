"""Dual points found for weights that come without one: feasible, true, never worse, and in the end tight."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
from solvers.certificates.refinement import DualRefinement
from solvers.problem.spec import BIASES
from tests.support.solver_problems import Case, cases, examples
from tests.support.solver_reference import plain_dual, reference_interval
from tests.support.stated_problems import problem_of

every_choice = pytest.mark.parametrize(("loss", "bias"), list(itertools.product(["hinge", "squared_hinge"], BIASES)))


@every_choice
def test_every_dual_point_is_feasible_and_true_and_no_worse_than_the_one_before(loss, bias):
    @examples(12)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        interval = reference_interval(dense)
        refinement, before = DualRefinement(problem), 0.0
        for _ in range(4):
            w = random.standard_normal(case.X.shape[1])
            kept = w.copy()
            alpha = refinement.refined(w, random.standard_normal() * (bias != "none"))
            assert (w == kept).all()
            value = plain_dual(dense, np.minimum(alpha, dense.costs) if loss == "hinge" else alpha)
            tolerance = 1e-9 * max(1.0, interval.high)
            assert before - tolerance <= value <= interval.high + tolerance
            before = value

    check()


@every_choice
def test_goes_on_to_the_optimum(loss, bias):
    """With a small C; with a large one single coordinates creep, and `dcd` has other means against that."""

    @examples(8)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"))
    def check(case):
        case = case.changed(C=0.05)
        dense, problem = case.dense(), problem_of(case)
        interval = reference_interval(dense)
        refinement, nowhere = DualRefinement(problem), np.zeros(case.X.shape[1])
        for _ in range(100):
            alpha = refinement.refined(nowhere, 0.0)
            if plain_dual(dense, alpha) >= 0.999 * interval.low:
                break
        assert plain_dual(dense, alpha) >= 0.999 * interval.low

    check()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_driver_refines_where_a_method_has_no_dual_point(loss):
    random = np.random.default_rng(1)
    X = random.standard_normal((500, 6))
    labels = np.where(X @ random.standard_normal(6) + random.standard_normal(500) > 0, 1, 0)
    arguments = {"solver": "local", "loss": loss, "bias": "free", "tol": 1e-3}
    result = solvers.train(X, labels, **arguments)
    assert result.certificate.method == "dual point from the margins, refined"
    assert result.converged
    assert 0.0 < result.certificate_seconds < result.seconds
    again = solvers.train(X, labels, **arguments)
    assert again.certificate == result.certificate


def test_only_quadratic_duals_are_refined():
    random = np.random.default_rng(2)
    case = random.standard_normal((30, 3)), np.arange(30) % 2
    fits = {p: DualRefinement.fits(problem_of(binary_case(*case, loss="hinge_p", p=p))) for p in (1.0, 1.5, 2.0)}
    assert fits == {1.0: True, 1.5: False, 2.0: True}


def binary_case(X, labels, *, loss, p):
    definition = {"task": "binary", "strategy": "ovr", "loss": loss, "p": p, "C": 1.0, "c_scale": "sum"}
    others = {"bias": "free", "bias_scale": 1.0, "epsilon": 0.1}
    return Case(X, labels, {**definition, **others, "sample_weight": None, "class_weight": None, "groups": None})
