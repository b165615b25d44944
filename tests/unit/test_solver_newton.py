"""What is special to Newton's method on the features: samples first, few reads of all rows, bits by any threads."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers


def tall(n=60_000, d=12, seed=0, noise=1.0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X @ random.standard_normal(d) + noise * random.standard_normal(n) > 0, 1, -1)


def with_rare_columns(n=40_000, seed=3):
    """Two columns of numbers and thirty of a category, most of whose values are rare: samples do not see them all."""
    random = np.random.default_rng(seed)
    kind = np.minimum(random.geometric(0.3, n) - 1, 29)
    X = np.column_stack([random.standard_normal((n, 2)), np.eye(30)[kind]])
    score = X @ random.standard_normal(32) + random.standard_normal(n)
    return X, np.where(score > 0, 1, -1)


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "newton", "loss": "squared_hinge", "tol": 1e-3, **arguments})


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("problem", [tall, with_rare_columns])
def test_all_rows_are_read_a_handful_of_times(storage, problem):
    X, y = problem()
    strides = []
    result = train(storage(X), y, callback=lambda report: strides.append(report.snapshot()["stride"]))
    assert result.converged
    assert strides == sorted(strides, reverse=True)
    assert strides[0] > 8
    assert strides.count(1) <= 6
    assert result.passes <= 8


@pytest.mark.parametrize("bias", ["regularized", "none", "free"])
def test_rows_in_the_order_of_their_labels_are_sampled_fairly(bias):
    X, y = tall()
    order = np.argsort(y, kind="stable")
    mixed, sorted_ = (train(X[rows], y[rows], bias=bias, tol=1e-9) for rows in (slice(None), order))
    assert mixed.converged
    assert sorted_.converged
    assert sorted_.passes <= mixed.passes + 3
    assert sorted_.certificate.primal == pytest.approx(mixed.certificate.primal, rel=2e-9)


def test_any_number_of_threads_gives_the_same_bits():
    X, y = tall(n=400_000)
    one, two = (train(X, y, tol=1e-6, threads=threads) for threads in (1, 2))
    assert one.converged
    assert (one.threads, two.threads) == (1, 2)
    assert one.coef.tobytes() == two.coef.tobytes()
    assert one.certificate == two.certificate


def test_a_state_starts_other_costs_and_other_rows():
    X, y = tall(n=4_000)
    first = train(X, y, C=1.0, tol=1e-9)
    for rows, cost in ((slice(None), 1.1), (slice(0, 3_900), 1.0)):
        cold = train(X[rows], y[rows], C=cost, tol=1e-9)
        warm = train(X[rows], y[rows], C=cost, tol=1e-9, warm_start=first)
        assert warm.converged
        assert warm.iterations < cold.iterations
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)


def test_a_state_of_other_features_is_refused():
    X, y = tall(n=500)
    with pytest.raises(solvers.InvalidOptions, match="not a state of newton on 5 features"):
        train(X[:, :5], y, warm_start=train(X, y).state)


def test_more_features_than_fit_are_refused_with_a_way_out():
    with pytest.raises(solvers.UnsupportedProblem, match=r"newton takes at most 4096 features.*has 5000"):
        solvers.check(n_rows=10, n_features=5000, n_classes=2, sparse=True, solver="newton", loss="squared_hinge")


def test_the_gap_that_it_tells_is_the_one_that_is_certified():
    X, y = tall(n=20_000)
    told = []
    result = train(X, y, tol=1e-9, callback=lambda report: told.append(report.relative_gap))
    assert result.converged
    for estimate in [gap for gap in told if gap is not None]:
        # A run that wants no more than this ends here, with a certificate that agrees.
        certified = train(X, y, tol=estimate * (1 + 1e-9)).certificate.relative_gap
        assert certified == pytest.approx(estimate, rel=1e-6)
