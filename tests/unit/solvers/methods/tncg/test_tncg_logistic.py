"""What is special to tncg_logistic: parts of the rows, the free gap, bits by any threads, resumed states."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers


def noisy(n=600, d=40, seed=1, density=1.0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density)
    return X, np.where(X @ random.standard_normal(d) + 3.0 * random.standard_normal(n) > 0, 1, 0)


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "tncg_logistic", "loss": "logistic", "tol": 1e-4, **arguments})


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_threads_change_no_bit(storage):
    X, y = noisy(12_000, density=0.5)
    one, two = (train(storage(X), y, tol=1e-5, threads=count) for count in (1, 2))
    assert one.converged
    assert (one.threads, two.threads) == (1, 2)
    assert one.coef.tobytes() == two.coef.tobytes()


def test_tall_data_starts_on_a_part_of_the_rows_and_claims_nothing_there():
    X, y = noisy(60_000, d=8)
    taken = []
    result = train(X, y, callback=lambda report: taken.append((report.snapshot()["stride"], report.primal)))
    strides = [stride for stride, _ in taken]
    assert strides[0] > 1
    assert strides == sorted(strides, reverse=True)
    assert strides[-1] == 1
    assert all(primal is None for stride, primal in taken if stride > 1)
    assert result.converged
    assert result.passes < train(X, y, options={"subsample": False}).passes


def test_the_gap_is_half_the_squared_gradient():
    X, y = noisy()
    result = train(X, y, tol=1e-5)
    gap = 0.5 * float((result.state["gradient"] ** 2).sum())
    assert result.certificate.gap == pytest.approx(gap, rel=1e-3)


def test_agrees_with_newton_on_the_features():
    X, y = noisy(2_000, density=0.3)
    for bias in ("none", "regularized"):
        ours = train(X, y, bias=bias, C=10.0, tol=1e-9)
        other = solvers.train(X, y, solver="newton_logistic", loss="logistic", bias=bias, C=10.0, tol=1e-9)
        assert ours.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-9)


def test_a_state_starts_other_rows_and_refuses_other_columns():
    X, y = noisy()
    first = train(X, y)
    assert train(np.vstack([X, X[:50]]), np.append(y, y[:50]), warm_start=first).converged
    with pytest.raises(solvers.InvalidOptions, match="warm_start"):
        train(X[:, :-1], y, warm_start=first.state)


def test_values_that_cannot_be_squared_are_refused():
    X, y = noisy(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="too large to be squared"):
        train(X, y)
