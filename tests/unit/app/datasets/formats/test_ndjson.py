"""The ndjson reader: what it accepts and gives, and the exact place and code of what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.datasets.formats import InvalidFile, InvalidOption, ReadOptions, Table, TooLarge, read
from app.tabular.frame import Strings

PLAIN = '{"a": 1, "b": 2.5, "y": "n"}\n{"y": "m", "b": -3e2, "a": 0}\n'


def read_text(folder: Path, text: str | bytes, **options: object) -> Table:
    path = folder / "data.ndjson"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, "ndjson", ReadOptions(**options))  # type: ignore[arg-type]


def refuse(folder: Path, text: str | bytes, **options: object) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read_text(folder, text, **options)
    return caught.value


def test_a_table(tmp_path: Path) -> None:
    table = read_text(tmp_path, PLAIN)
    assert table.arrays["X"].tolist() == [[1, 2.5], [0, -300]]
    assert table.arrays["X"].dtype == np.float64
    assert (table.feature_names, table.target, table.labels) == (["a", "b"], "y", ["m", "n"])
    assert table.arrays["y"].tolist() == [1, 0]
    assert (table.n_rows, table.nnz, table.task_hint) == (2, 3, "binary")


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        "\n \n" + PLAIN.replace("\n", "\n\n\r\n"),
        PLAIN.removesuffix("\n"),
        PLAIN.replace('"a"', '"\\u0061"'),
        PLAIN.replace("{", " { ").replace("}", " } "),
    ],
)
def test_accepted_layouts(tmp_path: Path, text: str) -> None:
    assert read_text(tmp_path, text).arrays["X"].tolist() == [[1, 2.5], [0, -300]]


def test_columns_by_role(tmp_path: Path) -> None:
    text = '{"a": 1, "w": 2, "g": "q", "x": [1], "y": 7}\n{"a": 3, "w": 0, "g": "p", "x": null, "y": 8}\n'
    table = read_text(tmp_path, text + text, weight="w", group="g", ignore=("x",))
    assert table.arrays["X"].tolist() == [[1], [3]] * 2
    assert table.arrays["weight"].tolist() == [2, 0] * 2
    assert table.arrays["group"].tolist() == [0, 1] * 2
    assert table.arrays["y"].tolist() == [7, 8] * 2
    numbered = read_text(tmp_path, text.replace('"q"', "5").replace('"p"', "-7"), group="g", ignore=("x",))
    assert numbered.arrays["group"].tolist() == [0, 1]


def line(**values: str) -> str:
    cells = {"a": "1", "b": "2", "y": '"n"', **values}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in cells.items()) + "}\n"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (line() + line(a='"1"') + line(b="true"), {}, [(2, 1, "not_a_number"), (3, 2, "not_a_number")]),
        (line() + line(y="null") + line(y='" "'), {}, [(2, 3, "missing_value"), (3, 3, "missing_value")]),
        (line() + line(a="NaN") + line(b="1e999"), {}, [(3, 2, "not_finite")]),
        (line() + line(a="[1]") + line(b="{}"), {}, [(2, 1, "not_a_value"), (3, 2, "not_a_value")]),
        (line(a='"p"') + line(a="1") + line(a="true"), {}, [(2, 1, "not_a_string"), (3, 1, "not_a_string")]),
        (line(a="true") + line(a="1") + line(a='"p"'), {}, [(2, 1, "not_a_boolean"), (3, 1, "not_a_boolean")]),
        (line(a="null") + line(a='"p"') + line(a="1"), {}, [(3, 1, "not_a_string")]),
        (line(a='"\\ud800"') + line(a='"p"'), {}, [(None, None, "bad_text")]),
        (line(a='"\\u0000"') + line(a='"p"'), {}, [(None, None, "bad_text")]),
        (line() + line(a="-Infinity") + line(a="9" * 5000), {}, [(2, 1, "not_finite"), (3, 1, "not_finite")]),
        (line() + line(y="3"), {}, [(2, 3, "not_a_string")]),
        (line(y="3") + line(y='"3"'), {}, [(2, 3, "not_a_number")]),
        (line(y="true") + line(y='"true"') + line(y="1"), {}, [(2, 3, "not_a_boolean"), (3, 3, "not_a_boolean")]),
        (line(y="true") + line(y="null"), {}, [(2, 3, "missing_value")]),
        (line() + line(y="true"), {}, [(2, 3, "not_a_string")]),
        (line(y="3") + line(y="true"), {}, [(2, 3, "not_a_number")]),
        (line() + line(c="3"), {}, [(2, None, "unknown_name")]),
        (line() + '{"a": 1, "b": 2}\n', {}, [(2, 3, "missing_value")]),
        (line() + '{"a": 1, "a": 1, "b": 2, "y": "n"}\n', {}, [(2, None, "duplicate_name")]),
        (line() + line(b="-1"), {"weight": "b"}, [(2, 2, "negative_weight")]),
        (line() + line(b="1.5"), {"group": "b"}, [(2, 2, "not_an_integer")]),
        (line() + line(a="0x10") + line(a="1_000"), {}, [(2, 8, "not_json"), (3, 8, "not_json")]),
        (line() + "{\n", {}, [(2, 2, "not_json")]),
        (line() + "[1, 2]\n" + "7\n", {}, [(2, 1, "not_an_object"), (3, 1, "not_an_object")]),
        (line() + line().strip() * 2, {}, [(2, 27, "not_json")]),
        (line() + line().replace(", ", ",\n", 1), {}, [(2, 9, "not_json"), (3, 4, "not_json")]),
        (line() + "[" * 100_000, {}, [(2, None, "not_json")]),
        (line().encode() + b'{"a": "\xff"}\n', {}, [(2, 8, "not_utf8")]),
        (line().encode() + b"\0\n", {}, [(2, 1, "not_json")]),
        (line(y='"\\u0000"'), {}, [(None, None, "bad_text")]),
        (line(y='"\\ud800"'), {}, [(None, None, "bad_text")]),
        (PLAIN.encode("utf-16"), {}, [(1, 1, "not_utf8")]),
        ('{"a": 1}\n', {}, [(1, 1, "one_column")]),
        ("[1]\n", {}, [(1, 1, "not_an_object")]),
        ("", {}, [(None, None, "empty_file")]),
        ("\n \n", {}, [(None, None, "empty_file")]),
    ],
)
def test_faults_and_their_places(
    tmp_path: Path,
    text: str | bytes,
    options: dict[str, object],
    expected: list[tuple[int | None, int | None, str]],
) -> None:
    refusal = refuse(tmp_path, text, **options)
    assert [(error.line, error.column, error.code) for error in refusal.errors] == expected
    assert all(error.detail.isprintable() for error in refusal.errors)


@pytest.mark.parametrize("piece_bytes", [2 << 20, 64])
def test_every_kind_of_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", piece_bytes)
    monkeypatch.setattr("app.datasets.formats.text.PIECE_RECORDS", 1)
    rows: list[dict[str, object]] = [
        {
            "n": 1,
            "late": None,
            "t": True,
            "s": "b",
            "d": "2020-01-01",
            "x": "one two three four five",
            "e": None,
            "y": 1,
        },
        {"n": None, "t": "NA", "s": "a", "d": "", "x": None, "y": 2},
        {"n": "?", "late": "-", "t": False, "s": None, "d": "2020-01-02", "x": "ü, seven eight nine ten", "y": 1},
        {"n": 4.5, "late": "z", "t": None, "s": "b", "d": None, "x": "one two three four five", "e": "n/a", "y": 2},
    ]
    table = read_text(tmp_path, "\n".join(map(json.dumps, rows)))
    features = [column for column in table.columns if column.role == "feature"]
    assert [(column.name, column.kind, column.missing) for column in features] == [
        ("n", "numeric", 2),
        ("late", "categorical", 2),
        ("t", "boolean", 2),
        ("s", "categorical", 1),
        ("d", "date", 2),
        ("x", "text", 1),
        ("e", "numeric", 4),
    ]
    X = np.where(np.isnan(table.arrays["X"]), None, table.arrays["X"])
    day = 1577836800
    assert X.T.tolist() == [
        [1, None, None, 4.5],
        [None, None, 0, 1],
        [1, None, 0, None],
        [1, 0, None, 1],
        [day, None, day + 86_400, None],
        [23, None, 23, 23],
        [None] * 4,
    ]
    levels = Strings.stored(table.arrays["levels.1.bytes"], table.arrays["levels.1.offsets"])
    assert levels.to_list() == ["-", "z"]
    guessed, warning = table.warnings
    assert guessed.code == "target_guessed"
    assert (warning.code, "'n': 1 '?'" in warning.detail) == ("marked_missing", True)


def test_the_first_twenty_faults_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    refusal = refuse(tmp_path, line() + line(y="null") * 50)
    assert [error.line for error in refusal.errors] == list(range(2, 22))
    assert refusal.more == 30


@pytest.mark.parametrize("options", [{"target": "nope"}, {"header": "true"}, {"n_features": 3}, {"missing": ("NA",)}])
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_text(tmp_path, PLAIN, **options)
    assert caught.value.field == next(iter(options))


def test_many_pieces_and_a_late_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", 1 << 12)
    lines = [line(a=repr(k / 7)) for k in range(2_000)]
    assert np.array_equal(read_text(tmp_path, "".join(lines)).arrays["X"][:, 0], np.arange(2_000) / 7)
    lines[1_900] = line(a="false")
    assert [(error.line, error.column) for error in refuse(tmp_path, "".join(lines)).errors] == [(1_901, 1)]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.text.MAX_LINE_BYTES", 1 << 16)
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", 1 << 12)
    late = refuse(tmp_path, line() + line() + "1" * (1 << 20)).errors[0]
    assert (late.line, late.code) == (3, "line_too_long")


def test_a_key_that_is_not_known_is_found_beside_ignored_ones(tmp_path: Path) -> None:
    text = '{"a": 1, "z": [1], "y": 1}\n{"a": 2, "z": "x", "y": 0}\n'
    assert read_text(tmp_path, text, ignore=("z",)).arrays["X"].tolist() == [[1], [2]]
    error = refuse(tmp_path, text + '{"a": 2, "q": 1, "y": 0}\n', ignore=("z",)).errors[0]
    assert (error.line, error.code) == (3, "unknown_name")


def test_lines_that_lack_most_keys_are_refused_where_they_expand_far(tmp_path: Path) -> None:
    first = json.dumps({**{f"k{j}": 1 for j in range(2000)}, "y": 1}) + "\n"
    assert read_text(tmp_path, first + '{"y":0}\n' * 100).arrays["X"].shape == (101, 2000)
    with pytest.raises(TooLarge, match="100 times its size; leave out keys that few lines have"):
        read_text(tmp_path, first + '{"y":0}\n' * 5000)
    assert read_text(tmp_path, first + "\n" * 5000).arrays["X"].shape == (1, 2000), "blank lines are no rows"
