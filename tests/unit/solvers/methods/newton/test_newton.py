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


NAMES = {"squared_hinge": "newton", "hinge": "smooth_newton"}
both = pytest.mark.parametrize("loss", NAMES)


def train(X, y, loss="squared_hinge", **arguments):
    return solvers.train(X, y, **{"solver": NAMES[loss], "loss": loss, "tol": 1e-3, **arguments})


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("problem", [tall, with_rare_columns])
@both
def test_all_rows_are_read_a_handful_of_times(storage, problem, loss):
    X, y = problem()
    strides = []
    result = train(storage(X), y, loss, callback=lambda report: strides.append(report.snapshot()["stride"]))
    assert result.converged
    assert strides == sorted(strides, reverse=True)
    assert strides[0] > 8
    # Rare columns' kinks are found one after the other.
    most = 24 if problem is with_rare_columns and loss == "hinge" else 6
    assert strides.count(1) <= most
    assert result.passes <= most + 2


@pytest.mark.parametrize("bias", ["regularized", "none", "free"])
@both
def test_rows_in_the_order_of_their_labels_are_sampled_fairly(bias, loss):
    X, y = tall(n=30_000)
    order = np.argsort(y, kind="stable")
    mixed, sorted_ = (train(X[rows], y[rows], loss, bias=bias, tol=1e-7) for rows in (slice(None), order))
    assert mixed.converged
    assert sorted_.converged
    assert sorted_.passes <= 2 * mixed.passes
    assert sorted_.certificate.primal == pytest.approx(mixed.certificate.primal, rel=2e-7)


@both
def test_any_number_of_threads_gives_the_same_bits(loss):
    X, y = tall(n=200_000)
    one, two = (train(X, y, loss, tol=1e-5, threads=threads) for threads in (1, 2))
    assert one.converged
    assert (one.threads, two.threads) == (1, 2)
    assert one.coef.tobytes() == two.coef.tobytes()
    assert one.certificate == two.certificate


@both
def test_a_state_starts_other_costs_and_other_rows(loss):
    X, y = tall(n=4_000)
    first = train(X, y, loss, C=1.0, tol=1e-9)
    for rows, cost in ((slice(None), 1.1), (slice(0, 3_900), 1.0)):
        cold = train(X[rows], y[rows], loss, C=cost, tol=1e-9)
        warm = train(X[rows], y[rows], loss, C=cost, tol=1e-9, warm_start=first)
        assert warm.converged
        assert warm.iterations < 1.1 * cold.iterations if loss == "hinge" else warm.iterations < cold.iterations
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)


def test_a_state_of_other_features_is_refused():
    X, y = tall(n=500)
    with pytest.raises(solvers.InvalidOptions, match="not a state of newton on data with 5 features"):
        train(X[:, :5], y, warm_start=train(X, y).state)


def test_more_features_than_fit_are_refused_with_a_way_out():
    with pytest.raises(solvers.UnsupportedProblem, match=r"newton takes at most 4096 features.*has 5000"):
        solvers.check(n_rows=10, n_features=5000, n_classes=2, sparse=True, solver="newton", loss="squared_hinge")


@both
def test_the_gap_that_it_tells_is_the_one_that_is_certified(loss):
    X, y = tall(n=20_000)
    told = []
    result = train(X, y, loss, tol=1e-7, callback=lambda report: told.append((report.relative_gap, report.certified)))
    assert result.converged
    assert [certified for _, certified in told].count(True) == 1, "an estimate is never too bright"
    assert len([gap for gap, _ in told if gap is not None]) > 2


def test_hinge_with_a_large_c_and_rare_columns_is_certified():
    """Where a step knows nothing of rare columns' kinks, and 1/2 |w - u|^2 of any point but a good one is enormous."""
    X, y = with_rare_columns()
    result = train(X, y, "hinge", C=100.0, tol=1e-6)
    assert result.converged
    assert result.passes <= 100


def test_multipliers_keep_the_width_from_going_to_zero():
    X, y = tall(n=3_000)
    result = train(X, y, "hinge", tol=1e-10)
    assert result.converged
    assert result.state["h"] > 1e-5, "without multipliers the gap falls with its square: 1e-10 would need about 1e-6"


@pytest.mark.parametrize("seed", range(6))
def test_hinge_with_a_free_bias_and_a_rare_class_is_certified(seed):
    """Multipliers must balance: where two rows face many, a bound off by what is too much on one side proves little."""
    random = np.random.default_rng(seed)
    X, y = random.standard_normal((150, 4)), np.arange(150) < 2
    result = train(X, y, "hinge", bias="free", c_scale="mean", C=0.1, tol=1e-6)
    assert result.status == "converged"


@both
def test_a_large_constant_column_beside_a_free_bias_is_no_overflow(loss):
    """To rounding it is the bias: the matrix of both is not positive definite by the digits that are left."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.standard_normal((40, 5)), np.full(40, 1e6)])
    y = np.where(X[:, 0] + 0.5 * random.standard_normal(40) > 0, 1, -1)
    with_column = train(X, y, loss, bias="free", C=1e3, tol=1e-6)
    without = train(X[:, :5], y, loss, bias="free", C=1e3, tol=1e-6)
    assert with_column.status == without.status == "converged"
    assert with_column.certificate.primal == pytest.approx(without.certificate.primal, rel=2e-6)


def test_a_kink_that_narrows_slowly_is_not_taken_for_rounding():
    """The gap falls only every few steps here; it was called stalled at 1e-4."""
    x = [1.37865116, -0.12422456, -0.88018761, -0.10159617, 0.18081694, -0.70456677, -0.03399696, -0.46545142]
    x += [-2.03367495, -1.82941552, 1.18249312, 1.71982959, 0.18080508]
    y = np.array([1, -1, -1, 1, 1, 1, -1, 1, 1, 1, 1, 1, 1])
    rare = {-1: 0.5, 1: 2.0}
    result = solvers.train(
        np.array(x)[:, None], y, solver="smooth_newton", loss="hinge", C=0.3, bias="free", class_weight=rare, tol=1e-8
    )
    assert result.converged


def test_another_c_keeps_the_matrix_and_other_weights_do_not():
    X, y = tall(n=4_000)
    first = train(X, y, C=1.0, tol=1e-9)
    from_weights, from_state = (
        train(X, y, C=1.2, tol=1e-9, warm_start=start) for start in ((first.coef, first.intercept), first)
    )
    assert from_state.state["rows_read"] < from_weights.state["rows_read"]  # rows of the matrix count
    assert from_state.certificate.primal == pytest.approx(from_weights.certificate.primal, rel=2e-9)
    weight = np.where(np.arange(y.size) % 2 == 0, 1.0, 3.0)
    from_weights, from_state = (
        train(X, y, sample_weight=weight, C=1.0, tol=1e-9, warm_start=start)
        for start in ((first.coef, first.intercept), first)
    )
    assert from_state.iterations == from_weights.iterations
    np.testing.assert_array_equal(from_state.coef, from_weights.coef)
