"""Dense rows most of whose numbers are zero are trained on without them: the same problem, in the memory foretold."""

import gc
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.data.compression import MOST_SHARE, compressed, compressed_bytes, is_compressible
from solvers.data.rows import CsrRows, DenseRows, as_rows

every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])


def mostly_zeros(n, d, density, dtype=np.float64, seed=0):
    """Return a table with exactly this many non-zeros, at random positions."""
    random = np.random.default_rng(seed)
    flat = np.zeros(n * d, dtype)
    places = random.permutation(n * d)[: int(density * n * d)]
    flat[places] = random.standard_normal(places.size)
    return flat.reshape(n, d)


def labels_of(X, seed=1):
    random = np.random.default_rng(seed)
    return X @ random.standard_normal(X.shape[1]) + 0.3 * random.standard_normal(X.shape[0]) > 0.0


@every_dtype
def test_it_is_the_matrix_that_scipy_makes(dtype):
    X = mostly_zeros(300, 50, 0.1, dtype)
    X[3] = 0.0
    X[7, 5] = -0.0
    values, columns, starts = compressed(X)
    wanted = sp.csr_array(X)
    assert values.dtype == dtype
    assert values.tobytes() == wanted.data.tobytes()
    assert columns.tolist() == wanted.indices.tolist()
    assert starts.tolist() == wanted.indptr.tolist()


@every_dtype
def test_it_is_made_exactly_where_it_keeps_to_its_share(dtype):
    n, d, size = 400, 60, np.dtype(dtype).itemsize
    most = next(m for m in range(n * d, 0, -1) if compressed_bytes(n, m, size) <= MOST_SHARE * n * d * size)
    for nonzeros, is_made in ((most, True), (most + 1, False)):
        X = mostly_zeros(n, d, (nonzeros + 0.5) / (n * d), dtype)
        assert np.count_nonzero(X) == nonzeros
        assert is_compressible(n, d, nonzeros, size) is is_made
        assert isinstance(as_rows(X, compress=True), CsrRows if is_made else DenseRows)
        assert isinstance(as_rows(X), DenseRows)
        if is_made:
            values, columns, starts = compressed(X)
            assert values.nbytes + columns.nbytes + starts.nbytes == compressed_bytes(n, nonzeros, size)


@pytest.mark.parametrize("shape", [(1, 1), (1, 100), (100, 1), (100, 3), (5, 1000)])
def test_tables_of_any_shape_and_of_zeros_only(shape):
    X = np.zeros(shape)
    rows = as_rows(X, compress=True)
    assert (rows.n_rows, rows.n_features) == shape
    assert isinstance(rows, CsrRows) is is_compressible(*shape, 0, 8)
    X[-1, -1] = 2.0
    out = np.empty(shape[0])
    as_rows(X, compress=True).margins(np.ones(shape[1]), out)
    assert out.tolist() == X.sum(axis=1).tolist()


def test_zeros_that_gather_where_nobody_looks_first():
    """The first look says that few numbers are not zero, and all rows after some are full; or the other way round."""
    X = np.zeros((2000, 40))
    X[1500:] = 1.0
    assert compressed(X) is None
    X[1500:] = 0.0
    X[:200] = 1.0
    assert compressed(X)[0].size == 8000


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("density", [0.1, 0.5])
def test_an_unusable_number_is_named_by_its_place(value, density):
    X = mostly_zeros(200, 30, density)
    X[123, 17] = value
    with pytest.raises(solvers.InvalidProblem, match=r"row 123, column 17 "):
        solvers.train(X, np.arange(200) % 2)


def test_a_row_too_large_to_be_squared_is_named():
    X = mostly_zeros(200, 30, 0.1)
    X[123, 17] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="row 123 "):
        solvers.train(X, np.arange(200) % 2, solver="dcd")


def test_memory_mapped_rows_of_other_orders_and_types(tmp_path):
    X = mostly_zeros(300, 40, 0.1)
    X = np.round(4 * X)
    y = labels_of(X)
    wanted = solvers.train(sp.csr_array(X), y)
    np.save(tmp_path / "X.npy", X)
    for same in (np.load(tmp_path / "X.npy", mmap_mode="r"), np.asfortranarray(X), X.astype(np.int16), X.tolist()):
        result = solvers.train(same, y)
        assert result.coef.tobytes() == wanted.coef.tobytes()
        assert result.certificate == wanted.certificate


def test_the_certificate_is_that_of_the_rows_as_they_were_given():
    X = mostly_zeros(400, 60, 0.15)
    y = labels_of(X)
    result = solvers.train(X, y, loss="squared_hinge", C=0.5, tol=1e-6)
    slack = np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * (X @ result.coef + result.intercept))
    primal = 0.5 * (result.coef @ result.coef + result.intercept**2) + 0.5 * (slack @ slack)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-12)
    assert "400 sparse rows of 60 features" in result.solver_reason


@pytest.mark.parametrize("name", ["dcd", "newton", "pcd", "tncg"])
def test_memory_is_what_the_estimate_says_and_within_the_share(name):
    n, d, density = 30_000, 60, 0.18
    X = mostly_zeros(n, d, density)
    y = labels_of(X)
    arguments = {"solver": name, "loss": "squared_hinge", "tol": 1e-2, "max_passes": 6}
    solvers.train(X[:500], y[:500], **arguments)
    shape = {"n_rows": n, "n_features": d, "n_classes": 2, "sparse": False, "entries": n * d}
    told = solvers.estimate(**shape, nonzeros=np.count_nonzero(X), **arguments)
    without = solvers.estimate(**shape, nonzeros=n * d, **arguments)
    gc.collect()
    tracemalloc.start()
    solvers.train(X, y, **arguments)
    seen = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert abs(told.peak_bytes - seen) <= 0.15 * seen + (2 << 20), (told.peak_bytes, seen)
    if name != "pcd":  # which holds its columns too
        assert told.peak_bytes - without.peak_bytes <= MOST_SHARE * X.nbytes
