"""The surface of the readers, and what all of them share."""

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets import formats
from app.datasets.formats import FileError, Format, InvalidFile, InvalidOption, ReadOptions, read
from app.datasets.formats.table import excerpt


def test_the_public_surface() -> None:
    assert formats.__all__ == [
        "ENCODINGS",
        "Ceiling",
        "Encoding",
        "FileError",
        "FileFormat",
        "FileWarning",
        "Format",
        "InvalidFile",
        "InvalidOption",
        "Label",
        "ReadOptions",
        "Summary",
        "Table",
        "TaskHint",
        "TooLarge",
        "file_formats",
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


def write_truths(path: Path, format: Format, truths: list[bool]) -> None:
    """A table whose labels are true and false, in the way that the format has for them."""
    numbers = [float(k) for k in range(len(truths))]
    table = pa.table({"x": numbers, "y": truths})
    if format == "parquet":
        pq.write_table(table, path)
    elif format == "arrow":
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    elif format == "npz":
        np.savez(path, X=np.array(numbers)[:, None], y=np.array(truths))
    elif format == "ndjson":
        path.write_text("".join(json.dumps({"x": x, "y": y}) + "\n" for x, y in zip(numbers, truths, strict=True)))
    else:
        separator = "," if format == "csv" else "\t"
        lines = (f"{x}{separator}{json.dumps(y)}\n" for x, y in zip(numbers, truths, strict=True))
        path.write_text(f"x{separator}y\n" + "".join(lines))


@pytest.mark.parametrize("format", ["csv", "tsv", "ndjson", "parquet", "arrow", "npz"])
@pytest.mark.parametrize("truths", [[True, False, True], [True, True], [False]])
def test_labels_that_are_true_and_false_are_the_same_classes_in_every_format(
    tmp_path: Path, format: Format, truths: list[bool]
) -> None:
    path = tmp_path / "data.npz"
    write_truths(path, format, truths)
    table = read(path, format, ReadOptions())
    assert table.labels == [name for name, there in (("false", False), ("true", True)) if there in truths]
    assert [table.labels[int(code)] for code in table.arrays["y"]] == [json.dumps(truth) for truth in truths]
    assert dict(table.class_counts) == {label: sum(json.dumps(t) == label for t in truths) for label in table.labels}
    assert (table.task_hint, table.label_kind) == ("binary", "string")


def test_the_lines_of_ndjson_that_need_a_closer_look_have_the_same_classes(tmp_path: Path) -> None:
    path = tmp_path / "data.ndjson"
    path.write_text('{"x": 1, "y": true}\n{"x": "NA", "y": false}\n{"x": 2, "y": true}\n')
    table = read(path, "ndjson", ReadOptions())
    assert (table.labels, table.arrays["y"].tolist()) == (["false", "true"], [1, 0, 1])
