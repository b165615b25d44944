"""The libsvm reader: what it accepts and gives, and the exact place and code of what it refuses."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from app.datasets.formats import (
    InvalidFile,
    InvalidOption,
    ReadOptions,
    Table,
    decimal_kernels,
    libsvm,
    libsvm_kernels,
    read,
)
from solvers.linalg import kernel_cache

PROJECT_ROOT = Path(__file__).resolve().parents[5]
HUGE = 2**31 - 2


def read_text(folder: Path, text: str | bytes, **options: object) -> Table:
    path = folder / "data.libsvm"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, "libsvm", ReadOptions(**options))  # type: ignore[arg-type]


def refuse(folder: Path, text: str | bytes, **options: object) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read_text(folder, text, **options)
    return caught.value


def rows_of(table: Table) -> list[dict[int, float]]:
    data, indices, indptr = (table.arrays[name] for name in ("data", "indices", "indptr"))
    return [dict(zip(indices[a:b].tolist(), data[a:b].tolist(), strict=True)) for a, b in pairwise(indptr)]


def test_a_table(tmp_path: Path) -> None:
    table = read_text(tmp_path, "+1 1:0.5 3:-2e3\n-1\n-1 2:0 3:1\n")
    assert table.storage == "csr"
    assert rows_of(table) == [{0: 0.5, 2: -2000}, {}, {1: 0, 2: 1}]
    assert [table.arrays[name].dtype for name in ("data", "indices", "indptr", "y")] == [
        np.float64,
        np.int32,
        np.int64,
        np.float64,
    ]
    assert table.arrays["y"].tolist() == [1, -1, -1]
    assert (table.n_rows, table.n_features, table.nnz) == (3, 3, 4)
    assert (table.label_kind, table.labels, table.target, table.feature_names) == ("number", None, None, None)
    assert table.class_counts == [(-1, 2), (1, 1)]
    assert table.task_hint == "binary"
    assert [warning.code for warning in table.warnings] == ["index_base_guessed"]
    assert "start at 1" in table.warnings[0].detail
    assert "group" not in table.arrays


@pytest.mark.parametrize(
    ("text", "options", "expected", "n_features"),
    [
        ("1 0:5 2:6\n", {}, [{0: 5, 2: 6}], 3),
        ("1 2:5\n1 0:6\n", {}, [{2: 5}, {0: 6}], 3),
        ("1 1:5 2:6\n", {}, [{0: 5, 1: 6}], 2),
        ("1 1:5 2:6\n", {"index_base": "0"}, [{1: 5, 2: 6}], 3),
        ("1 2:5\n", {"index_base": "1"}, [{1: 5}], 2),
        ("1 1:5\n", {"n_features": 7}, [{0: 5}], 7),
        ("1 7:5\n", {"n_features": 7}, [{6: 5}], 7),
        ("1 0:5 6:5\n", {"n_features": 7}, [{0: 5, 6: 5}], 7),
        ("1 6:5\n", {"n_features": 7, "index_base": "0"}, [{6: 5}], 7),
        ("1\n-1\n", {"n_features": 4}, [{}, {}], 4),
        (f"1 {HUGE}:5\n", {}, [{HUGE - 1: 5}], HUGE),
        (f"1 0:1 {HUGE}:5\n", {}, [{0: 1, HUGE: 5}], HUGE + 1),
        (f"1 0:1 {HUGE}:5\n", {"n_features": HUGE + 1}, [{0: 1, HUGE: 5}], HUGE + 1),
        ("1 0001:5\n", {}, [{0: 5}], 1),
        ("1 3:3 1:1 2:2\n", {}, [{0: 1, 1: 2, 2: 3}], 3),
    ],
)
def test_indices(
    tmp_path: Path, text: str, options: dict[str, object], expected: list[dict[int, float]], n_features: int
) -> None:
    table = read_text(tmp_path, text, **options)
    assert rows_of(table) == expected
    assert table.n_features == n_features


@pytest.mark.parametrize(
    "text",
    [
        "1 1:2 2:3\n-1 1:4",
        "1 1:2 2:3\r\n-1 1:4\r\n",
        "1 1:2 2:3\r\n-1 1:4\r",
        "\t 1\t1:2  2:3 \t\n\n  \n\r\n-1 1:4 ",
        "# a comment: 1:1\n1 1:2 2:3# 9:9\n  # :\n-1 1:4 # \u00fc\n#",
        "\ufeff1 1:2 2:3\n-1 1:4\n",
        "1.0e0 1:+2 2:3.\n-1. 1:.4e1\n",
    ],
)
def test_accepted_layouts(tmp_path: Path, text: str) -> None:
    table = read_text(tmp_path, text)
    assert table.arrays["y"].tolist() == [1, -1]
    assert rows_of(table) == [{0: 2, 1: 3}, {0: 4}]


def test_unsorted_rows_are_sorted_and_reported(tmp_path: Path) -> None:
    long_row = list(range(1, 400))
    np.random.default_rng(0).shuffle(long_row)
    text = "1 1:1 2:2\n\n1 2:1e-320 1:0.1\n1 " + " ".join(f"{k}:{k}" for k in long_row)
    table = read_text(tmp_path, text)
    assert rows_of(table) == [{0: 1, 1: 2}, {0: 0.1, 1: 1e-320}, {k - 1: k for k in range(1, 400)}]
    assert (np.diff(table.arrays["indices"])[[0, 2]] > 0).all()
    assert "2 rows" in table.warnings[1].detail
    assert "line 3" in table.warnings[1].detail


def test_query_groups(tmp_path: Path) -> None:
    table = read_text(tmp_path, f"2 qid:7 1:1\n1 qid:{10**18 - 1} 1:2\n0 qid:0\n")
    assert table.arrays["group"].tolist() == [0, 1, 2], "numbered in order of appearance"
    assert table.arrays["group"].dtype == np.int64


@pytest.mark.parametrize(
    "token",
    [
        "5e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "9007199254740993",
        "9007199254740992.999999999999999999999999999999",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1e-9999999999999",
        "0e9999999999999",
        "123456789012345678901234567890e-30",
        "0." + "0" * 400 + "1e390",
        "1" + "0" * 400 + "e-390",
        "2.2250738585072011e-308",
        "8.41e21",
        "9.5e-23",
        "-0",
        "-0.0e5",
    ],
)
def test_every_number_is_rounded_as_python_does(tmp_path: Path, token: str) -> None:
    table = read_text(tmp_path, f"{token} 1:{token}\n1 1:1\n")
    assert table.arrays["data"][0].hex() == float(token).hex()
    assert table.arrays["y"][0].hex() == float(token).hex()


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1 1:1\nx 1:1\n", {}, [(2, 1, "not_a_number")]),
        ("1 1:1\n 1:1 2:2\n", {}, [(2, 2, "missing_label")]),
        ("1 1:1\nnan 1:1\n-inf\n1e999\n", {}, [(2, 1, "not_finite"), (3, 1, "not_finite"), (4, 1, "not_finite")]),
        ("1,2 1:1\n", {}, [(1, 1, "not_a_number")]),
        ("1 1:1 2\n", {}, [(1, 7, "missing_colon")]),
        ("1 1:1 abc 2:1\n", {}, [(1, 7, "missing_colon")]),
        ("1 1:1 :3\n", {}, [(1, 7, "bad_index")]),
        ("1 -1:1\n1 1.5:2\n1 +1:2\n1 x:1\n", {}, [(k, 3, "bad_index") for k in (1, 2, 3, 4)]),
        ("1 0:1\n", {"index_base": "1"}, [(1, 3, "index_below_base")]),
        (f"1 {HUGE + 1}:1\n", {}, [(1, 3, "index_too_large")]),
        (f"1 {2**63}:1\n1 {10**40}:1\n", {}, [(1, 3, "index_too_large"), (2, 3, "index_too_large")]),
        ("1 1:1 8:1\n", {"n_features": 7}, [(1, 7, "index_too_large")]),
        ("1 1:1 7:1\n1 0:1\n", {"n_features": 7}, [(1, 7, "index_too_large")]),
        ("1 7:1\n", {"n_features": 7, "index_base": "0"}, [(1, 3, "index_too_large")]),
        ("1 1:1 2:2 2:3\n", {}, [(1, 11, "duplicate_index")]),
        ("1 3:1  1:2 2:2 \t1:3 3:1\n", {}, [(1, 17, "duplicate_index")]),
        ("1 1:\n1 1: 2\n", {}, [(1, 5, "missing_value"), (2, 5, "missing_value")]),
        ("1 1:NaN\n1 1:inf\n1 1:-Infinity\n", {}, [(k, 5, "not_finite") for k in (1, 2, 3)]),
        ("1 1:1e999\n1 1:x\n1 2:-1e309", {}, [(1, 5, "not_finite"), (2, 5, "not_a_number"), (3, 5, "not_finite")]),
        ("1 1:0x10\n1 1:1_000\n1 1:٣\n", {}, [(k, 5, "not_a_number") for k in (1, 2, 3)]),
        ("1 1:1e\n1 1:.\n1 1:--1\n1 1:1.2.3\n1 1:2:3\n", {}, [(k, 5, "not_a_number") for k in range(1, 6)]),
        ("1 qid:1 1:1\n1 1:1\n", {}, [(2, 3, "missing_qid")]),
        ("1 1:1\n\n1 qid:1 1:1\n", {}, [(3, 3, "unexpected_qid")]),
        (
            f"1 qid:x 1:1\n1 qid: 1:1\n1 qid:-1\n1 qid:{10**18}\n1 qid:1.5\n",
            {},
            [(k, 3, "bad_qid") for k in range(1, 6)],
        ),
        ("1 1:1 qid:3\n", {}, [(1, 7, "bad_index")]),
        ("1 1:1\r1 1:1\n", {}, [(1, 6, "stray_return")]),
        ("1 1:1\n1 1:1 \r", {}, []),
        (b"1 1:1\n1 1:\x001\n", {}, [(2, 5, "nul_byte")]),
        (b"1 1:1 # \x00\n", {}, [(1, 9, "nul_byte")]),
        (b"1 1:1\n1 1:\xff\n", {}, [(2, 5, "not_a_number")]),
        ("1 1:1\n".encode("utf-16"), {}, [(1, 1, "not_utf8")]),
        ("1 1:1\n".encode("utf-16-be"), {}, [(1, 1, "nul_byte")]),
        ("", {}, [(None, None, "empty_file")]),
        ("\ufeff", {}, [(None, None, "empty_file")]),
        ("\n# nothing\n \n", {}, [(None, None, "no_rows")]),
        ("1\n-1\n", {}, [(None, None, "no_features")]),
        ("\ufeffx 1:1\n", {}, [(1, 1, "not_a_number")]),
        ("1 1:1\n1 1:1e999", {}, [(2, 5, "not_finite")]),
        ("1 1:1\n1 1:oops", {}, [(2, 5, "not_a_number")]),
    ],
)
def test_faults_and_their_places(
    tmp_path: Path,
    text: str | bytes,
    options: dict[str, object],
    expected: list[tuple[int | None, int | None, str]],
) -> None:
    if not expected:
        assert read_text(tmp_path, text, **options).n_rows == 2
        return
    refusal = refuse(tmp_path, text, **options)
    assert [(error.line, error.column, error.code) for error in refusal.errors] == expected
    assert refusal.more == 0


def test_a_fault_quotes_little(tmp_path: Path) -> None:
    (error,) = refuse(tmp_path, "1 1:\x1b" + "z" * 500).errors
    assert "\\x1bzzz" in error.detail
    assert len(error.detail) < 100


def test_the_first_twenty_faults_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    refusal = refuse(tmp_path, "1 1:1\n" + "1 1:?\n1 1:1e999\n" * 25)
    assert [error.line for error in refusal.errors] == list(range(2, 22))
    assert refusal.more == 30
    assert refuse(tmp_path, "? 1:1\n" * 5000).more == 980


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"target": "0"}, "target"),
        ({"weight": "0"}, "weight"),
        ({"ignore": ("0",)}, "ignore"),
        ({"delimiter": ","}, "delimiter"),
        ({"header": "true"}, "header"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": HUGE + 2}, "n_features"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_text(tmp_path, "1 1:1\n", **options)
    assert caught.value.field == field


def test_warming_can_recover_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def warm(kernels: list[object], call: Callable[[], object]) -> None:
        seen.extend(kernels)
        call()

    monkeypatch.setattr(kernel_cache, "warm", warm)
    libsvm.warm.__wrapped__()
    assert {libsvm_kernels.parse_lines, libsvm_kernels._sort_row, decimal_kernels._round_product} <= set(seen)
    assert libsvm_kernels.parse_lines.nopython_signatures


def test_heart_scale() -> None:
    table = read(PROJECT_ROOT / "tests" / "data" / "heart_scale.libsvm", "libsvm", ReadOptions())
    assert (table.n_rows, table.n_features, table.nnz) == (270, 13, 3378)
    assert table.class_counts == [(-1, 150), (1, 120)]
    assert float(table.arrays["data"][0]) == 0.708333
