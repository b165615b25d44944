"""The points that dcd starts from: alpha = C if C is tiny, whatever the classes, weights and bias are, and states."""

from typing import Any

import numpy as np
import pytest

import solvers

N, D = 3000, 40


def _rows(share: float) -> tuple[Any, Any]:
    """Rows of length 1, of which this part is of the second class."""
    random = np.random.default_rng(3)
    X = random.standard_normal((N, D))
    order = np.argsort(X[:, 0] + random.standard_normal(N))
    y = np.zeros(N, dtype=int)
    y[order[int(N * (1.0 - share)) :]] = 1
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@pytest.mark.parametrize("bias", ["regularized", "none"])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.02])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_the_same_wherever_it_begins(bias: str, share: float, weighted: bool) -> None:
    X, y = _rows(share)
    weights = np.random.default_rng(4).choice([0.0, 0.5, 1.0, 30.0], N) if weighted else None
    problem: dict[str, Any] = {"loss": "hinge", "C": 1e-3, "bias": bias, "sample_weight": weights}
    found = solvers.train(X, y, solver="dcd", tol=1e-7, **problem)
    expected = solvers.train(X, y, solver="smooth_newton", tol=1e-9, **problem)
    assert found.converged
    assert expected.converged
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=2e-7)


def test_one_read_is_enough_where_every_row_ends_at_its_bound() -> None:
    X, y = _rows(0.5)
    found = solvers.train(X, y, solver="dcd", loss="hinge", C=1e-6, bias="none", tol=1e-3)
    assert found.converged
    assert found.passes <= 2
    np.testing.assert_array_equal(found.state["alpha"], np.full(N, 1e-6))
    # At this C no row reaches the margin: the optimum is known by hand.
    np.testing.assert_allclose(found.coef, 1e-6 * np.where(y == 1, 1.0, -1.0) @ X, rtol=1e-9)


def test_a_class_without_weight_is_no_class_to_begin_with() -> None:
    X, y = _rows(0.5)
    found = solvers.train(X, y, solver="dcd", loss="hinge", C=1e-4, sample_weight=(y == 1).astype(float), tol=1e-6)
    assert found.converged
    assert found.certificate.relative_gap <= 1e-6


def test_a_state_of_other_rows_or_with_a_broken_dual_point_is_refused() -> None:
    X, y = _rows(0.5)
    state = solvers.train(X, y, solver="dcd", tol=1e-2).state
    with pytest.raises(solvers.InvalidOptions, match="is not a state of dcd on data with 2900 rows x 40 features"):
        solvers.train(X[:2900], y[:2900], solver="dcd", warm_start=state)
    broken = {**state, "alpha": np.full(N, np.nan)}
    with pytest.raises(solvers.InvalidOptions, match="NaN or infinite"):
        solvers.train(X, y, solver="dcd", warm_start=broken)


def test_a_state_of_other_costs_gives_its_alpha() -> None:
    X, y = _rows(0.5)
    first = solvers.train(X, y, solver="dcd", C=1.0, tol=1e-6)
    cold, warm = (solvers.train(X, y, solver="dcd", C=1.1, tol=1e-6, warm_start=at) for at in (None, first.state))
    assert warm.converged
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-6)
    assert warm.passes < cold.passes
