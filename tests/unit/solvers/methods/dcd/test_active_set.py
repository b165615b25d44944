"""The direct solve of a small active set: the optimum of a small quadratic program with bounds."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.data.rows import as_rows, read_only
from solvers.methods.dcd import dcd
from solvers.methods.dcd.active_set import solve_active_set
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("bias_feature", [0.0, 2.0])
@pytest.mark.parametrize("features", [3, 40])
@pytest.mark.parametrize("seed", range(5))
def test_hardly_anything_is_left_of_these_rows_gap(
    sparse: bool, squared: bool, bias_feature: float, features: int, seed: int
) -> None:
    """Also with more rows than features, duplicate rows and an empty row."""
    random = np.random.default_rng(seed)
    n, C = 60, 0.3
    X = random.standard_normal((n, features)) * (random.random((n, features)) < 0.7)
    X[1], X[2] = X[0], 0.0
    signs = np.where(X[:, 0] + random.standard_normal(n) > 0.0, 1.0, -1.0)
    diagonal = np.full(n, 0.5 / C if squared else 0.0)
    constants = np.stack([signs, np.full(n, C), diagonal, (X * X).sum(axis=1) + diagonal], axis=1)
    alpha = random.random(n) * C
    rows = random.permutation(n)[:35]
    held = np.setdiff1d(np.arange(n), rows)
    before = alpha.copy()

    def weights() -> Any:
        return np.append(X.T @ (alpha * signs), bias_feature * float((alpha * signs).sum()))

    def gap(a: Any, w: Any) -> float:
        """The rows' terms of the duality gap: 0 at the optimum."""
        slack = 1.0 - signs * (X @ w[:-1] + bias_feature * w[-1])
        over, under = np.maximum(slack, 0.0), np.maximum(-slack, 0.0)
        terms = C * (over - a / (2.0 * C)) ** 2 if squared else (C - a) * over
        return float((terms + a * under)[rows].sum())

    w, balance = weights(), np.array([random.standard_normal(), float((alpha * signs).sum())])
    first = w.copy()
    data = as_rows(sp.csr_array(X) if sparse else X)
    terms = DualTerms(data.flat(), read_only(constants), bias_feature)
    solve_active_set(terms, DualPoint(alpha, w, balance), rows)

    np.testing.assert_array_equal(alpha[held], before[held])
    np.testing.assert_allclose(w, weights(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(balance, [bias_feature * w[-1], (alpha * signs).sum()], rtol=1e-9, atol=1e-9)
    assert (alpha >= 0.0).all()
    assert (alpha <= (np.inf if squared else C)).all()
    assert gap(alpha, w) <= 1.001e-6 * gap(before, first)


def test_it_ends_a_slow_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    X = random.standard_normal((4000, 40)) @ random.standard_normal((40, 40)) / 4.0
    y = np.digitize(X[:, 0] + random.standard_normal(4000), [0.0])
    problem: dict[str, Any] = {"solver": "dcd", "loss": "hinge", "C": 0.01, "tol": 1e-8}
    together = solvers.train(X, y, **problem)
    monkeypatch.setattr(dcd, "ACTIVE_SET_COST", 0)
    one_by_one = solvers.train(X, y, **problem)
    assert together.converged
    assert one_by_one.converged
    assert together.certificate.primal == pytest.approx(one_by_one.certificate.primal, rel=2e-8)
    assert 2 * together.passes < one_by_one.passes
