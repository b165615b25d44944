"""Parquet files and Arrow streams: what is accepted and given, and the row, column and code of what is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions, Table, TooLarge, read
from app.tabular.frame import Strings

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
        ({"a": [1, 2, 3], "y": [1, None, 3]}, {}, [(2, 2, "missing_value")]),
        ({"a": [np.nan, np.inf, 3], "y": [1, np.nan, None]}, {}, [(2, 1, "not_finite"), (2, 2), (3, 2)]),
        ({"a": [1, 2, 3], "y": ["x", " ", None]}, {}, [(2, 2, "missing_value"), (3, 2, "missing_value")]),
        ({"a": [1, 2], "w": [-1.0, np.nan], "y": [1, 2]}, {"weight": "w"}, [(1, 2, "negative_weight"), (2, 2)]),
        ({"a": [1, 2], "g": ["q", None], "y": [1, 2]}, {"group": "g"}, [(2, 2, "missing_value")]),
        ({"a": [[1], [2]], "y": [1, 2]}, {}, [(None, 1, "unsupported_type")]),
        ({"a": [b"1", b"2"], "y": [1, 2]}, {}, [(None, 1, "unsupported_type")]),
        ({"a": [1, 2], "w": ["1", "2"], "y": [1, 2]}, {"weight": "w"}, [(None, 2, "unsupported_type")]),
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


def features(table: Table) -> list[tuple[Any, ...]]:
    columns = [column for column in table.columns if column.role == "feature"]
    return [(column.name, column.kind, column.missing, column.levels) for column in columns]


def strings(table: Table, name: str) -> list[str]:
    return Strings.stored(table.arrays[f"{name}.bytes"], table.arrays[f"{name}.offsets"]).to_list()


@pytest.mark.parametrize("block_bytes", [8 << 20, 32])
def test_every_kind_of_column(
    tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("app.datasets.formats.array_checks.BLOCK_BYTES", block_bytes)
    times = [datetime(1970, 1, 2, tzinfo=UTC), None, datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)]
    columns = {
        "number": pa.array([1, None, 3]),
        "decimal": pa.array([Decimal("1.25"), Decimal("-2"), None], pa.decimal128(10, 2)),
        "nothing": pa.nulls(3),
        "truth": pa.array([True, None, False]),
        "day": pa.array([date(1970, 1, 3), date(1969, 12, 31), None]),
        "milli": pa.array([date(1970, 1, 3), None, None], pa.date64()),
        **{f"time_{unit}": pa.array(times, pa.timestamp(unit, "Europe/Berlin")) for unit in ("ms", "us", "ns")},
        "word": pa.array(["b", "a", None]),
        "large": pa.array(["b", " ", "a"], pa.large_string()),
        "level": pa.array(["z", None, "y"]).dictionary_encode(),
        "digits": pa.array(["1", "2", "2"]),
        "spelled": pa.array(["yes", "NO", None]),
        "text": pa.array(["one two three four five", None, "six seven eight nine, ten: ü"]),
        "y": ["p", "q", "p"],
    }
    table = read_table(tmp_path, format, columns)
    kinds = "numeric numeric numeric boolean date date date date date categorical categorical categorical categorical"
    kinds += " boolean text"
    missing = [1, 1, 3, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0, 1, 1]
    levels = [None] * 9 + [2, 2, 2, 2] + [None, None]
    assert features(table) == list(zip(list(columns)[:-1], kinds.split(), missing, levels, strict=True))
    X = np.where(np.isnan(table.arrays["X"]), None, table.arrays["X"])
    assert X[:, :6].T.tolist() == [
        [1, None, 3],
        [1.25, -2, None],
        [None] * 3,
        [1, None, 0],
        [2 * 86_400, -86_400, None],
        [2 * 86_400, None, None],
    ]
    assert X[:, 6:9].T.tolist() == [[86_400, None, -0.5]] * 3
    assert X[:, 9:14].T.tolist() == [[1, 0, None], [1, None, 0], [1, None, 0], [0, 1, 1], [1, 0, None]]
    assert [strings(table, f"levels.{j}") for j in (9, 11, 12)] == [["a", "b"], ["y", "z"], ["1", "2"]]
    assert strings(table, "text.14") == ["one two three four five", "", "six seven eight nine, ten: ü"]
    assert X[:, 14].tolist() == [23, None, 28]
    assert {column.reason for column in table.columns if column.name == "day"} == {
        "its type in the file is 'date32[day]'"
    }


def test_missing_values_make_short_floats_long(tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.array_checks.BLOCK_BYTES", 160)
    values = pa.array([*(k / 7 for k in range(200)), None, float("nan")], pa.float32())
    table = read_table(tmp_path, format, {"a": values, "y": list(range(202))})
    assert table.arrays["X"].dtype == np.float64
    assert table.arrays["X"][:200, 0].tolist() == (np.arange(200) / 7).astype(np.float32).astype(np.float64).tolist()
    assert features(table) == [("a", "numeric", 2, None)]
    assert [warning.code for warning in table.warnings] == ["target_guessed", "marked_missing"]


def test_a_few_bytes_that_stand_for_much_text_are_refused(tmp_path: Path, format: Format) -> None:
    long = [f"{k} " + "word " * 20_000 for k in range(20)]
    indices = np.arange(10_000, dtype=np.int32) % 20
    texts = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(long))
    short = read_table(tmp_path, format, {"a": texts, "y": indices})
    assert features(short) == [("a", "categorical", 0, 20)]
    distinct = [f"{k} " + "word " * 20_000 for k in range(400)]
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.arange(2_000, dtype=np.int32) % 400), pa.array(distinct))
    path = tmp_path / "data"
    table = pa.table({"a": repeated, "y": np.arange(2_000)})
    if format == "parquet":
        pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 30)
    else:
        with pa.ipc.new_stream(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(table)
    with pytest.raises(TooLarge, match="100 times its size"):
        read(path, format, ReadOptions())


def test_faults_are_counted_over_blocks(tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.array_checks.BLOCK_BYTES", 160)
    values = [float(k) if k % 3 else np.inf for k in range(300)]
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
    with pytest.raises(TooLarge, match="100 times its size"):
        read(path, format, ReadOptions())


@pytest.mark.parametrize("options", [{"target": "nope"}, {"index_base": "1"}, {"delimiter": ","}])
def test_options_that_do_not_fit(tmp_path: Path, format: Format, options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_table(tmp_path, format, {"a": [1], "y": [1]}, **options)
    assert caught.value.field == next(iter(options))


def test_labels_and_groups_in_a_dictionary_are_those_that_rows_have(tmp_path: Path, format: Format) -> None:
    labels = pa.DictionaryArray.from_arrays(pa.array([3, 1, 3, 2], pa.int8()), pa.array(["unused", "b", "a", "a"]))
    groups = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0], pa.int8()), pa.array(["late", "early"]))
    table = read_table(tmp_path, format, {"x": [1.0, 2.0, 3.0, 4.0], "g": groups, "y": labels}, group="g")
    assert (table.labels, table.arrays["y"].tolist()) == (["a", "b"], [0, 1, 0, 0])
    assert table.arrays["group"].tolist() == [0, 1, 0, 1]


def test_nulls_of_labels_are_found_wherever_they_are(tmp_path: Path, format: Format) -> None:
    values = ["a", None] if format == "arrow" else ["a", "b"]  # no Parquet file has a null in its dictionary
    places = [0, None, 1, 0] if format == "arrow" else [0, None, None, 1]
    labels = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(values))
    with pytest.raises(InvalidFile) as caught:
        read_table(tmp_path, format, {"x": [1.0, 2.0, 3.0, 4.0], "y": labels})
    assert [(error.line, error.code) for error in caught.value.errors] == [(2, "missing_value"), (3, "missing_value")]


def test_a_long_label_of_many_rows_is_not_written_out(tmp_path: Path, format: Format) -> None:
    """In full the labels would take 4 GB."""
    label = pa.array(["x" * 40_000, "y"])
    labels = pa.DictionaryArray.from_arrays(pa.array(np.arange(200_000) % 2, pa.int32()), label)
    path = tmp_path / "data"
    write(path, format, pa.table({"x": np.zeros(200_000), "y": labels}))
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    try:
        table = read(path, format, ReadOptions())
    finally:
        pa.set_memory_pool(usual)
    assert table.labels == ["x" * 40_000, "y"]
    assert (counted.max_memory() or 0) < 100_000_000
