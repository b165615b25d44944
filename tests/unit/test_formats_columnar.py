"""Parquet files and Arrow streams: what is accepted and given, and the row, column and code of what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions, Table, TooLarge, read

pytestmark = pytest.mark.parametrize("format", ["parquet", "arrow"])


def write(path: Path, format: Format, table: Any) -> None:
    if format == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)


def read_table(folder: Path, format: Format, columns: dict[str, Any], **options: object) -> Table:
    path = folder / "data"
    write(path, format, pa.table(columns))
    return read(path, format, ReadOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([pa.float32(), pa.float32()], np.float32),
        ([pa.float16(), pa.float32()], np.float32),
        ([pa.float32(), pa.float64()], np.float64),
        ([pa.float32(), pa.int8()], np.float64),
        ([pa.uint64(), pa.bool_()], np.float64),
    ],
)
def test_features_keep_their_precision(tmp_path: Path, format: Format, types: list[Any], expected: Any) -> None:
    columns: dict[str, Any] = {f"x{j}": pa.array([1, 0, 1]).cast(kind) for j, kind in enumerate(types)}
    table = read_table(tmp_path, format, {**columns, "y": [1, 2, 1]})
    assert table.arrays["X"].dtype == expected
    assert table.arrays["X"].tolist() == [[1, 1], [0, 0], [1, 1]]
    assert table.arrays["y"].dtype == np.float64


@pytest.mark.parametrize("encode", [lambda labels: labels, lambda labels: pa.array(labels).dictionary_encode()])
def test_roles_and_string_labels(tmp_path: Path, format: Format, encode: Any) -> None:
    columns = {"y": encode(["n", "m", "n"]), "w": [1, 2, 0], "g": [5, 5, -1], "t": ["", "", ""], "a": [1.5, 0.0, 3.0]}
    table = read_table(tmp_path, format, columns, target="y", weight="w", group="g", ignore=("t",))
    assert (table.labels, table.arrays["y"].tolist()) == (["m", "n"], [1, 0, 1])
    assert table.arrays["weight"].tolist() == [1, 2, 0]
    assert table.arrays["group"].tolist() == [0, 0, 1]
    assert (table.feature_names, table.target, table.nnz) == (["a"], "y", 2)


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ({"a": [1, None, 3], "y": [1, 2, 3]}, {}, [(2, 1, "missing_value")]),
        ({"a": [np.nan, np.inf, 3], "y": [1, 2, None]}, {}, [(1, 1), (2, 1), (3, 2)]),
        ({"a": [1, 2, 3], "y": ["x", " ", None]}, {}, [(2, 2, "missing_value"), (3, 2, "missing_value")]),
        ({"a": [1, 2], "w": [-1.0, np.nan], "y": [1, 2]}, {"weight": "w"}, [(1, 2, "negative_weight"), (2, 2)]),
        ({"a": [1, 2], "g": ["q", None], "y": [1, 2]}, {"group": "g"}, [(2, 2, "missing_value")]),
        ({"a": [[1], [2]], "y": [1, 2]}, {}, [(None, 1, "unsupported_type")]),
        ({"a": ["1", "2"], "y": [1, 2]}, {}, [(None, 1, "unsupported_type")]),
        ({"a": [1, 2], "g": [0.5, 1], "y": [1, 2]}, {"group": "g"}, [(None, 2, "unsupported_type")]),
        ({"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}, {}, [(None, None, "no_rows")]),
        ({"a": [1, 2]}, {}, [(None, None, "one_column")]),
        ({"a": [1, 2], "y": ["x", "\0"]}, {}, [(None, None, "bad_text")]),
    ],
)
def test_faults_and_their_places(
    tmp_path: Path, format: Format, columns: dict[str, Any], options: dict[str, object], expected: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(InvalidFile) as caught:
        read_table(tmp_path, format, columns, **options)
    found = [(error.line, error.column, error.code) for error in caught.value.errors]
    assert [place[: len(wanted)] for place, wanted in zip(found, expected, strict=True)] == expected


def test_faults_are_counted_over_blocks(tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.blocks.BLOCK_BYTES", 160)
    values = [float(k) if k % 3 else np.nan for k in range(300)]
    with pytest.raises(InvalidFile) as caught:
        read_table(tmp_path, format, {"a": values, "y": [1] * 300})
    assert [error.line for error in caught.value.errors] == list(range(1, 60, 3))
    assert caught.value.more == 80
    table = read_table(tmp_path, format, {"a": list(range(300)), "y": [str(k % 7) for k in range(300)]})
    assert table.arrays["X"][:, 0].tolist() == list(range(300))


def test_duplicate_names(tmp_path: Path, format: Format) -> None:
    path = tmp_path / "data"
    write(path, format, pa.table([[1], [2], [3]], names=["a", "a", "y"]))
    with pytest.raises(InvalidFile, match="both named 'a'"):
        read(path, format, ReadOptions())


def test_damaged_files_are_refused(tmp_path: Path, format: Format) -> None:
    path = tmp_path / "data"
    write(path, format, pa.table({"a": list(range(1000)), "y": [1] * 1000}))
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[: len(whole) // 2], b"\xff" * 1000, b"PAR1" + b"x" * 100 + b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile) as caught:
            read(path, format, ReadOptions())
        assert caught.value.errors[0].code == "unreadable_file"


def test_a_few_bytes_that_stand_for_many_rows_are_refused(tmp_path: Path, format: Format) -> None:
    path = tmp_path / "data"
    zeros = pa.table({"a": np.zeros(10_000_000), "y": np.zeros(10_000_000)})
    if format == "parquet":
        pq.write_table(zeros, path)
    else:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(str(path), zeros.schema, options=options) as stream:
            stream.write_table(zeros, max_chunksize=100_000)
    assert path.stat().st_size < 500_000
    with pytest.raises(TooLarge, match="300 times its size"):
        read(path, format, ReadOptions())


@pytest.mark.parametrize("options", [{"target": "nope"}, {"index_base": "1"}, {"delimiter": ","}])
def test_options_that_do_not_fit(tmp_path: Path, format: Format, options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_table(tmp_path, format, {"a": [1], "y": [1]}, **options)
    assert caught.value.field == next(iter(options))
