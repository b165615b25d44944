"""Statistics of columns agree with numpy on the whole matrix, dense or sparse, however it is cut into blocks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from app.datasets.formats import TooLarge
from app.datasets.inspection import statistics, stored_blocks
from app.datasets.inspection.stored_blocks import ArrayFiles
from app.storage import BlobStore
from tests.support.builders import array_files

KINDS = ["dense", "sparse"]


def computed(files: ArrayFiles) -> Any:
    """The figures of every column, those that are not stored among them."""
    sha256, size = statistics.compute(files)
    store = BlobStore(files.blob_root)
    assert store.size(sha256) == size
    stored = store.map_array(sha256)
    assert statistics.is_current(stored)
    every = np.zeros(files.n_features, dtype=stored.dtype)
    for name in statistics.NUMERIC_RECORD.names or ():
        every[name] = statistics.of_zeros(files.n_rows)[name]
    every[stored["column"]] = stored
    return every


def mixed_matrix(rows: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Columns of every kind: normal, mostly zero, constant, all zero, negative, two-valued, huge, tiny."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal(rows)
    return np.column_stack(
        [
            normal,
            np.where(random.random(rows) < 0.9, 0.0, normal),
            np.full(rows, 0.1),
            np.zeros(rows),
            -np.abs(normal) - 1,
            (normal > 0).astype(float),
            normal * 1e150,
            normal * 1e-300,
        ]
    )


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.mark.parametrize("block_entries", [1 << 21, 40])
def test_exact_figures_are_numpys(tmp_path: Path, kind: str, block_entries: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(stored_blocks, "BLOCK_ENTRIES", block_entries)
    X = mixed_matrix(500)
    figures = computed(array_files(tmp_path, X, np.zeros(500), kind))
    assert figures["count"].tolist() == [500] * 8
    assert figures["missing"].tolist() == [0] * 8
    np.testing.assert_array_equal(figures["zeros"], (X == 0).sum(axis=0))
    np.testing.assert_array_equal(figures["min"], X.min(axis=0))
    np.testing.assert_array_equal(figures["max"], X.max(axis=0))
    np.testing.assert_allclose(figures["mean"], X.mean(axis=0), rtol=1e-12)
    expected = X.std(axis=0)
    np.testing.assert_allclose(figures["std"][:6], expected[:6], rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(figures["quantiles"], np.quantile(X, statistics.SHARES, axis=0).T, rtol=1e-12)
    for column in (0, 1, 4, 5, 6):
        counts, _ = np.histogram(X[:, column], bins=statistics.BINS)
        np.testing.assert_array_equal(figures["histogram"][column], counts)
    assert figures["histogram"].sum(axis=1).tolist() == [500] * 8


def test_float32_columns_are_summed_in_double(tmp_path: Path, kind: str) -> None:
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    figures = computed(array_files(tmp_path, X, np.zeros(len(X)), kind))
    assert figures["mean"][0] == pytest.approx(float(np.float32(0.1)), rel=1e-15)
    assert figures["std"][0] == pytest.approx(0, abs=1e-12)


def test_explicit_zeros_are_zeros(tmp_path: Path) -> None:
    X = sp.csr_array((np.array([0.0, 2.0, 0.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 3))
    figures = computed(array_files(tmp_path, X, np.zeros(2), "sparse"))
    assert figures["zeros"].tolist() == [2, 1, 2]
    assert figures["min"].tolist() == [0, 0, 0]
    assert figures["quantiles"][1].tolist() == pytest.approx(np.quantile([2.0, 0.0], statistics.SHARES).tolist())


def test_a_sum_that_overflows_is_no_number_and_harms_no_other(tmp_path: Path, kind: str) -> None:
    X = np.array([[1.7e308, 1.0], [1.7e308, 2.0], [-1.7e308, 3.0]])
    figures = computed(array_files(tmp_path, X, np.zeros(3), kind))
    assert (figures["min"][0], figures["max"][0]) == (-1.7e308, 1.7e308)
    assert not np.isfinite(figures["std"][0])
    assert figures["mean"][1] == 2.0


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_sketched_quantiles_keep_their_promise_of_rank(tmp_path: Path, kind: str, order: str) -> None:
    random = np.random.default_rng(1)
    X = np.column_stack([random.lognormal(0, 3, 200_000), random.standard_normal(200_000)])
    X[:, 1] = np.where(random.random(200_000) < 0.4, 0, X[:, 1])
    if order == "sorted":
        X.sort(axis=0)
    figures = computed(array_files(tmp_path, X, np.zeros(len(X)), kind))
    for column in (0, 1):
        for share, value in zip(statistics.SHARES, figures["quantiles"][column], strict=True):
            below, up_to = (X[:, column] < value).mean(), (X[:, column] <= value).mean()
            assert below - 0.012 <= share <= up_to + 0.012


def test_a_matrix_without_columns_has_no_figures(tmp_path: Path) -> None:
    assert len(computed(array_files(tmp_path, sp.csr_array((3, 0)), np.zeros(3), "sparse"))) == 0


def test_missing_values_are_counted_and_left_out_of_every_figure(tmp_path: Path) -> None:
    X = mixed_matrix(500)
    X[np.random.default_rng(3).random(X.shape) < 0.3] = np.nan
    X[:, 3] = np.nan
    figures = computed(array_files(tmp_path, X, np.zeros(500)))
    np.testing.assert_array_equal(figures["missing"], np.isnan(X).sum(axis=0))
    np.testing.assert_array_equal(figures["count"], 500 - np.isnan(X).sum(axis=0))
    for column in (0, 1, 4, 5):
        values = X[~np.isnan(X[:, column]), column]
        found = figures[column]
        assert (found["min"], found["max"], found["zeros"]) == (values.min(), values.max(), (values == 0).sum())
        assert (found["mean"], found["std"]) == pytest.approx((values.mean(), values.std()), rel=1e-12)
        np.testing.assert_allclose(found["quantiles"], np.quantile(values, statistics.SHARES), rtol=1e-12)
        np.testing.assert_array_equal(found["histogram"], np.histogram(values, bins=statistics.BINS)[0])
    assert (figures["count"][3], figures["histogram"][3].sum()) == (0, 0)
    assert not np.isfinite([figures[name][3] for name in ("min", "max", "mean", "std")]).any()


@pytest.mark.parametrize("block_entries", [1 << 21, 40])
def test_the_most_frequent_levels_are_counted(tmp_path: Path, block_entries: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(stored_blocks, "BLOCK_ENTRIES", block_entries)
    random = np.random.default_rng(4)
    codes = random.choice(30, 600, p=np.arange(30) / np.arange(30).sum()).astype(np.float64)
    few = np.where(random.random(600) < 0.1, np.nan, random.integers(0, 2, 600))
    levels = {0: [f"l{k:02}" for k in range(30)], 2: ["no", "yes"]}
    X = np.column_stack([codes, random.standard_normal(600), few])
    figures = computed(array_files(tmp_path, X, np.zeros(600), levels=levels))
    for column in (0, 2):
        counts = np.bincount(X[~np.isnan(X[:, column]), column].astype(int), minlength=len(levels[column]))
        top = np.argsort(-counts, kind="stable")[: statistics.TOP]
        assert figures["top"][column][: len(top)].tolist() == top.tolist()
        assert figures["top_counts"][column].tolist() == counts[top].tolist() + [0] * (statistics.TOP - len(top))
    assert figures["top_counts"][1].tolist() == [0] * statistics.TOP


def test_what_is_stored_grows_with_the_entries_and_not_with_the_largest_column_number(tmp_path: Path) -> None:
    width = 2**31 - 1
    X = sp.csr_array(
        (np.array([1.0, -2.0, np.nan]), np.array([0, width - 1, 7]), np.array([0, 2, 3])), shape=(2, width)
    )
    files = array_files(tmp_path, X, np.zeros(2), "sparse")
    sha256, size = statistics.compute(files)
    assert size < 4096
    stored = BlobStore(tmp_path).map_array(sha256)
    assert stored["column"].tolist() == [0, 7, width - 1]
    assert stored["missing"].tolist() == [0, 1, 0]
    assert stored["min"].tolist() == [0.0, 0.0, -2.0]
    assert stored["mean"].tolist() == [0.5, 0.0, -1.0]


def test_few_columns_of_many_are_computed_as_all_of_them_are(tmp_path: Path, monkeypatch: Any) -> None:
    random = np.random.default_rng(6)
    X = np.where(random.random((40, 300)) < 0.005, random.standard_normal((40, 300)), 0.0)
    files = array_files(tmp_path, X, np.zeros(40), "sparse")
    every = computed(files)
    monkeypatch.setattr(stored_blocks, "BLOCK_ENTRIES", 40)
    assert not stored_blocks.Places.of(files).every
    np.testing.assert_array_equal(computed(files), every)


def test_figures_that_would_take_far_more_space_than_the_data_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(statistics, "MOST_BYTES", 0)
    random = np.random.default_rng(7)
    computed(array_files(tmp_path, random.random((100, 10)), np.zeros(100)))
    with pytest.raises(TooLarge, match="need 18400 bytes"):
        statistics.compute(array_files(tmp_path, random.random((2, 100)), np.zeros(2)))
