"""What is special to svr_dual: its closed forms, its kink at zero, shrinking, LIBLINEAR's stopping rule, its state."""

import numpy as np
import pytest

import solvers

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")
C = 2.0


def problem(n=200, d=6, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, X @ random.standard_normal(d) + 0.5 * random.standard_normal(n) + 3.0


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "svr_dual", "task": "regression", "C": C, "tol": 1e-9, **arguments})


def test_wide_rows_with_real_labels_choose_it():
    X, y = problem(n=100, d=400)
    result = solvers.train(X, y, tol=1e-6)
    assert (result.solver, result.task, result.loss) == ("svr_dual", "regression", "epsilon_insensitive")
    assert result.converged
    assert np.abs(result.predict(X) - y).mean() < 0.5


def test_without_epsilon_the_squared_loss_is_ridge_regression():
    X, y = problem()
    weights = np.linspace(0.0, 2.0, y.size)
    result = train(X, y, loss="squared_epsilon_insensitive", epsilon=0.0, sample_weight=weights, bias_scale=2.0)
    H = np.column_stack([X, np.full(y.size, 2.0)])
    scaled = 2.0 * C * weights[:, None] * H
    w = np.linalg.solve(np.eye(7) + H.T @ scaled, scaled.T @ y)
    assert result.coef == pytest.approx(w[:-1], abs=1e-4)
    assert result.intercept == pytest.approx(2.0 * w[-1], abs=1e-4)


@pytest.mark.parametrize("target", [5.0, 0.35, 0.3, -0.35, -5.0])
@pytest.mark.parametrize("cost", [0.01, 100.0])
def test_one_row_is_solved_by_one_step(target, cost):
    x = np.array([[0.5, -1.0, 2.0]])
    result = train(x, [target], epsilon=0.3, C=cost, bias="none")
    pull = np.sign(target) * min(max(abs(target) - 0.3, 0.0) / 5.25, cost)
    assert result.coef == pytest.approx(pull * x[0], abs=1e-12)
    assert result.passes <= 2


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_within_epsilon_cost_nothing(loss):
    X, y = problem()
    result = train(X, y, loss=loss, epsilon=2.0 * np.abs(y).max())
    assert result.converged
    assert result.certificate.primal == 0.0
    assert not result.coef.any()


def test_an_empty_row_pulls_at_nothing_and_still_costs():
    X, y = np.array([[0.0], [1.0]]), np.array([4.0, 0.5])
    result = train(X, y, epsilon=0.5, bias="none")
    assert result.converged
    assert result.certificate.primal == pytest.approx(C * 3.5)


@pytest.mark.parametrize("loss", LOSSES)
def test_shrinking_reads_fewer_rows_on_the_way_to_the_same_optimum(loss):
    X, y = problem(n=2000)
    lazy, eager = (train(X, y, loss=loss, epsilon=0.8, tol=1e-6, options={"shrinking": on}) for on in (True, False))
    assert lazy.converged
    assert eager.converged
    assert lazy.certificate.primal == pytest.approx(eager.certificate.primal, rel=2e-6)
    rows_an_epoch = [result.state["rows_read"] / result.iterations for result in (lazy, eager)]
    assert rows_an_epoch[0] < 0.9 * rows_an_epoch[1]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_stopping_rule_of_liblinear_is_an_option(loss):
    X, y = problem()
    loose, strict = (train(X, y, loss=loss, tol=1e-15, options={"violation_tol": tol}) for tol in (0.5, 0.1))
    assert loose.status is solvers.Status.STOPPED
    assert strict.status is solvers.Status.STOPPED
    assert strict.certificate.gap < loose.certificate.gap


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_rows_that_repeat_do_not_make_descent_slow(loss, epsilon):
    random = np.random.default_rng(7)
    table = 0.1 * random.standard_normal((40, 8))
    table[20:] = table[:20] + 1e-3 * random.standard_normal((20, 8))
    y = random.standard_normal(40)
    arguments = {"loss": loss, "epsilon": epsilon, "C": 10.0, "bias_scale": 4.0}
    assert train(table, y, max_passes=5000, **arguments).converged
    for limit in (50, 51, 60, 70):
        assert train(table, y, **{**arguments, "tol": 1e-300}, max_passes=limit).passes <= limit


@pytest.mark.parametrize("loss", LOSSES)
def test_a_state_starts_other_costs(loss):
    X, y = problem()
    first = train(X, y, loss=loss)
    cold = train(X, y, loss=loss, C=1.1 * C)
    warm = train(X, y, loss=loss, C=1.1 * C, warm_start=first.state)
    assert warm.converged
    assert warm.iterations < cold.iterations
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)


def test_what_is_no_state_of_this_problem_is_refused():
    X, y = problem()
    state = train(X, y).state
    with pytest.raises(solvers.InvalidOptions, match="not a state of svr_dual on data with 190 rows x 6 features"):
        train(X[:190], y[:190], warm_start=state)
    state["alpha"][3] = np.nan
    with pytest.raises(solvers.InvalidOptions, match="NaN or infinite"):
        train(X, y, warm_start=state)


def test_rows_that_overflow_when_squared_are_refused():
    with pytest.raises(solvers.InvalidProblem, match=r"row 1 .*rescale X"):
        train(np.array([[1.0], [1e200]]), [1.5, 2.5])
