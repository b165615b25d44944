"""Mutated text against slow references: the same verdict, the same place, the same bits; no crash.

The references are written from the format's rules alone, character by character or by regular
expression. scikit-learn's svmlight reader is more lenient; what we accept it must read alike.
"""

import io
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from app.datasets.formats import InvalidFile, ReadOptions, Table, read
from app.tabular.frame import Strings
from tests.support.builders import SOAK
from tests.support.csv_reference import NUMBER, Expected, reference_csv, spells_number

N_CASES = 800 if SOAK == 1 else 3_000 * SOAK  # `make soak`: 10^6 lines over the five tests that take mutants


LIBSVM_SEEDS = [
    "1 1:0.5 3:-2e3 10:7\n-1 2:1\n1 1:1 2:2 3:3\n",
    "+1 qid:1 1:1.25\n-1 qid:1 2:0.1\n2 qid:12 1:3 # comment\n",
    "0 0:1 5:2\r\n1 1:3\r\n\r\n# x\r\n3\r\n",
    "1.5 7:1e-5\t9:12345678901234567890\n-2.5 1:.5 3:4.",
]
LIBSVM_PIECES = [
    *"0123456789",
    " ",
    "\t",
    ":",
    "#",
    "\n",
    "\r",
    "-",
    "+",
    ".",
    "e",
    "x",
    "qid:",
    "nan",
    "1e999",
    "\0",
    "é",
]
CSV_SEEDS = [
    "a,b,c\n1,2,x\n3.5,-4e1,y\n0,0,x\n",
    'a,"b, ""q""",c\r\n1,2,"x\r\ny"\r\n"3",4,z\r\n',
    "1,2,3\n4,5,6\n\n7,8,9",
    'h,i\n1,"p,q"\n2,r\n',
    "a,b,c,d\nred,yes,1,x\nblue,,2,x\nred,no,?,y\n,no,4,x\n",
    'a,b\n"win a prize, call us now",p\n"see you at the usual place",q\n',
]
CSV_PIECES = [
    *"0123456789",
    ",",
    '"',
    '""',
    "\n",
    "\r",
    "\r\n",
    " ",
    "-",
    ".",
    "e",
    "x",
    "nan",
    "1e999",
    "\0",
    "é",
    "NA",
]


PLAIN = ReadOptions(target="-1", delimiter=",", decimal=".", thousands="none")
"""Of what is guessed, only what the reference knows."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats") / "data"


def mutate(rng: random.Random, seeds: list[str], pieces: list[str]) -> str:
    text = rng.choice(seeds)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 5])):
        at = rng.randrange(len(text) + 1)
        until = min(len(text), at + rng.choice([0, 0, 1, 1, 2, 8]))
        text = text[:at] + rng.choice(["", rng.choice(pieces), rng.choice(pieces)]) + text[until:]
    return text


def cases(seeds: list[str], pieces: list[str]) -> Iterator[tuple[str, str]]:
    seed = random.randrange(2**32) if SOAK > 1 else 0
    rng = random.Random(seed)
    n_lines = 0
    for k in range(N_CASES):
        text = mutate(rng, seeds, pieces)
        n_lines += 1 + text.count("\n")
        yield text, f"seed {seed}, case {k}: {text!r}"
    print(f"{N_CASES} mutated texts of {n_lines} lines, seed {seed}")


def judge(path: Path, format: str, text: str | bytes, options: ReadOptions) -> Table | tuple[int | None, int | None]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        return read(path, format, options)  # type: ignore[arg-type]
    except InvalidFile as refusal:
        errors = refusal.errors
    assert errors
    assert all(len(error.detail) < 250 and error.detail.isprintable() for error in errors)
    return errors[0].line, errors[0].column


def reference_libsvm(text: str) -> Expected:
    expected = Expected()
    raw = text.encode().split(b"\n")
    for number, line in enumerate(raw, start=1):
        content = line.decode("latin-1")  # a column counts bytes
        content = content[:-1] if content.endswith("\r") and "#" not in content else content
        body, _, comment = content.partition("#")
        tokens = [(match.start() + 1, match.group()) for match in re.finditer(r"[^ \t\r]+", body)]
        fault = find_libsvm_fault(expected, tokens, body, comment)
        if fault is not None:
            expected.fault = number, fault
            return expected
    if not any(row for _, row in expected.rows):
        expected.fault = None, None
    return expected


def find_libsvm_fault(expected: Expected, tokens: list[tuple[int, str]], body: str, comment: str) -> int | None:
    """The column of a line's first fault; adds the line to the rows if there is none.

    A number beyond the range counts only in a row that has no other fault.
    """
    at_end = body.find("\r") + 1
    if at_end:
        tokens = [(column, token) for column, token in tokens if column < at_end]
    elif "\0" in comment:
        at_end = len(body) + 2 + comment.find("\0")
    if not tokens:
        return at_end or None
    beyond = 0
    column, label = tokens.pop(0)
    if not NUMBER.fullmatch(label):
        return column
    if math.isinf(float(label)):
        beyond = column
    if tokens and tokens[0][1].startswith("qid:"):
        column, token = tokens.pop(0)
        if not re.fullmatch("qid:[0-9]+", token) or int(token[4:]) >= 10**18:
            return column
        if len(expected.groups) < len(expected.rows):
            return column
        expected.groups.append(int(token[4:]))
    elif expected.groups:
        return tokens[0][0] if tokens else len(body[: body.find("\r")] if "\r" in body else body) + 1
    row: dict[int, float] = {}
    last = -1
    repeated = 0
    for column, token in tokens:
        match = re.fullmatch("([0-9]+):(.*)", token)
        if match is None or int(match[1]) > 2**31 - 2 or int(match[1]) == last:
            return column
        last = int(match[1])
        if not NUMBER.fullmatch(match[2]):
            return column + len(match[1]) + 1
        if math.isinf(float(match[2])) and not beyond:
            beyond = column + len(match[1]) + 1
        if last in row and not repeated:
            repeated = column
        row[last] = float(match[2])
    if repeated or beyond or at_end:
        return repeated or beyond or at_end
    expected.rows.append((label, row))
    return None


def numbered(values: list[int]) -> list[int]:
    """Each value by its place in the order of appearance."""
    order = list(dict.fromkeys(values))
    return [order.index(value) for value in values]


@pytest.mark.parametrize("piece_bytes", [2 << 20, 8], ids=["as shipped", "tiny pieces"])
def test_libsvm_against_the_reference_and_scikit_learn(
    path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", piece_bytes)
    accepted = 0
    for text, case in cases(LIBSVM_SEEDS, LIBSVM_PIECES):
        expected = reference_libsvm(text)
        table = judge(path, "libsvm", text, ReadOptions())
        if not isinstance(table, Table):
            assert table == expected.fault, case
            continue
        assert expected.fault is None, case
        accepted += 1
        base = min(index for _, row in expected.rows for index in row) > 0
        data, indices, indptr = (table.arrays[name] for name in ("data", "indices", "indptr"))
        sorted_rows = [sorted(row.items()) for _, row in expected.rows]
        assert table.arrays["y"].tolist() == [float(label) for label, _ in expected.rows], case
        assert indptr.tolist() == [0, *np.cumsum([len(row) for row in sorted_rows])], case
        assert (indices + base).tolist() == [index for row in sorted_rows for index, _ in row], case
        assert data.tolist() == [value for row in sorted_rows for _, value in row], case
        assert table.arrays.get("group", np.array([])).tolist() == numbered(expected.groups), case
        if any(warning.code == "unsorted_rows" for warning in table.warnings):
            continue  # scikit-learn refuses these
        X, y, query = load_svmlight_file(io.BytesIO(text.encode()), query_id=True, zero_based=not base)
        assert np.array_equal(y, table.arrays["y"]), case
        assert np.array_equal(query if expected.groups else [], expected.groups), case
        assert [X.data.tolist(), X.indices.tolist(), X.indptr.tolist()] == [
            data.tolist(),
            indices.tolist(),
            indptr.tolist(),
        ], case
    assert 0.1 * N_CASES < accepted < 0.9 * N_CASES


def as_read(table: Table) -> list[list[Any]]:
    """The features of each row in the same terms: numbers, levels and texts, None where there is no value."""
    rows: list[list[Any]] = [
        [None if math.isnan(value) else value for value in row] for row in table.arrays["X"].tolist()
    ]
    for j in range(table.n_features):
        for name in (f"levels.{j}", f"text.{j}"):
            if f"{name}.offsets" in table.arrays:
                texts = Strings.stored(table.arrays[f"{name}.bytes"], table.arrays[f"{name}.offsets"])
                for number, row in enumerate(rows):
                    if row[j] is not None:
                        row[j] = texts[int(row[j]) if name.startswith("levels") else number]
    return rows


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="as shipped"),
        pytest.param({"text.BLOCK_BYTES": 3, "text.PIECE_BYTES": 8, "text.PIECE_RECORDS": 1}, id="tiny pieces"),
        pytest.param({"csv_pieces.WIDE": 1}, id="every file is wide"),
    ],
)
def test_csv_against_the_reference(path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int]) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(f"app.datasets.formats.{name}", value)
    accepted = 0
    for text, case in cases(CSV_SEEDS, CSV_PIECES):
        table = judge(path, "csv", text, PLAIN)
        expected = reference_csv(text)
        if not isinstance(table, Table):
            assert table == expected.fault, case
            continue
        assert expected.fault is None, case
        accepted += 1
        assert as_read(table) == [list(row.values()) for _, row in expected.rows], case
        labels = [label for label, _ in expected.rows]
        if all(spells_number(label) for label in labels):
            assert table.arrays["y"].tolist() == [float(label) for label in labels], case
        else:
            assert [(table.labels or [])[code] for code in table.arrays["y"]] == labels, case
    assert 0.1 * N_CASES < accepted < 0.9 * N_CASES


@pytest.mark.parametrize("format", ["csv", "libsvm"])
def test_random_bytes_never_crash_a_reader(path: Path, format: str) -> None:
    rng = random.Random(random.randrange(2**32) if SOAK > 1 else 0)
    for _ in range(300 * SOAK):
        blob = rng.randbytes(rng.randrange(200))
        if rng.random() < 0.5:
            blob = bytes(rng.choices(b'0123456789:.,e-+ \n\r"#', k=len(blob)))
        judge(path, format, blob, ReadOptions())
