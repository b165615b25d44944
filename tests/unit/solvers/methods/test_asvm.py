"""What is special to asvm: its safeguards, its matrix, its own stopping rule; and the data of its large runs."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from benchmarks.data import Clusters, ndc
from solvers.data.rows import as_rows
from tests.support.solver_reference import Dense, reference_interval

C = 10.0


def stuck_problem(seed):
    """Overlapping classes and a large C. About one such problem in ten gets the plain loop stuck."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(10, 30)), int(random.integers(3, 9))
    X = 3.0 * random.standard_normal((n, d))
    y = np.where(X @ random.standard_normal(d) + 5.0 * random.standard_normal(n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def tall_problem(n=3000, d=12, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0, 1, -1)


def train(X, y, **arguments):
    return solvers.train(X, y, **{"solver": "asvm", "loss": "squared_hinge", "C": C, "tol": 1e-12, **arguments})


def augmented(X, y):
    return y[:, None] * np.column_stack([X, np.ones(len(y))])


def optimum(X, y):
    dense = Dense(X=X, signs=y.astype(float), costs=np.full(len(y), C), p=2.0, bias="regularized", bias_scale=1.0)
    return reference_interval(dense)


def plain_loop(X, y):
    """Steps 0 to 3 of the paper as printed, with the matrices written out; the u at which B stops shrinking."""
    H = augmented(X, y)
    Q = np.eye(len(y)) / (2.0 * C) + H @ H.T
    u = np.maximum(np.linalg.solve(Q, np.ones(len(y))), 0.0)
    while True:
        basis = np.flatnonzero(u)
        solution = np.linalg.solve(Q[np.ix_(basis, basis)], np.ones(basis.size))
        u = np.zeros(len(y))
        u[basis] = np.maximum(solution, 0.0)
        if (solution > 0.0).all():
            return u, Q @ u - 1.0


@pytest.mark.parametrize("seed", [4, 21])
def test_where_the_plain_loop_ends_short_of_the_optimum_the_safeguards_reach_it(seed):
    X, y = stuck_problem(seed)
    _, gradient = plain_loop(X, y)
    assert gradient.min() < -0.01, "the plain loop solves this one, so it shows nothing"
    result = train(X, y)
    assert result.converged
    assert result.state["returns"] > 0
    assert result.state["face_moves"] > 0
    assert result.state["gradient_steps"] > 0
    interval = optimum(X, y)
    assert result.certificate.primal == pytest.approx(interval.high, rel=1e-7)


def test_safeguards_in_every_step_never_lower_the_bound_and_end_at_the_optimum():
    X, y = stuck_problem(4)
    reports = []
    result = train(X, y, options={"safeguards": "every_step"}, callback=reports.append)
    bounds = [report.dual_bound for report in reports if report.dual_bound is not None]
    assert result.state["face_moves"] > 0
    assert result.state["returns"] == 0
    assert all(later >= earlier - 1e-12 * abs(earlier) for earlier, later in itertools.pairwise(bounds))
    assert result.converged
    assert result.certificate.primal == pytest.approx(train(X, y).certificate.primal, rel=1e-11)


def test_a_run_without_trouble_needs_no_safeguard():
    result = train(*tall_problem())
    assert result.converged
    assert result.state["returns"] == result.state["face_moves"] == 0
    assert result.iterations <= 10


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_the_matrix_after_up_and_downdates_is_the_one_summed_up_from_the_basis(storage):
    X, y = stuck_problem(21)
    H = augmented(X, y)
    read, basis_sizes = [], []

    def compare(report):
        state = report.snapshot()
        rows = H[state["summed"]]
        expected = 2.0 * C * rows.T @ rows
        assert np.abs(np.triu(state["gram"] - expected)).max() <= 1e-13 * max(1.0, state["peak"])
        read.append(state["rows_read"])
        basis_sizes.append(int(state["summed"].sum()))

    train(sp.csr_array(X) if storage == "csr" else X, y, callback=compare)
    sizes_after, reads = np.array(basis_sizes[1:]), np.diff(read)
    assert ((reads > 0) & (reads < sizes_after)).any(), "no matrix was brought up to date by the changed rows alone"


def test_a_matrix_too_coarse_to_be_downdated_is_summed_up_anew():
    """Beside entries this large the identity would drown in what subtraction leaves behind."""
    X, y = tall_problem(n=300)
    read = []
    result = train(X, y, C=1e10, tol=1e-6, callback=lambda report: read.append(report.snapshot()["rows_read"]))
    assert result.converged
    matrices = [rows for rows in np.diff(read) if rows < 300]
    assert min(matrices) > 30, "a matrix was made from the few changed rows"


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (119, 11), (120, 12), (121, 13), (500, 40)])
def test_gram_of_weighted_rows(storage, dtype, n, d):
    random = np.random.default_rng(n)
    X = (random.standard_normal((n, d)) * (random.random((n, d)) < 0.5)).astype(dtype)
    v = random.standard_normal(n) * (random.random(n) < 0.7)
    h = np.column_stack([X.astype(np.float64), np.full(n, 2.5)])
    out = np.ones((d + 1, d + 1))
    as_rows(sp.csr_array(X) if storage == "csr" else X).add_gram(v, 2.5, out)
    assert np.triu(out) == pytest.approx(np.triu(1.0 + h.T @ (v[:, None] * h)), rel=1e-12, abs=1e-12)


def test_the_papers_stopping_rule_is_measured_as_printed():
    X, y = tall_problem()
    H = augmented(X, y)
    result = train(X, y, tol=1e-300, options={"residual_tol": 0.1})
    assert result.status is solvers.Status.STOPPED
    u = result.state["iterate.alpha"]
    gradient = u / (2.0 * C) + H @ (H.T @ u) - 1.0
    assert np.linalg.norm(u - np.maximum(u - gradient, 0.0)) < 0.1
    assert np.append(result.coef, result.intercept) == pytest.approx(H.T @ u, rel=1e-9, abs=1e-9)
    loose = train(X, y, tol=1e-300, options={"residual_tol": 1e4})
    assert loose.iterations < result.iterations


def test_more_features_than_fit_are_refused_with_a_way_out():
    with pytest.raises(solvers.UnsupportedProblem, match=r"asvm takes at most 4096 features.*has 4097.*dcd") as caught:
        solvers.check(
            n_rows=10, n_features=4097, n_classes=2, sparse=True, solver="asvm", loss="squared_hinge"
        )  # fmt: skip
    assert caught.value.argument == "solver"
    solvers.check(n_rows=10, n_features=4096, n_classes=2, sparse=True, solver="asvm", loss="squared_hinge")


def test_a_state_of_another_problem_gives_its_weights_only():
    X, y = tall_problem(n=400)
    weights = np.where(np.arange(400) % 4 == 0, 3.0, 1.0)
    state = train(X, y, sample_weight=weights).state
    shifted = np.roll(weights, 1)  # the same total: nothing but the places changed
    warm, cold = train(X, y, sample_weight=shifted, warm_start=state), train(X, y, sample_weight=shifted)
    assert warm.converged
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-11)
    assert warm.iterations < cold.iterations


@pytest.mark.parametrize("spoilt", [{"gram": np.zeros((2, 2))}, {"iterate.z": np.full(13, np.nan)}])
def test_a_state_that_cannot_be_one_is_refused(spoilt):
    X, y = tall_problem(n=100)
    with pytest.raises(solvers.InvalidOptions, match="warm_start"):
        train(X, y, warm_start={**train(X, y).state, **spoilt})


def test_clusters_are_what_ndc_draws_from():
    X, y = ndc(70_000, 5, n_clusters=4, spread=0.1, seed=3)
    clusters = Clusters.drawn(5, n_clusters=4, spread=0.1, seed=3)
    nearest = ((X[:, None, :] - clusters.centers) ** 2).sum(axis=2).argmin(axis=1)
    assert (clusters.classes[nearest] == y).mean() > 0.99
    shares = np.bincount(nearest, minlength=4) / len(y)
    assert shares == pytest.approx(clusters.shares, abs=0.02)
    widths = np.array([X[nearest == k].std(axis=0) for k in range(4)])
    assert widths == pytest.approx(clusters.widths, rel=0.1)
    assert set(np.unique(y)) == {-1, 1}


def test_ndc_repeats_itself_continues_and_has_parts():
    X, y = ndc(70_000, 3)
    again, _ = ndc(66_000, 3)
    assert (X[:66_000] == again).all()
    other, labels = ndc(100, 3, part=1)
    assert (other != X[:100]).all()
    small, _ = ndc(100, 3, dtype=np.float32)
    assert small.dtype == np.float32
    assert X.flags.c_contiguous
    # A model of one part is right about the other.
    model = train(X, y, C=0.005, tol=1e-6)
    assert (model.predict(other) == labels).mean() > 0.6
