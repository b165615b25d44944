"""npz archives, dense and CSR: what is accepted, what it becomes, what is refused; declared sizes are checked."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from app.datasets.formats import InvalidFile, ReadOptions, Table, TooLarge, read

X = np.array([[1.0, 0.0], [0.0, 2.5], [3.0, 4.0]])
CSR = {"data": [1.0, 2.5, 3.0, 4.0], "indices": [0, 1, 0, 1], "indptr": [0, 1, 2, 4], "shape": [3, 2]}


def read_arrays(folder: Path, arrays: dict[str, Any], **options: object) -> Table:
    path = folder / "data.npz"
    np.savez_compressed(path, **arrays)
    return read(path, "npz", ReadOptions(**options))  # type: ignore[arg-type]


def refuse(folder: Path, arrays: dict[str, Any]) -> list[tuple[int | None, int | None, str]]:
    with pytest.raises(InvalidFile) as caught:
        read_arrays(folder, arrays)
    assert all(error.detail.isprintable() for error in caught.value.errors)
    return [(error.line, error.column, error.code) for error in caught.value.errors]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f4", "i1", "u8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense(tmp_path: Path, dtype: str, order: Any) -> None:
    given = X.astype(dtype).copy(order=order)
    table = read_arrays(tmp_path, {"X": given, "y": np.array([1, 2, 1])})
    assert table.storage == "dense"
    assert table.arrays["X"].dtype == (np.float32 if dtype[-2:] in ("f4", "f2") else np.float64)
    assert np.array_equal(table.arrays["X"], given)
    assert table.arrays["y"].tolist() == [1, 2, 1]
    assert (table.feature_names, table.target) == (None, None)


@pytest.mark.parametrize("labels", [np.array(["n", "m", "n"]), np.array([b"n", b"m", b"n"])])
def test_labels_weights_and_groups(tmp_path: Path, labels: Any) -> None:
    table = read_arrays(tmp_path, {"X": X, "y": labels, "weight": [1, 0, 2], "group": np.array(["q", "p", "q"])})
    assert (table.labels, table.arrays["y"].tolist()) == (["m", "n"], [1, 0, 1])
    assert table.arrays["weight"].tolist() == [1, 0, 2]
    assert table.arrays["group"].tolist() == [0, 1, 0]


def test_sparse_as_scipy_saves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.array_checks.BLOCK_BYTES", 64)
    monkeypatch.setattr("app.datasets.formats.npz.BLOCK_ROWS", 7)
    matrix = sp.random_array((60, 30), density=0.2, format="csr", rng=np.random.default_rng(0), dtype=np.float32)
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    table = read_arrays(tmp_path, {**parts, "format": b"csr", "y": np.arange(60) % 3})
    assert (table.storage, table.n_rows, table.n_features, table.nnz) == ("csr", 60, 30, matrix.nnz)
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(table.arrays[name], parts[name])
    assert [table.arrays[name].dtype for name in ("data", "indices", "indptr")] == [np.float32, np.int32, np.int64]


def test_unsorted_rows_are_sorted_and_reported(tmp_path: Path) -> None:
    table = read_arrays(tmp_path, {**CSR, "indices": [0, 1, 1, 0], "y": [1, 2, 1]})
    assert table.arrays["indices"].tolist() == [0, 1, 0, 1]
    assert table.arrays["data"].tolist() == [1, 2.5, 4, 3]
    assert [warning.code for warning in table.warnings] == ["unsorted_rows"]


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"X": X}, [(None, None, "missing_array")]),
        ({"y": [1]}, [(None, None, "missing_array")]),
        ({"X": X, "y": [1, 2, 1], "z": [1]}, [(None, None, "unknown_array")]),
        ({"X": X, "y": [1, 2]}, [(None, None, "wrong_shape")]),
        ({"X": X[0], "y": [1, 2]}, [(None, None, "wrong_shape")]),
        ({"X": X[:, :0], "y": [1, 2, 1]}, [(None, None, "no_features")]),
        ({"X": X[:0], "y": np.zeros(0)}, [(None, None, "no_rows")]),
        ({"X": X.astype(complex), "y": [1, 2, 1]}, [(None, None, "unsupported_type")]),
        ({"X": X.astype(np.longdouble), "y": [1, 2, 1]}, [(None, None, "unsupported_type")]),
        ({"X": X, "y": [1, 2, 1], "group": [0.5, 1, 2]}, [(None, None, "unsupported_type")]),
        ({"X": X, "y": np.array([{}, 1, 2])}, [(None, None, "unsupported_type")]),
        ({"X": X, "y": np.array([b"\xff", b"", b""])}, [(None, None, "not_utf8")]),
        (
            {"X": np.where(X == 0, np.nan, X), "y": [1, np.inf, 1]},
            [(1, 2, "not_finite"), (2, 1, "not_finite"), (2, 3, "not_finite")],
        ),
        ({"X": X, "y": ["a", " ", "b"], "weight": [1, -1, 1]}, [(2, 3, "missing_value"), (2, 4, "negative_weight")]),
        ({**CSR, "y": [1, 2]}, [(None, None, "wrong_shape")]),
        ({**CSR, "y": [1, 2, 1], "shape": [3, 2, 1]}, [(None, None, "wrong_shape")]),
        ({**CSR, "y": [1, 2, 1], "shape": [3, 2**31]}, [(None, None, "wrong_shape")]),
        ({**CSR, "y": [1, 2, 1], "shape": [-3, 2]}, [(None, None, "wrong_shape")]),
        ({**CSR, "y": [1, 2, 1], "indptr": [0, 1, 4]}, [(None, None, "wrong_shape")]),
        ({**CSR, "y": [1, 2, 1], "indptr": [0, 3, 2, 4]}, [(None, None, "bad_indptr")]),
        ({**CSR, "y": [1, 2, 1], "indptr": [1, 1, 2, 4]}, [(None, None, "bad_indptr")]),
        ({**CSR, "y": [1, 2, 1], "indptr": [0, 1, 2, 2**62]}, [(None, None, "bad_indptr")]),
        ({**CSR, "y": [1, 2, 1], "indptr": [0, 1, 2, 3]}, [(None, None, "bad_indptr")]),
        ({**CSR, "y": [1, 2, 1], "data": [1.0]}, [(None, None, "wrong_shape")]),
        (
            {**CSR, "y": [1, 2, 1], "indices": [0, 2, -1, 1]},
            [(2, 1, "index_out_of_range"), (3, 1, "index_out_of_range")],
        ),
        ({**CSR, "y": [1, 2, 1], "indices": [0, 1, 2**32, 1]}, [(3, 1, "index_out_of_range")]),
        ({**CSR, "y": [1, 2, 1], "indices": [0, 1, 1, 1]}, [(3, 2, "duplicate_index")]),
        ({**CSR, "y": [1, 2, 1], "data": [1, 2, 3, np.nan]}, [(3, 2, "not_finite")]),
        ({**CSR, "y": [1, 2, 1], "format": b"csc"}, [(None, None, "not_csr")]),
    ],
)
def test_faults(tmp_path: Path, arrays: dict[str, Any], expected: list[tuple[int | None, int | None, str]]) -> None:
    assert refuse(tmp_path, arrays) == expected


def test_an_unknown_array_can_be_ignored(tmp_path: Path) -> None:
    assert read_arrays(tmp_path, {"X": X, "y": [1, 2, 1], "z": [1]}, ignore=("z",)).n_rows == 3


def write_members(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (header((2**40, 1)) + bytes(64), "wrong_size"),  # 8 TiB
        (header((4, 1)) + bytes(33), "wrong_size"),
        (header((-1, -8)), "bad_header"),
        (header((1,), "|O") + pickle.dumps([1]), "unsupported_type"),
        (b"\x93NUMPY\x01\x00\xff\xff{'descr'", "bad_header"),
        (b"not an array", "bad_header"),
        (b"", "bad_header"),
    ],
)
def test_a_header_is_read_before_it_is_believed(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "data.npz"
    write_members(path, {"X": content, "y": header((1,)) + bytes(8)})
    with pytest.raises(InvalidFile) as caught:
        read(path, "npz", ReadOptions())
    assert caught.value.errors[0].code == code


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    zeros = header((10_000_000, 1)) + bytes(80_000_000)
    write_members(path, {"X": zeros, "y": zeros}, zipfile.ZIP_DEFLATED)
    with pytest.raises(TooLarge, match="100 times its size"):
        read(path, "npz", ReadOptions())


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.arange(2000.0).reshape(1000, 2), y=np.arange(1000))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 0xFF
    for damaged in (b"", b"PK\x03\x04junk", whole[:-30], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile) as caught:
            read(path, "npz", ReadOptions())
        assert caught.value.errors[0].code == "unreadable_file"
