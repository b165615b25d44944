"""The conjugate-gradient step of dcd: never worse, never outside the bounds, fast where descent is slow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
from solvers.data.rows import as_rows, read_only
from solvers.methods.dcd.cg_step import MOST_READS, take_cg_step
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec
from tests.support.solver_problems import cases, examples
from tests.support.solver_reference import plain_dual


def problem_of(case):
    definition = dict(case.definition)
    weights = {key: definition.pop(key) for key in ("sample_weight", "class_weight", "groups")}
    data = as_rows(case.X)
    setting = resolve_spec(n_rows=data.n_rows, n_features=data.n_features, n_classes=2, sparse=False, **definition)
    return build_problem(setting, data, read_labels(case.labels, "binary"), **weights)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", ["none", "regularized"])
def test_it_raises_the_dual_inside_the_bounds(loss, bias):
    @examples(40)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        squared = loss == "squared_hinge"
        counted = dense.costs > 0.0
        diagonal = np.where(counted & squared, 0.5 / np.where(counted, dense.costs, 1.0), 0.0)
        upper = np.where(counted, np.inf, 0.0) if squared else dense.costs
        alpha = dense.costs * random.choice([0.0, 0.3, 0.7, 1.0], size=dense.costs.size)
        norms = problem.data.squared_norms()
        constants = read_only(np.stack([problem.signs, problem.costs, diagonal, norms + diagonal], axis=1))
        w, better, beta = problem.weights_of(alpha), alpha.copy(), problem.bias_feature
        first_b = random.standard_normal()
        balance = np.array([first_b, float((alpha * problem.signs).sum())])
        used = take_cg_step(DualTerms(problem.data.flat(), constants, beta), DualPoint(better, w, balance))
        assert used <= MOST_READS * np.count_nonzero((alpha > 0.0) & (alpha < upper))
        assert (better >= 0.0).all()
        assert (better <= upper).all()
        held = (alpha == 0.0) | (alpha == upper)
        assert (better[held] == alpha[held]).all()
        before, after = plain_dual(dense, alpha), plain_dual(dense, better)
        assert after >= before - 1e-12 * max(1.0, abs(before))
        np.testing.assert_allclose(w, problem.weights_of(better), rtol=1e-11, atol=1e-11 * max(1.0, np.abs(w).max()))
        np.testing.assert_allclose(balance[1], (better * problem.signs).sum(), rtol=1e-9, atol=1e-9)
        b = beta * w[-1] if (better != alpha).any() else first_b
        np.testing.assert_allclose(balance[0], b, rtol=1e-9, atol=1e-9)

    check()


def test_rows_that_repeat_do_not_make_descent_slow():
    """Nearly equal rows with a large bias feature: without such steps this takes over ten thousand passes."""
    random = np.random.default_rng(7)
    table = 0.1 * random.standard_normal((40, 8))
    table[20:] = table[:20] + 1e-3 * random.standard_normal((20, 8))
    labels = random.random(40) > 0.5
    arguments = {"solver": "dcd", "C": 10.0, "bias_scale": 4.0}
    assert solvers.train(table, labels, tol=1e-9, max_passes=100, **arguments).converged


@pytest.mark.parametrize("limit", [9, 34, 50, 100])
def test_its_reads_count_towards_the_limit_of_passes(limit):
    random = np.random.default_rng(1)
    table = random.standard_normal((500, 10))
    labels = table[:, 0] + random.standard_normal(500) > 0.0
    found = solvers.train(table, labels, solver="dcd", C=100.0, tol=1e-9, max_passes=limit)
    assert limit <= found.passes <= limit + 1, "the last epoch may begin just before the limit"
