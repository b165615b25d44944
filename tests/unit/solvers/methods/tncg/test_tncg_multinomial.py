"""What is special to tncg_multinomial: sums over rows for all classes, the free gap, threads, starts, its strategy."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers


def noisy(n=600, d=15, k=4, seed=1, density=1.0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density)
    scores = X @ random.standard_normal((d, k)) + 1.5 * random.standard_normal((n, k))
    return X, np.argmax(scores, axis=1)


def train(X, y, **arguments):
    chosen = {"strategy": "multinomial", "loss": "logistic", "tol": 1e-5}
    return solvers.train(X, y, **{**chosen, **arguments})


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_threads_change_no_bit(storage):
    X, y = noisy(20_000, density=0.7)
    one, two = (train(storage(X), y, threads=count) for count in (1, 2))
    assert one.converged
    assert one.solver == "tncg_multinomial"
    assert (one.threads, two.threads) == (1, 2)
    assert one.coef.tobytes() == two.coef.tobytes()


def test_dense_and_sparse_rows_have_the_same_optimum():
    X, y = noisy(density=0.3)
    dense, sparse = (train(rows, y, tol=1e-9) for rows in (X, sp.csr_array(X)))
    assert dense.certificate.primal == pytest.approx(sparse.certificate.primal, rel=2e-9)


def test_two_classes_are_the_binary_problem_of_twice_the_difference():
    """With w_1 = -w_0 = v, P = |v|^2 + sum C log(1 + exp(-2 y v . x)): half of the binary one of w = 2 v and 2 C."""
    X, y = noisy(k=2)
    joint = train(X, y, task="multiclass", C=1.5, tol=1e-10)
    binary = solvers.train(X, y, loss="logistic", C=3.0, tol=1e-10)
    assert joint.certificate.primal == pytest.approx(0.5 * binary.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(joint.coef[1] - joint.coef[0], binary.coef, atol=1e-4)


def test_the_weights_of_the_classes_add_up_to_the_gradients():
    """The rows of A add up to 0, so sum_m w_m = sum_m g_m, whose length is at most sqrt(k) |G| with gap = 1/2 |G|^2."""
    X, y = noisy()
    result = train(X, y, tol=1e-10)
    total = np.append(result.coef.sum(axis=0), result.intercept.sum())
    assert np.linalg.norm(total) <= np.sqrt(2.0 * 4.0 * result.certificate.gap) * (1.0 + 1e-6)


def test_tall_data_starts_on_a_part_of_the_rows():
    X, y = noisy(60_000, d=6, k=3)
    strides = []
    result = train(X, y, callback=lambda report: strides.append(report.snapshot()["stride"]))
    assert result.converged
    assert strides[0] > 1
    assert strides[-1] == 1
    assert result.passes < train(X, y, options={"subsample": False}).passes


def test_weights_and_states_start_a_run():
    X, y = noisy()
    cold = train(X, y)
    for start in (cold, cold.state, (cold.coef, cold.intercept)):
        assert train(X, y, warm_start=start).passes < cold.passes
    with pytest.raises(solvers.InvalidOptions, match="not a state of tncg_multinomial on data with 14 features"):
        train(X[:, :-1], y, warm_start=cold.state, solver="tncg_multinomial")


def test_the_strategy_decides_the_loss_and_refuses_others():
    X, y = noisy(200)
    assert solvers.train(X, y, strategy="multinomial").loss == "logistic"
    named = solvers.train(X, y, solver="tncg_multinomial", loss="logistic")
    assert named.strategy == "multinomial"
    with pytest.raises(solvers.InvalidProblem, match="multinomial needs loss logistic, not hinge"):
        solvers.train(X, y, strategy="multinomial", loss="hinge")
    with pytest.raises(solvers.InvalidProblem, match="crammer_singer does not fit loss logistic"):
        solvers.train(X, y, strategy="crammer_singer", loss="logistic")


def test_values_that_cannot_be_squared_are_refused():
    X, y = noisy(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="too large to be squared"):
        train(X, y)
