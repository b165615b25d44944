"""Messy files are read as their clean twins, or a warning or an error names the column and the cure."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.datasets.formats import InvalidFile, ReadOptions, Table, read
from app.tabular.frame import Strings

N_ROWS = 40
AMOUNTS = [round(math.sin(k) * 5000 + k / 8, 2) for k in range(N_ROWS)]
SHARES = [round((k * 7919) % 997 / 10, 1) for k in range(N_ROWS)]
DAYS = [(2024, 1 + k % 12, 1 + (5 * k) % 28) for k in range(N_ROWS)]
CITIES = ["Köln", "Genève", "Łódź"]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

Cells = list[str]


def plain(name: str) -> Cells:
    """The cells of the clean twin."""
    columns: dict[str, Cells] = {
        "amount": [repr(amount) for amount in AMOUNTS],
        "share": [repr(share) for share in SHARES],
        "day": [f"{y}-{m:02}-{d:02}" for y, m, d in DAYS],
        "city": [CITIES[k % 3] for k in range(N_ROWS)],
        "paid": ["true" if k % 3 else "false" for k in range(N_ROWS)],
        "label": ["ab"[k % 2] for k in range(N_ROWS)],
    }
    return columns[name]


NAMES = ["amount", "share", "day", "city", "paid", "label"]


def grouped(number: float, thousands: str, decimal: str) -> str:
    return f"{number:,.2f}".replace(",", "§").replace(".", decimal).replace("§", thousands)


def german(number: float) -> str:
    return grouped(number, ".", ",")


def text_of(columns: dict[str, Cells], delimiter: str = ",") -> str:
    quoted = {name: [f'"{cell}"' if delimiter in cell else cell for cell in cells] for name, cells in columns.items()}
    lines = [delimiter.join(columns), *(delimiter.join(row) for row in zip(*quoted.values(), strict=True))]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Messy:
    """Columns of a file that differ from the clean twin, its delimiter and encoding, and what must be said."""

    cells: dict[str, Callable[[int], str]] = field(default_factory=dict)
    delimiter: str = ","
    encoding: str = "utf-8"
    options: dict[str, Any] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    first: str = ""
    """A column before the others: its name, which can be empty. Its cells number the rows."""


def of(column: str, write: Callable[[int], str], *says: str, **more: Any) -> Messy:
    return Messy({column: write}, says=says, **more)


CASES: dict[str, Messy] = {
    "semicolons": Messy(delimiter=";", says=("delimiter_guessed",)),
    "tabs": Messy(delimiter="\t", says=("delimiter_guessed",)),
    "vertical bars": Messy(delimiter="|", says=("delimiter_guessed",)),
    "UTF-8 with a byte order mark": Messy(encoding="utf-8-sig"),
    "UTF-16 with a byte order mark": Messy(encoding="utf-16", says=("encoding_guessed",)),
    "UTF-16 little-endian": Messy(encoding="utf-16-le", says=("encoding_guessed",)),
    "UTF-16 big-endian": Messy(encoding="utf-16-be", says=("encoding_guessed",)),
    "decimal commas": of("amount", lambda k: repr(AMOUNTS[k]).replace(".", ",")),
    "decimal commas and semicolons": of("amount", lambda k: repr(AMOUNTS[k]).replace(".", ","), delimiter=";"),
    "German thousands": of("amount", lambda k: german(AMOUNTS[k]), delimiter=";"),
    "two German columns": Messy(
        {"amount": lambda k: german(AMOUNTS[k]), "share": lambda k: repr(SHARES[k]).replace(".", ",")}, ";"
    ),
    "US thousands": of("amount", lambda k: grouped(AMOUNTS[k], ",", ".")),
    "spaces for thousands": of("amount", lambda k: grouped(AMOUNTS[k], " ", ",")),
    "no-break spaces for thousands": of("amount", lambda k: grouped(AMOUNTS[k], "\u202f", ",")),
    "Swiss apostrophes": of("amount", lambda k: grouped(AMOUNTS[k], "'", ".")),
    "dollars": of("amount", lambda k: ("-$" if AMOUNTS[k] < 0 else "$") + grouped(abs(AMOUNTS[k]), ",", ".")),
    "euros behind": of("amount", lambda k: f"{german(AMOUNTS[k])} €", delimiter=";"),
    "pounds": of("amount", lambda k: f"£{AMOUNTS[k]}"),
    "currency codes": of("amount", lambda k: f"EUR {AMOUNTS[k]}"),
    "currency codes behind": of("amount", lambda k: f"{AMOUNTS[k]} USD"),
    "negatives in parentheses": of("amount", lambda k: f"({-AMOUNTS[k]})" if AMOUNTS[k] < 0 else repr(AMOUNTS[k])),
    "a real minus sign": of("amount", lambda k: repr(AMOUNTS[k]).replace("-", "\u2212")),
    "percent": of("share", lambda k: f"{SHARES[k]}%"),
    "percent after a space": of("share", lambda k: f"{SHARES[k]} %"),
    "German dates": of("day", lambda k: "{2:02}.{1:02}.{0}".format(*DAYS[k])),
    "German dates without zeros": of("day", lambda k: "{2}.{1}.{0}".format(*DAYS[k])),
    "US dates": of("day", lambda k: "{1}/{2}/{0}".format(*DAYS[k])),
    "British dates": of("day", lambda k: "{2:02}/{1:02}/{0}".format(*DAYS[k])),
    "dates with slashes": of("day", lambda k: "/".join(map(str, DAYS[k]))),
    "short US dates": of("day", lambda k: "{1:02}/{2:02}/24".format(*DAYS[k])),
    "names of months": of("day", lambda k: f"{DAYS[k][2]} {MONTHS[DAYS[k][1] - 1]} 2024"),
    "names of months first": of("day", lambda k: f"{MONTHS[DAYS[k][1] - 1]} {DAYS[k][2]}, 2024"),
    "days as 05-Jan-2024": of("day", lambda k: f"{DAYS[k][2]:02}-{MONTHS[DAYS[k][1] - 1]}-2024"),
    "yes and no": of("paid", lambda k: "Yes" if k % 3 else "No"),
    "Y and N": of("paid", lambda k: "Y" if k % 3 else "N"),
    "T and F": of("paid", lambda k: "T" if k % 3 else "F"),
    "a nameless index": Messy(first="", says=("index_left_out",)),
    "the index of pandas": Messy(first="Unnamed: 0", says=("index_left_out",)),
    "an identifier": Messy(first="customer_id", says=("identifier_left_out",)),
}


def written(case: Messy) -> bytes:
    columns = {case.first: [str(k) for k in range(N_ROWS)]} if (case.first or "index_left_out" in case.says) else {}
    for name in NAMES:
        columns[name] = [case.cells[name](k) for k in range(N_ROWS)] if name in case.cells else plain(name)
    return text_of(columns, case.delimiter).encode(case.encoding)


def read_bytes(folder: Path, content: bytes, **options: Any) -> Table:
    path = folder / "data.csv"
    path.write_bytes(content)
    return read(path, "csv", ReadOptions(**options))


def understood(table: Table) -> dict[str, list[Any]]:
    """The values of each feature by name."""
    values: dict[str, list[Any]] = {}
    for number, name in enumerate(table.feature_names or []):
        numbers = table.arrays["X"][:, number].tolist()
        if f"levels.{number}.bytes" in table.arrays:
            parts = (table.arrays[f"levels.{number}.{part}"] for part in ("bytes", "offsets"))
            levels = Strings.stored(*parts).to_list()
            numbers = [None if math.isnan(value) else levels[int(value)] for value in numbers]
        values[name] = numbers
    return values


def said(table: Table, code: str) -> str:
    return next(warning.detail for warning in table.warnings if warning.code == code)


CLEAN = text_of({name: plain(name) for name in NAMES}).encode()


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("piece_bytes", [2 << 20, 512])
def test_a_messy_file_has_the_features_of_its_clean_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, piece_bytes: int
) -> None:
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", piece_bytes)
    monkeypatch.setattr("app.datasets.formats.text.PIECE_RECORDS", 1)
    case = CASES[kind]
    clean, messy = read_bytes(tmp_path, CLEAN), read_bytes(tmp_path, written(case), **case.options)
    assert understood(messy) == understood(clean)
    assert (messy.labels, messy.arrays["y"].tolist()) == (clean.labels, clean.arrays["y"].tolist())
    kinds = {column.name: column.kind for column in messy.columns if column.role == "feature"}
    assert kinds == {"amount": "numeric", "share": "numeric", "day": "date", "city": "categorical", "paid": "boolean"}
    delimiter = set() if case.delimiter == "," else {"delimiter_guessed"}
    assert {warning.code for warning in messy.warnings} == {"header_guessed", "target_guessed", *case.says} | delimiter


def test_western_text_is_recognised_if_it_is_not_utf_8(tmp_path: Path) -> None:
    clean = CLEAN.replace("Łódź".encode(), "Zürich".encode())
    table = read_bytes(tmp_path, clean.decode().encode("windows-1252"))
    assert understood(table) == understood(read_bytes(tmp_path, clean))
    assert "Windows-1252" in said(table, "encoding_guessed")
    named = read_bytes(tmp_path, clean.decode().encode("windows-1252"), charset="latin-1")
    assert "encoding_guessed" not in [warning.code for warning in named.warnings]


def test_codes_with_leading_zeros_are_words(tmp_path: Path) -> None:
    rows = "".join(f"{code},{k},{'ab'[k % 2]}\n" for k, code in enumerate(["01067", "10115", "20095", "01067"]))
    table = read_bytes(tmp_path, f"zip,x,label\n{rows}".encode())
    assert understood(table)["zip"] == ["01067", "10115", "20095", "01067"]
    assert "'zip': '01067'" in said(table, "codes_kept")
    assert "columns=<name>:numeric" in said(table, "codes_kept")
    as_numbers = read_bytes(tmp_path, f"zip,x,label\n{rows}".encode(), columns=(("zip", "numeric"),))
    assert understood(as_numbers)["zip"] == [1067, 10115, 20095, 1067]


def one_column(folder: Path, cells: Cells, **options: Any) -> Table:
    rows = "".join(f'"{cell}",{k % 7}.5,{"ab"[k % 2]}\n' for k, cell in enumerate(cells))
    return read_bytes(folder, f"x,other,label\n{rows}".encode(), **options)


@pytest.mark.parametrize(
    ("cells", "code", "says", "options", "values"),
    [
        (["1,234", "5,678"], "number_format_guessed", "decimal or thousands", {"decimal": ","}, [1.234, 5.678]),
        (["01/02/2024", "03/04/2024"], "date_order_guessed", "Set date_order", {"date_order": "dmy"}, None),
        (["13/02/2024", "02/13/2024"], "date_orders_mixed", "Set date_order", {}, None),
        (["5 €", "7 $"], "mixed_units", "columns=<name>:numeric", {"columns": (("x", "numeric"),)}, [5, 7]),
        (["5%", "7"], "mixed_units", "one unit", {}, ["5%", "7"]),
        (["5", "seven"], "mixed_column", "missing", {"missing": ("seven",)}, [5, None]),
    ],
)
def test_what_can_be_read_in_two_ways_is_said_with_the_cure(
    tmp_path: Path, cells: Cells, code: str, says: str, options: dict[str, Any], values: list[Any] | None
) -> None:
    detail = said(one_column(tmp_path, cells), code)
    assert "'x'" in detail
    assert says in detail or says.lower() in detail
    if values is not None:
        found = understood(one_column(tmp_path, cells, **options))["x"]
        assert [None if isinstance(value, float) and math.isnan(value) else value for value in found] == values


def test_a_dot_for_thousands_in_a_file_with_decimal_commas_is_said(tmp_path: Path) -> None:
    rows = "".join(f"1.{200 + k};{k},5;{'ab'[k % 2]}\n" for k in range(30))
    table = read_bytes(tmp_path, f"people;size;label\n{rows}".encode())
    assert understood(table)["people"] == [1200 + k for k in range(30)]
    assert "'people': '1.200' was read as 1200, but can mean 1.2" in said(table, "number_format_guessed")


def test_numeric_labels_beside_decimal_commas_stay_numbers(tmp_path: Path) -> None:
    rows = [f"{k},5;{k % 3}" for k in range(30)]
    for options in ({}, {"decimal": ","}):
        table = read_bytes(tmp_path, ("size;label\n" + "\n".join(rows)).encode(), **options)
        assert table.arrays["y"].tolist() == [k % 3 for k in range(30)]
        assert table.class_counts == [(0, 10), (1, 10), (2, 10)]
    people = [f"{k},5;1.{200 + k}" for k in range(30)]
    table = read_bytes(tmp_path, ("size;people\n" + "\n".join(people)).encode())
    assert table.arrays["y"].tolist() == [1200 + k for k in range(30)]
    assert "'people'" in said(table, "number_format_guessed")


def test_stray_cells_keep_a_column_numeric_and_are_listed_with_their_rows(tmp_path: Path) -> None:
    cells = [str(k / 4) for k in range(100)]
    cells[7], cells[63] = "about 2", "> 9000"
    table = one_column(tmp_path, cells)
    assert [k for k, value in enumerate(understood(table)["x"]) if math.isnan(value)] == [7, 63]
    assert "'x': row 8 'about 2', row 64 '> 9000'" in said(table, "stray_cells")
    assert "96 of 100" in next(
        c.reason or "" for c in one_column(tmp_path, [*cells[:96], "a", "b", *cells[:2]]).columns
    )


def test_rows_without_a_label_are_refused_or_left_out(tmp_path: Path) -> None:
    text = "x,z,label\n" + "".join(f"{k % 5},{k}.5,{'' if k in (3, 9) else 'ab'[k % 2]}\n" for k in range(30))
    with pytest.raises(InvalidFile, match="on_missing_target=drop"):
        read_bytes(tmp_path, text.encode())
    table = read_bytes(tmp_path, text.encode(), on_missing_target="drop")
    assert (table.n_rows, len(table.arrays["y"])) == (28, 28)
    assert table.arrays["X"][:, 1].tolist() == [k + 0.5 for k in range(30) if k not in (3, 9)]
    assert said(table, "rows_dropped").startswith("2 rows")
    numbers = text.replace("a\n", "1\n").replace("b\n", "2\n").encode()
    assert read_bytes(tmp_path, numbers, on_missing_target="drop").n_rows == 28


def test_a_file_without_labels_keeps_all_columns_and_blanks(tmp_path: Path) -> None:
    text = "customer_id,x,z\n" + "".join(f"{k},{'' if k == 4 else k % 5},w{k}\n" for k in range(30))
    table = read_bytes(tmp_path, text.encode(), target="none")
    assert table.feature_names == ["customer_id", "x", "z"]
    assert (table.task_hint, table.target, "y" in table.arrays) == (None, None, False)
    assert np.isnan(table.arrays["X"][4, 1])


def test_the_target_is_found_by_its_name(tmp_path: Path) -> None:
    table = read_bytes(tmp_path, b"Churn,a,b\nyes,1,2\nno,3,4\n")
    assert (table.target, table.feature_names) == ("Churn", ["a", "b"])
    assert "because of its name" in said(table, "target_guessed")
    assert read_bytes(tmp_path, b"x,y,z\n1,2,3\n1,2,4\n").target == "z"
    assert "target_guessed" not in [w.code for w in read_bytes(tmp_path, b"a,b\n1,2\n2,3\n", target="b").warnings]


def test_labels_in_a_format_are_numbers(tmp_path: Path) -> None:
    text = "a;price\n" + "".join(f"{k % 7};{german(1000.5 + k)} €\n" for k in range(120))
    table = read_bytes(tmp_path, text.encode())
    assert table.arrays["y"].tolist() == [1000.5 + k for k in range(120)]
    assert table.task_hint == "regression"
    assert table.columns[-1].format == {"decimal": ",", "thousands": ".", "unit": "EUR"}
    with pytest.raises(InvalidFile, match=r"'price' has 'unknown' in row 121.*on_missing_target=drop"):
        read_bytes(tmp_path, (text + "3;unknown\n").encode())


def test_a_text_target_of_different_values_is_refused(tmp_path: Path) -> None:
    text = "a,name\n" + "".join(f"{k},person {k}\n" for k in range(50))
    with pytest.raises(InvalidFile, match=r"The target 'name' has 50 different texts in 50 rows.*Set target"):
        read_bytes(tmp_path, text.encode())


def test_columns_that_are_left_out_are_stored_apart(tmp_path: Path) -> None:
    rows = "".join(f"u{k},{k % 3},n{k % 2} of many words here {k},{'ab'[k % 2]}\n" for k in range(30))
    text = f"user,x,note,label\n{rows}".encode()
    table = read_bytes(tmp_path, text)
    assert table.feature_names == ["x", "note"]
    (left_out,) = [column for column in table.columns if column.role == "ignored"]
    assert (left_out.name, left_out.kind) == ("user", "categorical")
    assert "'user'" in said(table, "identifier_left_out")
    assert table.arrays["ignored.X"].shape == (30, 1)
    assert "ignored.levels.0.bytes" in table.arrays
    assert "text.1.bytes" in table.arrays
    kept = read_bytes(tmp_path, text, columns=(("user", "feature"),))
    assert kept.feature_names == ["user", "x", "note"]
