"""What is special to tncg: what its sums over rows are, what it reads, its parts of rows and its least residuals."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.methods.tncg.newton_cg import STRIDE
from solvers.methods.tncg.row_sums import WORTH_PARTS, RowProducts
from tests.support.real_data import liblinear_objective, load

BOTH_LOSSES = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
BOTH_STORAGES = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])


def noisy(n=600, d=40, seed=1, density=1.0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density)
    return X, np.where(X @ random.standard_normal(d) + 3.0 * random.standard_normal(n) > 0, 1, 0)


def snapshots(X, y, **arguments):
    taken = []
    result = solvers.train(
        X, y, solver="tncg", callback=lambda report: taken.append((report, report.snapshot())), **arguments
    )
    return result, [state for _, state in taken], [report for report, _ in taken]


def products_of(X, y, monkeypatch):
    """The RowProducts of a real problem."""
    made = []
    original = RowProducts.__init__

    def spying(self, problem, vectors=1):
        original(self, problem, vectors)
        made.append(self)

    monkeypatch.setattr(RowProducts, "__init__", spying)
    solvers.train(X, y, solver="tncg", max_passes=1, bias_scale=2.0)
    return made[0]


@BOTH_STORAGES
@pytest.mark.parametrize("rows", [300, 12_000])
def test_sums_over_rows_are_those_of_numpy(storage, rows, monkeypatch):
    X, y = noisy(rows, density=0.5)
    assert (X.size >= WORTH_PARTS) == (rows > 300), "one with parts and one without"
    products = products_of(storage(X), y, monkeypatch)
    random = np.random.default_rng(0)
    H = np.column_stack([X, np.full(rows, 2.0)])
    weights, v = random.standard_normal(rows), random.standard_normal(H.shape[1])
    chosen = np.flatnonzero(random.random(rows) < 0.4)
    B, b = H[chosen], weights[chosen]
    for threads in (1, 2):
        scores, total, squares, product = np.zeros(rows), np.ones(v.size), np.zeros(v.size), np.zeros(v.size)
        with products.threads(threads):
            products.scores(v, chosen, scores)
            products.sums(weights, 3.0 * weights, chosen, total, squares)
            products.product(weights, 3.0, chosen, v, product)
        np.testing.assert_allclose(scores[chosen], B @ v, rtol=1e-11, atol=1e-11)
        assert not np.delete(scores, chosen).any()
        np.testing.assert_allclose(total, 1.0 + b @ B, rtol=1e-11, atol=1e-10)
        np.testing.assert_allclose(squares, 3.0 * b @ (B * B), rtol=1e-11, atol=1e-10)
        np.testing.assert_allclose(product, 3.0 * (b * (B @ v)) @ B, rtol=1e-11, atol=1e-9)


@BOTH_LOSSES
@BOTH_STORAGES
def test_threads_change_no_bit(loss, storage):
    X, y = noisy(12_000, density=0.5)
    one, two = (solvers.train(storage(X), y, solver="tncg", loss=loss, tol=1e-5, threads=count) for count in (1, 2))
    assert one.converged
    assert (one.threads, two.threads) == (1, 2)
    assert one.coef.tobytes() == two.coef.tobytes()


@BOTH_LOSSES
def test_products_read_the_free_rows_only(loss):
    _, states, _ = snapshots(*noisy(), loss=loss, tol=1e-8)
    checked = 0
    for before, after in itertools.pairwise(states):
        products = after["cg.products"] - before["cg.products"]
        if products > 0 and after["newton_steps"] == before["newton_steps"]:
            assert after["rows_read"] - before["rows_read"] == products * before["free"].size
            checked += before["free"].size < 600
    assert checked > 0


@BOTH_LOSSES
def test_tall_data_starts_on_a_part_of_the_rows_and_claims_nothing_there(loss):
    X, y = noisy(60_000, d=8)
    result, states, reports = snapshots(X, y, loss=loss, tol=1e-4)
    strides = [state["stride"] for state in states]
    assert strides[0] > 1
    assert strides == sorted(strides, reverse=True)
    assert strides[-1] == 1
    assert all(report.primal is None for report, stride in zip(reports, strides, strict=True) if stride > 1)
    assert result.converged
    whole = solvers.train(X, y, solver="tncg", loss=loss, tol=1e-4, options={"subsample": False})
    assert result.passes < whole.passes


def test_a_part_of_rows_that_all_weigh_nothing_is_left():
    X, y = noisy(60_000, d=8)
    weights = np.ones(y.size)
    weights[::STRIDE] = 0.0
    assert solvers.train(X, y, solver="tncg", sample_weight=weights, tol=1e-4).converged


def test_centres_spare_hinge_an_ever_sharper_kink():
    result, states, _ = snapshots(*noisy(), loss="hinge", tol=1e-10)
    assert result.converged
    assert states[-1]["centres"].any()
    assert states[-1]["sharpness"] <= 1e5
    assert len({state["sharpness"] for state in states}) > 2


def test_the_last_step_is_the_one_with_the_least_residual():
    random = np.random.default_rng(0)
    X = sp.random_array((3000, 2000), density=0.01, format="csr", rng=random)
    y = np.where(random.random(3000) < 0.5, 1, 0)
    result, states, _ = snapshots(X, y, loss="squared_hinge", C=100.0, tol=1e-4)
    assert result.converged
    least = [state for state in states if state["cg.is_least"]]
    assert least
    for state in least:
        assert np.linalg.norm(state["cg.best_r"]) <= np.linalg.norm(state["cg.r"]) * (1 + 1e-9)


def test_a_state_starts_other_rows_and_refuses_other_columns():
    X, y = noisy()
    first = solvers.train(X, y, solver="tncg", tol=1e-4)
    more = solvers.train(np.vstack([X, X[:50]]), np.append(y, y[:50]), solver="tncg", tol=1e-4, warm_start=first)
    assert more.converged
    with pytest.raises(solvers.InvalidOptions, match="warm_start"):
        solvers.train(X[:, :-1], y, solver="tncg", warm_start=first.state)


def test_values_that_cannot_be_squared_are_refused():
    X, y = noisy(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="too large to be squared"):
        solvers.train(X, y, solver="tncg")


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a9a_equals_liblinear(shared_data, C):
    X, signs = load(shared_data, "a9a")
    result = solvers.train(X, signs, solver="tncg", loss="squared_hinge", C=C, tol=1e-8)
    assert result.converged
    theirs = liblinear_objective(X, signs, "squared_hinge", solver=2, C=C, violation=1e-6)
    assert result.certificate.primal == pytest.approx(theirs, rel=1e-6)
