"""What is special to tron: what it reads and holds, and what it does where the quadratic misleads."""

import itertools
import resource

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from tests.support.real_data import liblinear_objective, load

SQUARED = {"solver": "tron", "loss": "squared_hinge"}


def noisy(n=600, d=40, seed=1):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X @ random.standard_normal(d) + 3.0 * random.standard_normal(n) > 0, 1, 0)


def nearly_separable(seed=0):
    """Fewer rows than columns and a large C: at the optimum most rows lie close to the margin."""
    random = np.random.default_rng(seed)
    X = 3.0 * random.standard_normal((30, 60))
    return X, np.where(X @ random.standard_normal(60) > 0, 1, 0)


def snapshots(X, y, **arguments):
    taken = []

    def take(report):
        taken.append((report, report.snapshot()))

    result = solvers.train(X, y, callback=take, **{**SQUARED, "tol": 1e-8, **arguments})
    return result, taken


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_a_step_reads_at_most_one_pass_and_all_rows_read_are_counted(storage):
    X, y = noisy()
    result, taken = snapshots(storage(X), y)
    rows_read = [state["rows_read"] for _, state in taken]
    assert max(np.diff(rows_read)) <= len(y)
    assert min(np.diff(rows_read)) > 0
    assert result.passes == rows_read[-1] // len(y)
    evaluations = 1 + result.state["newton_steps"] + result.state["bad_steps"]
    assert result.passes >= evaluations, "each evaluation of P is a pass; the products come on top"


def test_products_read_the_active_rows_only():
    X, y = noisy()
    _, taken = snapshots(X, y)
    checked = 0
    for (_, before), (_, after) in itertools.pairwise(taken):
        products = after["newton.products"] - before["newton.products"]
        if products > 0:
            assert after["rows_read"] - before["rows_read"] == products * before["here.active_rows"].size
            checked += before["here.active_rows"].size < len(y)
    assert checked > 0


def test_no_hessian_is_formed():
    n_features = 30_000  # a Hessian of float64 would take 7.2 GB
    random = np.random.default_rng(0)
    X = sp.random_array((500, n_features), density=0.002, format="csr", rng=random)
    y = np.where(random.random(500) < 0.5, 1, 0)
    solvers.train(X[:50], y[:50], **SQUARED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert solvers.train(X, y, tol=1e-6, **SQUARED).converged
    grown_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kilobytes < 200_000


def test_a_bad_step_shrinks_the_region_and_still_lowers_the_objective():
    X, y = nearly_separable()
    result, taken = snapshots(X, y, C=10.0, tol=1e-9)
    assert result.converged
    assert result.state["bad_steps"] > 0
    shrunk = 0
    for (report, before), (later, after) in itertools.pairwise(taken):
        assert later.primal <= report.primal * (1 + 1e-12)
        if after["bad_steps"] > before["bad_steps"]:
            length = np.sqrt((before["newton.s"] ** 2 * before["here.M"]).sum())
            assert after["radius"] <= min(before["radius"], 2.0 * length * (1 + 1e-12))
            assert np.linalg.norm(after["newton.s"]) <= np.linalg.norm(before["newton.s"])
            shrunk += after["radius"] < before["radius"]
    assert shrunk > 0


def test_the_dual_point_is_at_least_as_good_as_the_plain_one():
    X, y = noisy()
    result = solvers.train(X, y, tol=1e-2, **SQUARED)
    gradient = result.state["here.gradient"]
    assert result.certificate.gap < 0.5 * gradient @ gradient


def test_the_papers_stopping_rule():
    X, y = noisy()
    options = {"gradient_tol": 1e-3}
    start = np.full(X.shape[1], 0.1)
    for warm_start in (None, start):
        result = solvers.train(X, y, tol=1e-12, options=options, warm_start=warm_start, **SQUARED)
        assert result.status is solvers.Status.STOPPED
        at_zero = np.append((2.0 * np.where(y == 1, 1.0, -1.0)) @ X, 2.0 * np.where(y == 1, 1.0, -1.0).sum())
        assert np.linalg.norm(result.state["here.gradient"]) <= 1e-3 * np.linalg.norm(at_zero)


def test_a_state_starts_other_rows_and_refuses_other_columns():
    X, y = noisy()
    first = solvers.train(X, y, tol=1e-4, **SQUARED)
    more = solvers.train(np.vstack([X, X[:50]]), np.append(y, y[:50]), tol=1e-4, warm_start=first, **SQUARED)
    cold = solvers.train(np.vstack([X, X[:50]]), np.append(y, y[:50]), tol=1e-4, **SQUARED)
    assert more.converged
    assert more.passes < cold.passes
    with pytest.raises(solvers.InvalidOptions, match="warm_start"):
        solvers.train(X[:, :-1], y, warm_start=first.state, **SQUARED)


def test_values_that_cannot_be_squared_are_refused():
    X, y = noisy(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="too large to be squared"):
        solvers.train(X, y, **SQUARED)


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_a9a_equals_liblinear(shared_data, C):
    X, signs = load(shared_data, "a9a")
    result = solvers.train(X, signs, C=C, tol=1e-8, **SQUARED)
    assert result.converged
    theirs = liblinear_objective(X, signs, "squared_hinge", solver=2, C=C, violation=1e-6)
    assert result.certificate.primal == pytest.approx(theirs, rel=1e-6)
