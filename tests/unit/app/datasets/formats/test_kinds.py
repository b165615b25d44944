"""Columns that are more than numbers: how their kind is guessed, what is stored of them, and what is said about it."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.datasets.formats import ReadOptions, Table, read
from app.tabular.cells import is_mark, read_boolean
from app.tabular.date_text import read_date
from app.tabular.frame import Strings

PIECE_BYTES = "app.datasets.formats.text.PIECE_BYTES"
TINY = 1 << 10


def read_column(folder: Path, cells: list[str], **options: Any) -> Table:
    """A CSV file of one feature, named x, each cell quoted, and as many labels."""
    path = folder / "data.csv"
    quoted = ('"' + cell.replace('"', '""') + '"' for cell in cells)
    lines = [f"{cell},{'ab'[row % 2]}" for row, cell in enumerate(quoted)]
    path.write_text("\n".join(["x,y", *lines]), newline="")
    return read(path, "csv", ReadOptions(header="true", **options))


def strings(table: Table, name: str) -> list[str]:
    return Strings.stored(table.arrays[f"{name}.bytes"], table.arrays[f"{name}.offsets"]).to_list()


def values(table: Table) -> list[Any]:
    """The cells of the feature as they are understood: None where there is no value."""
    (kind,) = [column.kind for column in table.columns if column.role == "feature"]
    numbers: list[float] = table.arrays["X"][:, 0].tolist()
    levels = strings(table, "levels.0") if kind == "categorical" else []
    texts = strings(table, "text.0") if kind == "text" else []
    shown = []
    for row, number in enumerate(numbers):
        if np.isnan(number):
            assert kind != "text" or texts[row] == ""
            shown.append(None)
        elif kind == "text":
            assert len(texts[row]) == number
            shown.append(texts[row])
        else:
            shown.append(levels[int(number)] if kind == "categorical" else number)
    return shown


def words(rng: random.Random, count: int) -> str:
    return " ".join("".join(rng.choices("abcdefgh", k=rng.randrange(2, 9))) for _ in range(count))


RNG = random.Random(0)
NAMES = [f"{words(RNG, 1)}, {words(RNG, 2)}" for _ in range(300)]
MESSAGES = [words(RNG, RNG.randrange(1, 30)) for _ in range(300)]
CITIES = [f"city{k % 5000}" for k in range(20_000)]
TITLES = ["Sales and marketing manager", "Chief of staff", "Nurse"]


@pytest.mark.parametrize(
    ("cells", "kind", "reason"),
    [
        (["1", "-2.5", "3e4"], "numeric", "all 3 cells are numbers"),
        (["1", "", " ", "4"], "numeric", "2 of 4 cells are numbers, and the others are missing"),
        (["", ""], "numeric", "0 of 2 cells are numbers, and the others are missing"),
        (["true", "FALSE", " True "], "boolean", "every value is true or false"),
        (["no", "no"], "boolean", "every value is yes or no"),
        (["T", "f", ""], "boolean", "every value is true or false"),
        (["Y", "n", "yes"], "boolean", "every value is yes or no"),
        (["yes", "false"], "categorical", "2 distinct values"),
        (
            ["2024-02-29", "1969-12-31T23:59:59.5Z", "2000-01-01 12:00"],
            "date",
            "every value is an ISO date or time",
        ),
        (["2024-02-30", "2024-02-01"], "categorical", "2 distinct values"),
        (["red", "blue", "red", ""], "categorical", "2 distinct values"),
        (["2", "3", "4", "5more", "5more"], "categorical", "4 distinct values"),
        (CITIES, "categorical", "5000 distinct values"),
        (TITLES * 100, "categorical", "3 distinct values"),
        (NAMES, "text", "text: 3.0 words per cell on average"),
        (MESSAGES, "text", f"text: {sum(len(m.split()) for m in MESSAGES) / 300:.1f} words per cell on average"),
        (["win a prize now, call us", "see you at the usual place"] * 2, "text", "text: 6.0 words per cell on average"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [2 << 20, TINY])
def test_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, cells: list[str], kind: str, reason: str
) -> None:
    monkeypatch.setattr(PIECE_BYTES, piece_bytes)
    table = read_column(tmp_path, cells)
    column = table.columns[0]
    assert (column.name, column.role, column.kind, column.reason) == ("x", "feature", kind, reason)
    expected: list[Any] = [cell if cell.strip() else None for cell in cells]
    read_cell = {"numeric": float, "boolean": read_boolean, "date": read_date}.get(kind, str)
    assert values(table) == [None if cell is None else read_cell(cell) for cell in expected]
    assert column.missing == expected.count(None)
    assert table.arrays["X"].dtype == np.float64
    assert table.nnz == np.count_nonzero(np.nan_to_num(table.arrays["X"]))
    assert column.levels == (len(set(cells) - {""}) if kind == "categorical" else None)
    if kind == "categorical":
        levels = strings(table, "levels.0")
        assert levels == sorted(levels)


def codes(table: Table) -> list[str]:
    return [warning.code for warning in table.warnings]


def test_well_known_marks_are_missing_values_among_numbers_and_reported(tmp_path: Path) -> None:
    marks = ["NA", "n/a", "NaN", "null", "None", "?", "-", " - "]
    table = read_column(tmp_path, [*marks, "1", "2"])
    assert values(table) == [None] * 8 + [1, 2]
    (warning,) = [warning for warning in table.warnings if warning.code == "marked_missing"]
    assert "'x': 2 '-' and 1 'NA'" in warning.detail
    assert (table.columns[0].kind, table.columns[0].missing) == ("numeric", 8)
    assert values(read_column(tmp_path, ["yes", "?", "no"])) == [1, None, 0]
    assert values(read_column(tmp_path, ["2020-01-01", "NA"])) == [read_date("2020-01-01"), None]
    among_words = read_column(tmp_path, ["red", "?", "blue", "NA"])
    assert (values(among_words), codes(among_words)) == (["red", "?", "blue", "NA"], ["target_guessed"])
    assert values(read_column(tmp_path, ["red", "?", "blue"], missing=("?",))) == ["red", None, "blue"]


@pytest.mark.parametrize("where", [0, 700, 2999])
@pytest.mark.parametrize("late", [2 << 20, TINY])
def test_a_few_stray_words_among_numbers_are_missing_values_with_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: int, late: int
) -> None:
    monkeypatch.setattr(PIECE_BYTES, late)
    cells = [repr(k / 7) for k in range(3000)]
    cells[where] = "unknown"
    cells[1500] = "?"
    table = read_column(tmp_path, cells)
    (warning,) = [one for one in table.warnings if one.code == "stray_cells"]
    assert f"'x': row {where + 1} 'unknown'" in warning.detail
    assert "name them in missing" in warning.detail
    assert "columns=<name>:categorical" in warning.detail
    assert (table.columns[0].kind, table.columns[0].missing) == ("numeric", 2)
    expected = [k / 7 if k not in (where, 1500) else None for k in range(3000)]
    assert values(table) == expected
    named = read_column(tmp_path, cells, missing=("unknown",))
    assert values(named) == expected
    assert "stray_cells" not in codes(named)


def test_many_words_among_numbers_are_categories_with_a_warning(tmp_path: Path) -> None:
    table = read_column(tmp_path, ["1", "2", "unknown", "unknown"])
    assert values(table) == ["1", "2", "unknown", "unknown"]
    (warning,) = [one for one in table.warnings if one.code == "mixed_column"]
    assert "2 of 4 cells are numbers" in warning.detail
    assert "row 3 'unknown'" in warning.detail
    as_numbers = read_column(tmp_path, ["1", "2", "unknown", "unknown"], columns=(("x", "numeric"),))
    assert values(as_numbers) == [1, 2, None, None]
    assert codes(as_numbers) == ["target_guessed", "stray_cells"]


def test_identifiers_are_warned_about(tmp_path: Path) -> None:
    """The only feature is not left out."""
    table = read_column(tmp_path, [f"u{k}" for k in range(50)])
    assert (table.columns[0].kind, codes(table)) == ("categorical", ["target_guessed", "identifier_like"])
    assert "'x'" in table.warnings[-1].detail
    assert codes(read_column(tmp_path, [f"u{k}" for k in range(49)] + ["u0"])) == ["target_guessed"]


@pytest.mark.parametrize("bound", ["MAX_LEVELS", "MAX_LEVEL_BYTES", "MAX_BUDGET"])
def test_too_many_levels_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(PIECE_BYTES, TINY)
    monkeypatch.setattr(f"app.datasets.formats.words.{bound}", 300)
    cells = [f"u{k % 900}" for k in range(2000)]
    table = read_column(tmp_path, cells)
    assert (table.columns[0].kind, table.columns[0].reason) == ("text", "too many distinct values to be categories")
    assert values(table) == cells
    dates = [f"20{k % 100:02}-01-{1 + k % 28:02}" for k in range(2000)]
    assert read_column(tmp_path, dates).columns[0].kind == "date"
    numbers = [repr(k / 7) for k in range(2000)]
    assert read_column(tmp_path, [*numbers, "oops"]).columns[0].kind == "numeric"


@pytest.mark.parametrize(
    ("first", "then", "kind"),
    [
        (["5"] * 500, ["red", "green"] * 20, "categorical"),
        (["yes"] * 500, ["maybe"] * 20, "categorical"),
        (["2020-01-01"] * 500, ["soon"] * 40, "categorical"),
        (TITLES * 200, MESSAGES * 3, "text"),
        (MESSAGES, TITLES * 2000, "categorical"),
        (["red"] * 500, NAMES * 3, "categorical"),
    ],
)
def test_a_kind_that_turns_out_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: list[str], then: list[str], kind: str
) -> None:
    monkeypatch.setattr(PIECE_BYTES, TINY)
    table = read_column(tmp_path, first + then)
    assert table.columns[0].kind == kind
    assert values(table) == first + then


def test_columns_that_reveal_words_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIECE_BYTES, TINY)
    monkeypatch.setattr("app.datasets.formats.csv.PEEKED_BYTES", 10)
    rows = [["1"] * 12 for _ in range(2400)]
    for column in range(12):
        for row in range(200 * column, 200 * column + 160):
            rows[row][column] = "red"
    path = tmp_path / "data.csv"
    path.write_text("\n".join(",".join([*row, "ab"[k % 2]]) for k, row in enumerate(rows)))
    table = read(path, "csv", ReadOptions(header="false"))
    assert [column.name for column in table.columns] == [str(number) for number in range(13)]
    assert {column.kind for column in table.columns} == {"categorical"}
    assert table.arrays["X"].tolist() == [[float(cell == "red") for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00", 0),
        ("1970-01-01 00:00:01,25", 1.25),
        ("1970-01-01T02:00:00+0200", 0),
        ("1969-12-31T22:00:00-02:00", 0),
        ("0001-01-01T00:00:00+14:00", -62135647200),
        ("2024-02-29T12:00:00.123456789Z", 1709208000.123456),
        ("9999-12-31T23:59:59", 253402300799),
        *((text, None) for text in ("2024-02-30", "24-01-01", "20240101", "2024", "٢٠٢٤-01-01", "now", "")),
        *(
            (text, None)
            for text in ("2024-01-01T25:00", "2024-01-01T10:00+99:00", "0000-01-01", "2024-01-01" + "0" * 99)
        ),
    ],
)
def test_spelled_dates(text: str, seconds: float | None) -> None:
    assert read_date(text) == seconds


def test_spelled_booleans_and_marks() -> None:
    assert [read_boolean(text) for text in ("TRUE", " yes", "t", "y", "False", "NO", "f", "n", "1", "")] == [
        *[1.0] * 4,
        *[0.0] * 4,
        *[None] * 2,
    ]
    assert all(map(is_mark, ["NA", "na", "N/A", "nan", "NULL", "None", "?", "-", " - "]))
    assert not any(map(is_mark, ["", "--", "no", "n.a.", "x" * 10_000]))
