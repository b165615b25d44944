"""What is special to pegasos: it takes the printed steps, draws rows by their cost, and says when it gains no more."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.methods.pegasos import _draw_row

C = 30.0


def problem(n=200, d=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    y = np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0, 1, -1)
    return X, y, random.choice([0.0, 0.5, 1.0, 3.0], size=n)


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "pegasos", "C": C, "c_scale": "mean", "tol": 1e-300, **arguments})


def drawn(seed, costs, count):
    cumulated = np.empty(0) if (costs == costs[0]).all() else np.cumsum(costs)
    random_state = np.array([seed], dtype=np.uint64)
    return [_draw_row(random_state, cumulated, costs.size) for _ in range(count)]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_drawn_in_proportion_to_their_cost(weighted):
    costs = np.array([1.0, 0.0, 3.0, 0.5, 0.0]) if weighted else np.ones(5)
    count = 40_000
    shares = np.bincount(drawn(3, costs, count), minlength=5) / count
    expected = costs / costs.sum()
    assert (shares[costs == 0.0] == 0.0).all()
    assert np.abs(shares - expected).max() <= 5.0 * np.sqrt(0.25 / count)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_it_takes_the_printed_steps(storage, weighted, projection, average, batch_size):
    X, y, weights = problem()
    weights = weights if weighted else np.ones(y.size)
    options = {"batch_size": batch_size, "projection": projection, "average": average}
    # A read for the lengths, one for P at the start, and a pass of steps.
    result = train(storage(X), y, seed=5, sample_weight=weights, bias_scale=2.0, max_passes=3, options=options)
    assert result.passes == 3

    costs = C * weights / weights.sum()
    H = np.column_stack([X, np.full(y.size, 2.0)])
    total = costs.sum()
    steps = -(-y.size // batch_size)
    rows = np.array(drawn(5, costs, steps * batch_size)).reshape(steps, batch_size)
    w, summed, projected = np.zeros(H.shape[1]), np.zeros(H.shape[1]), 0
    for t, batch in enumerate(rows, start=1):
        violators = [i for i in batch if y[i] * (H[i] @ w) < 1.0]
        w = (1.0 - 1.0 / t) * w + total / (t * batch_size) * sum((y[i] * H[i] for i in violators), np.zeros_like(w))
        if projection and w @ w > total:
            w, projected = w * np.sqrt(total / (w @ w)), projected + 1
        summed += w
    assert projected > 0 or not projection
    state = result.state
    present = state["shrink"] / state["t"] * state["u"]
    assert present == pytest.approx(w, rel=1e-9, abs=1e-11)
    assert state["averaged"] == (steps if average else 0)
    if average:
        assert state["share"] * state["u"] + state["rest"] == pytest.approx(summed, rel=1e-9, abs=1e-9)


def test_the_answer_is_never_worse_than_the_start():
    X, y, _ = problem()
    optimum = solvers.train(X, y, solver="dcd", C=C, c_scale="mean", tol=1e-9)
    result = train(X, y, warm_start=(optimum.coef, optimum.intercept), max_passes=30)
    assert result.certificate.primal <= optimum.certificate.primal * (1.0 + 1e-12)


def test_a_run_that_gains_no_more_is_stalled_and_close():
    X, y, _ = problem()
    optimum = solvers.train(X, y, solver="dcd", C=C, c_scale="mean", tol=1e-9).certificate.primal
    result = train(X, y)
    assert result.status is solvers.Status.STALLED
    assert 0.0 <= result.certificate.primal / optimum - 1.0 <= 1e-3
    assert result.certificate.dual_bound <= optimum * (1.0 + 1e-9)


def test_a_large_cost_is_no_reason_to_stop_before_the_first_gain():
    X, y, _ = problem()
    result = train(X, y, c_scale="sum", C=50.0, tol=0.1)
    assert result.certificate.primal < 50.0 * y.size
    assert result.converged


def test_a_state_starts_another_problem_from_its_best_point():
    X, y, _ = problem()
    first = train(X, y, tol=1e-2)
    other = train(X, y, C=2.0 * C, warm_start=first, max_passes=40)
    honest = train(X, y, C=2.0 * C, warm_start=(first.coef, first.intercept), max_passes=3)
    assert other.certificate.primal <= honest.certificate.primal * (1.0 + 1e-12)
    with pytest.raises(solvers.InvalidOptions, match="not a state of pegasos on data with 4 features"):
        train(X[:, :4], y, warm_start=first.state)


def test_values_that_cannot_be_squared_are_refused():
    X, y, _ = problem(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="too large to be squared"):
        train(X, y)
