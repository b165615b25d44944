"""What is special to pcd: the transposed copy, what a step reads, and the moves that are combined."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.data.columns import transposed
from solvers.data.rows import as_rows
from solvers.methods.pcd import pcd
from tests.support.real_data import liblinear_objective, load

SQUARED = {"solver": "pcd", "loss": "squared_hinge"}


def table(n=300, d=20, density=0.4, seed=2):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density)
    return X, np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0, 1, 0)


def correlated(seed=3):
    """Columns that are nearly the same, where single coordinates can only creep."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((400, 1)) + 0.2 * random.standard_normal((400, 15))
    return X, np.where(X @ random.standard_normal(15) + 0.1 * random.standard_normal(400) > 0, 1, 0)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("storage", "density"), [(sp.csr_array, 0.4), (np.asarray, 0.4), (np.asarray, 0.9)])
def test_the_copy_is_the_signed_transpose(storage, density, dtype, constant):
    X, y = table(density=density)
    X = X.astype(dtype)
    multipliers = np.where(y == 1, 1.0, -1.0)
    multipliers[::7] = 0.0
    columns = transposed(as_rows(storage(X)), multipliers, constant=constant)
    assert columns.values.dtype == dtype
    n, d = X.shape
    rows = columns.rows
    has_row_numbers = rows.size > 0
    assert has_row_numbers == (density < 0.5)
    if not has_row_numbers:
        rows = np.tile(np.arange(n), d + constant)
    rebuilt = sp.csc_array((columns.values, rows, columns.starts), shape=(n, d + 1)).toarray()
    expected = multipliers[:, None] * np.column_stack([X, np.full(n, float(constant))])
    assert (rebuilt == expected).all()
    if has_row_numbers:
        assert columns.values.size == np.count_nonzero(expected)


def test_one_copy_is_made(monkeypatch):
    made = []

    def counting(data, multipliers, *, constant):
        made.append(transposed(data, multipliers, constant=constant))
        return made[-1]

    monkeypatch.setattr(pcd, "transposed", counting)
    X, y = table()
    result = solvers.train(X, y, tol=1e-9, **SQUARED)
    assert result.converged
    assert len(made) == 1
    assert not made[0].values.flags.writeable


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_a_step_reads_at_most_one_pass(storage):
    X, y = table(density=0.9)
    taken = []
    result = solvers.train(
        storage(X), y, C=100.0, tol=1e-9, callback=lambda report: taken.append(report.snapshot()), **SQUARED
    )
    read = [state["entries_read"] for state in taken]
    entries = np.count_nonzero(X) + len(y) if storage is sp.csr_array else X.size + len(y)
    # The last column of a step may be read again by its line search.
    assert max(np.diff(read)) <= entries + 20 * len(y)
    assert np.median(np.diff(read)) <= entries
    assert result.passes == read[-1] // entries
    assert result.passes >= 2 + result.state["sweeps"], "the copy takes two, each sweep at least one"


def test_slacks_stay_true_to_the_weights():
    X, y = correlated()
    result = solvers.train(X, y, C=10.0, tol=1e-10, **SQUARED)
    assert result.converged
    slack = 1.0 - np.where(y == 1, 1.0, -1.0) * (X @ result.coef + result.intercept)
    assert np.abs(result.state["b"] - slack).max() <= 1e-11


def test_empty_columns_are_skipped_and_get_no_weight():
    X, y = table()
    X[:, [0, 7]] = 0.0
    start = np.ones(X.shape[1])
    result = solvers.train(X, y, tol=1e-6, warm_start=start, **SQUARED)
    assert result.converged
    assert (result.coef[[0, 7]] == 0.0).all()
    assert not np.isin([0, 7], result.state["order"]).any()


def test_combined_moves_save_passes_and_never_raise_the_objective():
    X, y = correlated()
    primals = []
    arguments = {"C": 10.0, "tol": 1e-6, **SQUARED}
    combined = solvers.train(X, y, callback=lambda report: primals.append(report.primal), **arguments)
    plain = solvers.train(X, y, options={"combine": False}, **arguments)
    assert combined.converged
    assert plain.converged
    assert combined.passes < 0.5 * plain.passes
    for earlier, later in itertools.pairwise(primals):
        assert later <= earlier * (1 + 1e-12)


def test_columns_as_they_come_or_in_random_order_reach_the_same():
    X, y = table()
    in_order, shuffled, other_seed = (
        solvers.train(X, y, tol=1e-9, seed=seed, options={"shuffle": shuffle}, **SQUARED)
        for seed, shuffle in ((0, False), (0, True), (1, True))
    )
    assert (in_order.state["order"] == np.sort(in_order.state["order"])).all()
    assert shuffled.coef.tobytes() != other_seed.coef.tobytes()
    for result in (shuffled, other_seed):
        assert result.certificate.primal == pytest.approx(in_order.certificate.primal, rel=2e-9)


def test_values_that_cannot_be_squared_are_refused_by_column():
    X, y = table(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="column 2 "):
        solvers.train(X, y, **SQUARED)


def test_a9a_equals_liblinear(shared_data):
    X, signs = load(shared_data, "a9a")
    result = solvers.train(X, signs, tol=3e-6, **SQUARED)
    assert result.converged
    theirs = liblinear_objective(X, signs, "squared_hinge", solver=2, violation=1e-6)
    # The gap bounds the distance from the optimum generously; both are within 1e-6 of it.
    assert result.certificate.primal == pytest.approx(theirs, rel=1e-6)
