"""What is special to lsvm: it is the paper's iteration, weighted as derived, and extrapolation only speeds it up."""

import numpy as np
import pytest

import solvers

C = 2.0


def problem(n=200, d=6, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    y = np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0, 1, -1)
    return X, y, random.choice([0.0, 0.5, 1.0, 3.0], size=n)


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "lsvm", "loss": "squared_hinge", "C": C, "tol": 1e-9, **arguments})


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.9])
def test_without_extrapolation_it_is_the_printed_iteration(alpha):
    X, y, weights = problem()
    points = []

    def note(report):
        points.append(report.snapshot()["evaluated"])

    train(X, y, sample_weight=weights, tol=1e-8, callback=note, options={"extrapolate": False, "alpha": alpha})

    counted = weights > 0.0
    W = 2.0 * C * weights[counted]
    H = (y[:, None] * np.column_stack([X, np.ones(len(y))]))[counted]
    Q = np.diag(1.0 / W) + H @ H.T
    e = np.ones(W.size)
    u = np.linalg.solve(Q, e)
    for z in points[2:10]:  # before: the matrix, and the start at zero
        assert z == pytest.approx(H.T @ u, rel=1e-8, abs=1e-10)
        u = np.linalg.solve(Q, np.maximum((Q @ u - e) - alpha / W * u, 0.0) + e)
    assert len(points) >= 10


def test_extrapolation_ends_at_the_same_optimum_in_fewer_iterations():
    X, y, weights = problem(n=60, d=20)
    fast = train(X, y, sample_weight=weights)
    plain = train(X, y, sample_weight=weights, options={"extrapolate": False})
    assert fast.converged
    assert plain.converged
    assert fast.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-9)
    assert fast.iterations < 0.5 * plain.iterations


@pytest.mark.parametrize("extrapolate", [True, False])
def test_a_state_starts_other_costs_and_other_rows(extrapolate):
    X, y, _ = problem()
    options = {"extrapolate": extrapolate}
    first = train(X, y, options=options)
    for rows, cost in ((slice(None), 1.1 * C), (slice(0, 190), C)):
        cold = train(X[rows], y[rows], C=cost, options=options)
        warm = train(X[rows], y[rows], C=cost, options=options, warm_start=first)
        assert warm.converged
        assert warm.iterations < cold.iterations
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)


def test_more_features_than_fit_are_refused_with_a_way_out():
    with pytest.raises(solvers.UnsupportedProblem, match=r"lsvm takes at most 4096 features.*has 5000.*dcd"):
        solvers.check(n_rows=10, n_features=5000, n_classes=2, sparse=True, solver="lsvm", loss="squared_hinge")


@pytest.mark.parametrize("alpha", [0.0, 2.0, -1.0])
def test_an_alpha_for_which_it_does_not_converge_is_refused(alpha):
    X, y, _ = problem()
    with pytest.raises(solvers.InvalidOptions, match=r"options\.alpha"):
        train(X, y, options={"extrapolate": False, "alpha": alpha})


def test_a_state_of_other_features_is_refused():
    X, y, _ = problem()
    with pytest.raises(solvers.InvalidOptions, match="not a state of lsvm on data with 5 features"):
        train(X[:, :5], y, warm_start=train(X, y).state)
