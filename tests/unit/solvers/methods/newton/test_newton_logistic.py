"""What is special to newton_logistic: samples first, a kept matrix, few reads of all rows, bits by any threads."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers


def tall(n=60_000, d=12, seed=0, noise=1.0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X @ random.standard_normal(d) + noise * random.standard_normal(n) > 0, 1, -1)


def with_rare_columns(n=40_000, seed=3):
    """Two columns of numbers and thirty of a category, most of whose values are rare: samples do not have them all."""
    random = np.random.default_rng(seed)
    kind = np.minimum(random.geometric(0.3, n) - 1, 29)
    X = np.column_stack([random.standard_normal((n, 2)), np.eye(30)[kind]])
    return X, np.where(X @ random.standard_normal(32) + random.standard_normal(n) > 0, 1, -1)


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "newton_logistic", "loss": "logistic", "tol": 1e-3, **arguments})


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("problem", [tall, with_rare_columns])
def test_all_rows_are_read_a_few_times(storage, problem):
    X, y = problem()
    strides = []
    result = train(storage(X), y, callback=lambda report: strides.append(report.snapshot()["stride"]))
    assert result.converged
    assert strides == sorted(strides, reverse=True)
    assert strides[0] > 8
    assert strides.count(1) <= 8
    assert result.passes <= 10


@pytest.mark.parametrize("bias", ["regularized", "none", "free"])
def test_rows_in_the_order_of_their_labels_are_sampled_fairly(bias):
    X, y = tall(n=30_000)
    order = np.argsort(y, kind="stable")
    mixed, in_order = (train(X[rows], y[rows], bias=bias, tol=1e-7) for rows in (slice(None), order))
    assert mixed.converged
    assert in_order.converged
    assert in_order.passes <= 2 * mixed.passes
    assert in_order.certificate.primal == pytest.approx(mixed.certificate.primal, rel=2e-7)


def test_any_number_of_threads_gives_the_same_bits():
    X, y = tall(n=200_000)
    one, two = (train(X, y, tol=1e-5, threads=threads) for threads in (1, 2))
    assert one.converged
    assert (one.threads, two.threads) == (1, 2)
    assert one.coef.tobytes() == two.coef.tobytes()
    assert one.certificate == two.certificate


def test_the_matrix_of_a_sample_serves_several_steps_on_all_rows():
    X, y = tall()
    kept = []

    def look(report):
        state = report.snapshot()
        if state["stride"] == 1:
            kept.append((state["gram_stride"], state["pairs"]))

    assert train(X, y, tol=1e-6, callback=look).converged
    assert any(stride > 1 for stride, _ in kept)
    assert max(pairs for _, pairs in kept) > 0, "steps correct it"


def test_a_state_starts_other_costs_and_other_rows():
    X, y = tall(n=4_000)
    first = train(X, y, C=1.0, tol=1e-9)
    for rows, cost in ((slice(None), 1.1), (slice(0, 3_900), 1.0)):
        cold = train(X[rows], y[rows], C=cost, tol=1e-9)
        warm = train(X[rows], y[rows], C=cost, tol=1e-9, warm_start=first)
        assert warm.converged
        assert warm.iterations <= cold.iterations
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)


def test_a_state_of_other_features_is_refused():
    X, y = tall(n=500)
    with pytest.raises(solvers.InvalidOptions, match="not a state of newton_logistic on data with 5 features"):
        train(X[:, :5], y, warm_start=train(X, y).state)


def test_data_that_can_be_separated_is_solved_for_a_large_cost():
    random = np.random.default_rng(2)
    X = random.standard_normal((3_000, 20))
    y = np.where(X @ random.standard_normal(20) > 0, 1, -1)
    assert train(X, y, C=1e4, tol=1e-6).converged


def test_too_many_features_are_refused():
    with pytest.raises(solvers.UnsupportedProblem, match="at most 4096 features"):
        train(sp.random_array((10, 5000), density=0.01, format="csr"), np.tile([1, -1], 5))


@pytest.mark.parametrize("bias", ["regularized", "none", "free"])
def test_the_tangent_proves_a_gap_before_the_gradient_is_that_small(bias):
    """After Newton's own step the gap of the slopes' dual point is 1/2 |gradient|^2; the tangent's is far below it."""
    X, y = with_rare_columns()
    last = {}
    result = train(X, y, C=100.0, bias=bias, callback=lambda report: last.update(report.snapshot()))
    assert result.converged
    assert last["is_tangent"]
    gradient = (last["w"] - last["u"])[: None if bias != "free" else -1]
    assert 0.5 * gradient @ gradient > 3.0 * result.certificate.gap


def test_many_features_are_solved_for_by_conjugate_gradients():
    random = np.random.default_rng(4)
    X = random.standard_normal((4_000, 900)) * np.geomspace(0.02, 1.0, 900)
    y = np.where(X @ random.standard_normal(900) + 2.0 * random.standard_normal(4_000) > 0, 1, -1)
    reads = []
    result = train(X, y, tol=1e-6, callback=lambda report: reads.append(report.snapshot()["solve_reads"]))
    assert result.converged
    assert len(set(reads)) > 1, "no system was solved"
