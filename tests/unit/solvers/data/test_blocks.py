"""Rows in blocks: every pass gives what one table gives, and cutting planes train on memory-mapped parts."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.data.blocks import RowBlocks
from solvers.data.rows import as_rows
from solvers.engine.registry import registered

CUTTING_PLANES = [
    ("cpa", "hinge", "binary"),
    ("bmrm", "hinge", "binary"),
    ("bmrm", "squared_hinge", "binary"),
    ("oca_e", "hinge", "binary"),
    ("oca_t", "hinge", "binary"),
    ("oca_e", "hinge", "multiclass"),
    ("oca_t", "hinge", "multiclass"),
]


def table(n=300, d=9, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < 0.6)
    signal = X @ random.standard_normal(d) + random.standard_normal(n)
    return X, signal


def blocks(X, storage):
    parts = [X[:100], X[100:101], X[101:]]
    if storage == "csr":
        parts = [sp.csr_array(part) for part in parts]
    elif storage == "mixed":
        parts[1] = sp.csr_array(parts[1])
        parts[2] = parts[2].astype(np.float64)
    return RowBlocks(parts)


@pytest.mark.parametrize("storage", ["dense", "csr", "mixed"])
def test_every_pass_gives_what_one_table_gives(storage):
    X, _ = table()
    random = np.random.default_rng(1)
    n, d = X.shape
    whole, parts = as_rows(X), as_rows(blocks(X, storage))
    assert (parts.n_rows, parts.n_features) == (n, d)
    assert parts.squared_norms() == pytest.approx(whole.squared_norms())
    w, v = random.standard_normal(d), random.standard_normal(n) * (random.random(n) < 0.5)
    outs = np.empty(n), np.empty(n)
    whole.margins(w, outs[0])
    parts.margins(w, outs[1])
    assert outs[1] == pytest.approx(outs[0], abs=1e-13)
    assert outs[0] == pytest.approx(X @ w, abs=1e-13)
    sums = np.empty(d), np.empty(d)
    whole.weighted_column_sums(v, sums[0])
    parts.weighted_column_sums(v, sums[1])
    assert sums[1] == pytest.approx(sums[0], abs=1e-12)
    for rows in (whole, parts):
        margins, more = np.empty(n), np.ones(d)
        rows.margins_and_column_sums(w, v, margins, more)
        assert margins == pytest.approx(outs[0], abs=1e-13)
        assert more == pytest.approx(1.0 + sums[0], abs=1e-12)
    grams = np.zeros((d + 1, d + 1)), np.zeros((d + 1, d + 1))
    whole.add_gram(np.abs(v), 2.0, grams[0])
    parts.add_gram(np.abs(v), 2.0, grams[1])
    assert np.triu(grams[1]) == pytest.approx(np.triu(grams[0]), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (4, 5), (7, 1), (9, 33), (64, 17)])
def test_both_products_of_one_read_are_those_of_two(make, dtype, n, d):
    X = table(n, d)[0].astype(dtype)
    X[0] = 0.0
    random = np.random.default_rng(2)
    w, v = random.standard_normal(d), random.standard_normal(n) * (random.random(n) < 0.5)
    rows, margins, sums = as_rows(make(X)), np.full(n, np.nan), np.ones(d)
    rows.margins_and_column_sums(w, v, margins, sums)
    exact = X.astype(np.float64)
    assert margins == pytest.approx(exact @ w, abs=1e-13)
    assert sums == pytest.approx(1.0 + exact.T @ v, abs=1e-13)
    rows.margins(w, margins)
    assert margins == pytest.approx(exact @ w, abs=1e-13)
    rows.weighted_column_sums(v, sums)
    assert sums == pytest.approx(exact.T @ v, abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_that_are_taken_are_copies_in_the_order_asked_for(make, dtype):
    X = table()[0].astype(dtype)
    X[3] = 0.0
    rows = np.array([7, 3, 3, X.shape[0] - 1, 0])
    taken = as_rows(make(X)).taken(rows)
    values, columns, starts = taken.flat()
    assert (taken.n_rows, taken.n_features, values.dtype) == (5, X.shape[1], dtype)
    got = sp.csr_array((values, columns, starts), shape=(5, X.shape[1])).toarray() if starts.size else taken.values
    np.testing.assert_array_equal(got, X[rows])
    assert not np.shares_memory(values, as_rows(make(X)).flat()[0])


@pytest.mark.parametrize("storage", ["dense", "csr", "mixed"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [2, 3, 4, 7, 9])
def test_the_products_with_classes_are_those_of_numpy(storage, dtype, k):
    X, _ = table()
    X = X.astype(dtype)
    random = np.random.default_rng(k)
    n, d = X.shape
    H = np.hstack([X.astype(np.float64), np.full((n, 1), 0.5)])
    W, v = random.standard_normal((k, d + 1)), random.standard_normal(n) * (random.random(n) < 0.7)
    plus, minus = (random.integers(0, k, n).astype(np.uint8) for _ in range(2))
    expected = np.ones((k, d + 1))
    np.add.at(expected, plus, v[:, None] * H)
    np.subtract.at(expected, minus, v[:, None] * H)
    for rows in (as_rows(X if storage != "csr" else sp.csr_array(X)), blocks(X, storage)):
        scores, sums = np.full((n, k), np.nan), np.ones((k, d + 1))
        rows.class_scores(W, 0.5, scores)
        assert scores == pytest.approx(H @ W.T, abs=1e-12)
        rows.add_pair_sums(v, plus, minus, 0.5, sums)
        assert sums == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("solver", "loss", "task"), CUTTING_PLANES)
def test_memory_mapped_parts_give_the_certified_answer_of_the_whole(solver, loss, task, tmp_path):
    X, signal = table()
    y = np.digitize(signal, [0.0] if task == "binary" else [-1.0, 0.5])
    paths = []
    for number, part in enumerate(np.array_split(X, 4)):
        paths.append(tmp_path / f"{number}.npy")
        np.save(paths[-1], part)
    mapped = RowBlocks([np.load(path, mmap_mode="r") for path in paths])
    arguments = {"solver": solver, "loss": loss, "strategy": "crammer_singer", "tol": 1e-7}
    whole, parts = solvers.train(X, y, **arguments), solvers.train(mapped, y, **arguments)
    assert whole.converged
    assert parts.converged
    assert parts.certificate.primal == pytest.approx(whole.certificate.primal, rel=2e-7)
    assert (
        np.abs(parts.coef - whole.coef).max()
        <= 2.0 * np.sqrt(2.0 * (whole.certificate.gap + parts.certificate.gap)) + 1e-9
    )


def test_the_methods_tested_here_are_among_those_that_read_in_passes():
    assert {name for name, *_ in CUTTING_PLANES} <= {name for name, m in registered().items() if m.reads_in_passes}


@pytest.mark.parametrize("solver", [name for name, method in registered().items() if not method.reads_in_passes])
def test_methods_that_need_the_rows_themselves_refuse_blocks_before_any_work(solver):
    method = registered()[solver]
    X, signal = table()
    y = {"binary": signal > 0, "multiclass": np.digitize(signal, [-1.0, 0.5]), "regression": signal}
    y["ordinal"] = y["multiclass"]
    task = method.tasks[0]
    bias, loss = method.biases[0], method.losses[0]
    with pytest.raises(solvers.UnsupportedProblem, match=rf"{solver} needs row access.*blocks.*oca_e"):
        solvers.train(
            blocks(X if method.name != "svm1d" else X[:, :1], "dense"),
            y[task],
            solver=solver,
            task=task,
            loss=loss,
            p=1.5 if loss == "hinge_p" else None,
            bias=bias,
        )


def test_parts_that_do_not_fit_together_are_refused():
    with pytest.raises(solvers.InvalidProblem, match="no parts"):
        RowBlocks([])
    with pytest.raises(solvers.InvalidProblem, match="3 and 4 columns"):
        RowBlocks([np.ones((2, 3)), np.ones((2, 4))])
    with pytest.raises(solvers.InvalidProblem, match="row 1, column 0"):
        RowBlocks([np.ones((2, 3)), np.array([[1.0, 1.0, 1.0], [np.nan, 1.0, 1.0]])])
