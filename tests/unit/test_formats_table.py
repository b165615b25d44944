"""The surface of the readers, and what all of them share."""

import pickle
from pathlib import Path

import pytest

from app.datasets import formats
from app.datasets.formats import FileError, InvalidFile, InvalidOption, ReadOptions, read
from app.datasets.formats.table import excerpt


def test_the_public_surface() -> None:
    assert formats.__all__ == [
        "ENCODINGS",
        "MEDIA_TYPES",
        "Ceiling",
        "Encoding",
        "FileError",
        "FileWarning",
        "Format",
        "InvalidFile",
        "InvalidOption",
        "Label",
        "ReadOptions",
        "Sink",
        "Summary",
        "Table",
        "TaskHint",
        "TooLarge",
        "read",
        "read_into",
        "warm",
    ]
    assert all(hasattr(formats, name) for name in formats.__all__)


def test_refusals_and_tables_travel_between_processes(tmp_path: Path) -> None:
    refusal = pickle.loads(pickle.dumps(InvalidFile([FileError(3, 4, "code", "Detail.")], 7)))
    assert (refusal.errors, refusal.more) == ([FileError(3, 4, "code", "Detail.")], 7)
    assert str(refusal) == "line 3, column 4: Detail. (7 more)"
    option = pickle.loads(pickle.dumps(InvalidOption("target", "Detail.")))
    assert (option.field, option.detail, str(option)) == ("target", "Detail.", "target: Detail.")
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    table = read(path, "csv", ReadOptions())
    copy = pickle.loads(pickle.dumps(table))
    assert copy.arrays["X"].tolist() == [[1], [2]]
    assert copy.class_counts == table.class_counts


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "'plain'"),
        ("", "''"),
        ("a\tb\x00\x1b[31m", "'a\\tb\\x00\\x1b[31m'"),
        (b"\xff\xc3\xbc", "'\\xffü'"),
        ("\u202egnp.exe", "'\\u202egnp.exe'"),
        ("x" * 40, f"'{'x' * 40}'"),
        ("x" * 41, f"'{'x' * 39}…'"),
        ("x" * 10_000_000, f"'{'x' * 39}…'"),
        ("\x00" * 40, f"'{(chr(92) + 'x00') * 9}{chr(92)}x0…'"),
    ],
)
def test_excerpts_are_short_and_printable(raw: str | bytes, shown: str) -> None:
    assert excerpt(raw) == shown
    assert excerpt(raw).isprintable()
