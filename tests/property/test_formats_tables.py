"""Any table, written in any format that has types and compressed in any way, is read back the same to the last bit.

Text formats with a spelling of their own are in test_formats_roundtrip.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.datasets.formats import ENCODINGS, Format, ReadOptions, Table, read
from app.tabular.frame import Strings
from tests.support.builders import SOAK

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
FINITE32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LABEL = WORD.map("L".__add__)  # never blank; numpy drops NUL characters at the end of a string, so there are none


@dataclass
class Rows:
    """Columns as Python lists; the group is strings, integers or not there."""

    X: list[list[float]]
    is_float32: bool
    y: list[Any]
    names: list[str]
    weight: list[float] | None
    group: list[Any] | None


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    n_rows, n_features = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    is_float32 = draw(st.booleans())

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n_rows, max_size=n_rows))

    return Rows(
        X=[
            draw(st.lists(FINITE32 if is_float32 else FINITE, min_size=n_features, max_size=n_features))
            for _ in range(n_rows)
        ],
        is_float32=is_float32,
        y=column(draw(st.sampled_from([FINITE, LABEL]))),
        names=draw(st.lists(WORD.map("n".__add__), min_size=n_features + 3, max_size=n_features + 3, unique=True)),
        weight=column(st.floats(0, 1e300)) if draw(st.booleans()) else None,
        group=column(draw(st.sampled_from([LABEL, st.integers(-(10**17), 10**17)]))) if draw(st.booleans()) else None,
    )


def named_columns(rows: Rows) -> tuple[dict[str, list[Any]], ReadOptions]:
    """The columns by name, the target not the last, and the options that tell which is what."""
    *features, target, weight, group = rows.names
    columns = {target: rows.y}
    columns |= {name: [row[j] for row in rows.X] for j, name in enumerate(features)}
    if rows.weight is not None:
        columns[weight] = rows.weight
    if rows.group is not None:
        columns[group] = rows.group
    return columns, ReadOptions(
        target=target,
        weight=weight if rows.weight is not None else None,
        group=group if rows.group is not None else None,
    )


def as_ndjson(rows: Rows) -> tuple[bytes, ReadOptions]:
    columns, options = named_columns(rows)
    lines = [json.dumps(dict(zip(columns, cells, strict=True))) for cells in zip(*columns.values(), strict=True)]
    return "\n".join(lines).encode(), options


def as_arrow_table(rows: Rows) -> tuple[Any, ReadOptions]:
    columns, options = named_columns(rows)
    kind = pa.float32() if rows.is_float32 else pa.float64()
    features = rows.names[: len(rows.X[0])]
    return pa.table({n: pa.array(values, kind) if n in features else values for n, values in columns.items()}), options


def as_parquet(rows: Rows) -> tuple[bytes, ReadOptions]:
    table, options = as_arrow_table(rows)
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=2)
    return file.getvalue(), options


def as_arrow(rows: Rows) -> tuple[bytes, ReadOptions]:
    table, options = as_arrow_table(rows)
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=2)
    return file.getvalue(), options


def as_npz(rows: Rows) -> tuple[bytes, ReadOptions]:
    arrays: dict[str, Any] = {"X": np.array(rows.X, dtype=np.float32 if rows.is_float32 else np.float64), "y": rows.y}
    arrays |= {} if rows.weight is None else {"weight": rows.weight}
    arrays |= {} if rows.group is None else {"group": rows.group}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue(), ReadOptions()


WRITERS = {"ndjson": as_ndjson, "parquet": as_parquet, "arrow": as_arrow, "npz": as_npz}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats") / "data"


@pytest.mark.parametrize("format", list(WRITERS))
@settings(
    max_examples=60 * SOAK,
    deadline=None,
    derandomize=SOAK == 1,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=tables(), encoding=st.sampled_from(ENCODINGS))
def test_a_table_comes_back(path: Path, format: Format, rows: Rows, encoding: Any) -> None:
    content, options = WRITERS[format](rows)
    if encoding != "identity":
        content = pa.Codec(encoding).compress(content).to_pybytes()
    path.write_bytes(content)
    table = read(path, format, ReadOptions(**{**vars(options), "encoding": encoding}))
    stays_short = rows.is_float32 and format != "ndjson"
    expected = np.array(rows.X, dtype=np.float32 if stays_short else np.float64)
    assert table.arrays["X"].dtype == expected.dtype
    assert table.arrays["X"].tobytes() == expected.tobytes()
    assert labels_of(table) == rows.y
    assert_codes(table.arrays.get("group"), rows.group)
    if rows.weight is None:
        assert "weight" not in table.arrays
    else:
        assert table.arrays["weight"].tolist() == rows.weight
    if format != "npz":
        assert (table.feature_names, table.target) == (rows.names[: table.n_features], options.target)


def labels_of(table: Table) -> list[Any]:
    if table.labels is None:
        return table.arrays["y"].tolist()
    assert table.labels == sorted(set(table.labels))
    return [table.labels[code] for code in table.arrays["y"]]


def assert_codes(codes: Any, values: list[Any] | None) -> None:
    """Groups are numbered in order of appearance."""
    if values is None:
        assert codes is None
    else:
        order = list(dict.fromkeys(values))
        assert codes.tolist() == [order.index(value) for value in values]


@dataclass
class Feature:
    """A column of Python values, None where there is none, and what it is to become."""

    kind: str
    values: list[Any]


SENTENCE = st.lists(WORD.map(lambda word: "w" + "".join(word.split())), min_size=6, max_size=9).map(" ".join)
MOMENT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(tzinfo=UTC))
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "numeric": FINITE,
    "boolean": st.booleans(),
    "date": MOMENT,
    "categorical": st.sampled_from(["La", "Lb", "L,c", 'L"d', "Lé\u2028", "L\r\n", " L", "L "]),
    "text": SENTENCE,
}


@st.composite
def mixed_tables(draw: st.DrawFn) -> list[Feature]:
    n_rows = draw(st.integers(1, 8))
    features = []
    for kind in draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=5)):
        cells = CELLS[kind] if draw(st.booleans()) else st.none() | CELLS[kind]
        features.append(Feature(kind, draw(st.lists(cells, min_size=n_rows, max_size=n_rows))))
    return features


def spelled(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return "" if value is None else value if isinstance(value, str) else repr(value)


def mixed_csv(features: list[Feature], y: list[int]) -> bytes:
    lines = [",".join([*(f"c{j}" for j in range(len(features))), "y"])]
    for row, label in enumerate(y):
        cells = [spelled(feature.values[row]) for feature in features]
        lines.append(",".join(['"' + cell.replace('"', '""') + '"' for cell in cells] + [str(label)]))
    return "\n".join(lines).encode()


def mixed_ndjson(features: list[Feature], y: list[int]) -> bytes:
    lines = []
    for row, label in enumerate(y):
        cells = {f"c{j}": feature.values[row] for j, feature in enumerate(features)}
        cells = {name: cell for name, cell in cells.items() if row == 0 or cell is not None}
        lines.append(json.dumps({**cells, "y": label}, default=spelled))
    return "\n".join(lines).encode()


def mixed_arrow_table(features: list[Feature], y: list[int]) -> Any:
    types = {"numeric": pa.float64(), "boolean": pa.bool_(), "date": pa.timestamp("us", "UTC")}
    columns = {f"c{j}": pa.array(one.values, types.get(one.kind, pa.string())) for j, one in enumerate(features)}
    return pa.table({**columns, "y": y})


def mixed_parquet(features: list[Feature], y: list[int]) -> bytes:
    file = io.BytesIO()
    pq.write_table(mixed_arrow_table(features, y), file, row_group_size=3)
    return file.getvalue()


def mixed_arrow(features: list[Feature], y: list[int]) -> bytes:
    table, file = mixed_arrow_table(features, y), io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=3)
    return file.getvalue()


MIXED_WRITERS: dict[Format, Callable[[list[Feature], list[int]], bytes]] = {
    "csv": mixed_csv,
    "ndjson": mixed_ndjson,
    "parquet": mixed_parquet,
    "arrow": mixed_arrow,
}


@pytest.mark.parametrize("piece_bytes", [2 << 20, 40])
@settings(
    max_examples=60 * SOAK,
    deadline=None,
    derandomize=SOAK == 1,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(features=mixed_tables())
def test_a_table_of_many_kinds_is_the_same_frame_in_every_format(
    path: Path, piece_bytes: int, features: list[Feature]
) -> None:
    y = [row % 2 for row in range(len(features[0].values))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.datasets.formats.text.PIECE_BYTES", piece_bytes)
        patch.setattr("app.datasets.formats.text.PIECE_RECORDS", 1 if piece_bytes < 100 else 128)
        for format, write in MIXED_WRITERS.items():
            path.write_bytes(write(features, y))
            table = read(path, format, ReadOptions(target="y"))
            assert table.arrays["y"].tolist() == y, format
            for j, feature in enumerate(features):
                assert_feature(table, j, feature, format)


def assert_feature(table: Table, j: int, feature: Feature, format: Format) -> None:
    numbers, column = table.arrays["X"][:, j], table.columns[j]
    present = [value for value in feature.values if value is not None]
    assert column.missing == len(feature.values) - len(present), format
    assert np.isnan(numbers).tolist() == [value is None for value in feature.values], format
    if not present:  # a type may say what no value says
        assert column.kind == "numeric" or format in ("parquet", "arrow")
        return
    found: list[Any] = numbers[~np.isnan(numbers)].tolist()
    assert column.kind == feature.kind, format
    if feature.kind in ("numeric", "boolean"):
        assert found == [float(value) for value in present], format
    elif feature.kind == "date":
        assert found == [(value - EPOCH).total_seconds() for value in present], format
    elif feature.kind == "categorical":
        levels = Strings.stored(table.arrays[f"levels.{j}.bytes"], table.arrays[f"levels.{j}.offsets"]).to_list()
        assert levels == sorted(set(present)), format
        assert [levels[int(code)] for code in found] == present, format
    else:
        texts = Strings.stored(table.arrays[f"text.{j}.bytes"], table.arrays[f"text.{j}.offsets"]).to_list()
        assert texts == [value or "" for value in feature.values], format
        assert found == [len(value) for value in present], format
