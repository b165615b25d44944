"""dcd_logistic: the step of a row, the optimum of an independent optimiser, starts, states and the estimated gap."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit

import solvers
from solvers.methods.dcd.logistic_epoch import entropy_sum, log_odds, solve_first, solve_row

SHAPES = {"tall": (60, 4), "wide": (12, 30), "one_feature": (25, 1), "repeated": (40, 5), "separable": (30, 3)}


def problem(shape: str, seed: int) -> tuple[Any, Any]:
    n, d = SHAPES[shape]
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < 0.7)
    X[1] = 0.0
    if shape == "repeated":
        X[n // 2 :] = X[: n // 2] + 1e-3 * random.standard_normal((n // 2, d))
    noise = 0.0 if shape == "separable" else 1.0
    y = np.where(X @ random.standard_normal(d) + noise * random.standard_normal(n) > 0.2, 1, -1)
    y[:2] = 1, -1
    return X, y


def optimum(X: Any, y: Any, costs: Any, beta: float) -> float:
    """The least objective, by scipy's L-BFGS on the primal."""
    H = np.column_stack([X, np.full(y.size, beta)])

    def value(w: Any) -> tuple[float, Any]:
        margins = y * (H @ w)
        gradient = w - H.T @ (costs * y * expit(-margins))
        return float(0.5 * w @ w + (costs * np.logaddexp(0.0, -margins)).sum()), gradient

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30}
    return float(minimize(value, np.zeros(H.shape[1]), jac=True, method="L-BFGS-B", options=options).fun)


@pytest.mark.parametrize("K", [1e-8, 1e-2, 1.0, 30.0, 1e4, 1e9])
def test_the_step_of_a_row_solves_its_equation(K: float) -> None:
    """From anywhere, also from where alpha is next to a bound, it leaves at most a hundredth of the gradient."""
    for t in (-600.0, -30.0, -2.0, 0.0, 0.1, 5.0, 35.0):
        for margin in (-800.0, -40.0, -1.0, 0.0, 1e-9, 3.0, 50.0, 700.0):
            p, g = float(expit(t)), margin + t
            new_t, new_p = solve_row(t, p, g, K)
            assert new_p == pytest.approx(float(expit(new_t)), rel=1e-13, abs=0.0)
            left = margin + K * (new_p - p) + new_t
            rounding = 1e-12 * (abs(margin) + K * max(p, new_p) + abs(new_t))
            assert abs(left) <= 0.011 * abs(g) + rounding, (t, margin)


@pytest.mark.parametrize("K", [1e-8, 1e-2, 1.0, 30.0, 1e4, 1e9, 1e17])
def test_the_first_step_of_a_row_solves_its_equation(K: float) -> None:
    for t in (-600.0, -30.0, -2.0, -1e-9, 0.0, 0.1, 5.0, 35.0, 600.0):
        new_t, new_p = solve_first(t, float(expit(t)), K)
        assert new_p == pytest.approx(float(expit(new_t)), rel=1e-13, abs=0.0)
        left = new_t - t + K * new_p
        assert abs(left) <= 0.011 * min(1.0, K) + 1e-12 * (abs(t) + abs(new_t)), t


def test_a_row_that_is_certain_keeps_a_tiny_alpha() -> None:
    new_t, new_p = solve_row(-5.0, float(expit(-5.0)), 650.0, 1.0)
    assert new_p == pytest.approx(np.exp(new_t), rel=1e-9)
    assert 0.0 < new_p < 1e-270


@pytest.mark.parametrize("bias", ["none", "regularized"])
@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_reaches_the_optimum_of_an_independent_optimiser(shape: str, C: float, bias: str) -> None:
    for seed, storage in ((0, np.asarray), (1, sp.csr_array)):
        X, y = problem(shape, seed)
        weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 4.0], size=y.size)
        weights[:2] = 1.0
        result = solvers.train(
            storage(X), y, solver="dcd_logistic", loss="logistic", C=C, bias=bias, bias_scale=2.0, tol=2e-7,
            sample_weight=weights,
        )  # fmt: skip
        expected = optimum(X, y, C * weights, 2.0 if bias == "regularized" else 0.0)
        assert result.converged
        assert result.certificate.primal == pytest.approx(expected, rel=1e-6)
        assert result.certificate.dual_bound <= expected * (1.0 + 1e-9)


def test_its_own_figures_are_those_of_its_point() -> None:
    X, y = problem("tall", 3)
    result = solvers.train(X, y, solver="dcd_logistic", loss="logistic", C=5.0, tol=1e-9)
    alpha, costs = result.state["alpha"], np.full(y.size, 5.0)
    assert result.state["w"][:-1] == pytest.approx(X.T @ (alpha * y), rel=1e-9, abs=1e-9)
    assert result.state["entropy"] == pytest.approx(entropy_sum(alpha, costs), rel=1e-9)
    logits = np.empty(y.size)
    log_odds(alpha, costs, logits)
    assert result.state["logits"] == pytest.approx(logits, rel=1e-6, abs=1e-9)


def test_one_against_the_rest_works_with_it() -> None:
    X, _ = problem("tall", 4)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5])
    one, other = (
        solvers.train(X, y, solver=name, loss="logistic", tol=1e-7) for name in ("dcd_logistic", "newton_logistic")
    )
    assert one.converged
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-6)


def test_a_run_is_resumed_to_the_same_bits() -> None:
    X, y = problem("tall", 5)
    arguments: dict[str, Any] = {"solver": "dcd_logistic", "loss": "logistic", "C": 50.0, "tol": 1e-8}
    states: list[Any] = []
    whole = solvers.train(X, y, callback=lambda report: states.append(report.snapshot()), **arguments)
    assert len(states) > 20, "a conjugate-gradient step is among them"
    for state in states[:-1:5]:
        resumed = solvers.train(X, y, warm_start=state, resume=True, **arguments)
        assert resumed.coef.tobytes() == whole.coef.tobytes()
        assert resumed.iterations == whole.iterations


def test_states_and_weights_are_starts() -> None:
    X, y = problem("tall", 6)
    first = solvers.train(X, y, solver="dcd_logistic", loss="logistic", C=10.0, tol=1e-7)
    for start in (first.state, (first.coef, first.intercept)):
        cold, warm = (
            solvers.train(X, y, solver="dcd_logistic", loss="logistic", C=10.1, tol=1e-4, warm_start=at)
            for at in (None, start)
        )
        assert warm.converged
        assert warm.iterations < cold.iterations
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)


def test_a_state_of_other_rows_is_refused() -> None:
    X, y = problem("tall", 7)
    state = solvers.train(X, y, solver="dcd_logistic", loss="logistic").state
    with pytest.raises(solvers.InvalidOptions, match="not a state of dcd_logistic on data with 50 rows x 4 features"):
        solvers.train(X[:50], y[:50], solver="dcd_logistic", loss="logistic", warm_start=state)
    broken = {**state, "logits": np.full(y.size, np.nan)}
    with pytest.raises(solvers.InvalidOptions, match="NaN or infinite"):
        solvers.train(X, y, solver="dcd_logistic", loss="logistic", warm_start=broken)


def test_its_estimate_hardly_ever_asks_for_a_certificate_in_vain() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((3000, 20))
    y = np.sign(X @ random.standard_normal(20) + 2.0 * random.standard_normal(3000))
    failed = 0
    for C in (0.01, 0.1, 1.0):
        for seed in range(4):
            reports: list[solvers.StepReport] = []
            result = solvers.train(
                X, y, solver="dcd_logistic", loss="logistic", C=C, tol=1e-4, seed=seed, callback=reports.append
            )
            assert result.converged
            failed += sum(report.certified for report in reports) > 1
    assert failed <= 2
