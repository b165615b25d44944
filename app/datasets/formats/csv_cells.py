"""Reads CSV records cell by cell with Python's csv reader, which is slow but can name the place of every error.

The CSV reader uses this module for pieces that pyarrow refuses. The result is a block of rows, or errors with their
lines and columns, or columns that contain words although they were assumed to be numeric.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Literal

import numpy as np
import pyarrow as pa

from app.datasets.formats.collect import Block
from app.datasets.formats.csv_layout import Layout, long_fields_allowed
from app.datasets.formats.labels import MISSING_LABEL_CURE, Encoded, encode_list
from app.datasets.formats.table import ErrorLog, excerpt, plural
from app.datasets.formats.words import encode_cells
from app.tabular.cells import NOT_FINITE, NUMBER, is_blank, is_mark
from app.tabular.types import Array

__all__ = ["Plan", "Records", "first_plan", "read_cells"]

NUMBER_CHARACTERS = re.compile(r"[0-9eE+\-. \t]*")
PADDED = re.compile(r"[ \t]*+0[0-9]++[ \t]*+\Z")
LINE_END = re.compile(r"\r\n|\r|\n")

Status = Literal["number", "missing", "mark", "not_finite", "word"]


@dataclass
class Plan:
    """Which columns are read as what. Features that are in no set here, and the target, are numbers. Sets are replaced
    and never modified, because other threads read them."""

    words: frozenset[int] = frozenset()
    marked: frozenset[int] = frozenset()
    """Numeric columns in which markers of missing values occur. pyarrow does not know the markers, so such columns are
    parsed as strings first."""

    def numbers(self, layout: Layout) -> list[int]:
        """Return the column numbers of the numeric features."""
        return [j for j in layout.roles.features if j not in self.words]


@dataclass
class Records:
    """The result of reading records. Errors of labels are kept apart: they are reported only if no label of the file is
    a word."""

    faults: ErrorLog = field(default_factory=ErrorLog)
    label_faults: ErrorLog = field(default_factory=ErrorLog)
    words: set[int] = field(default_factory=set)
    """Columns that were assumed to be numeric and are not."""
    marked: set[int] = field(default_factory=set)
    block: Block | None = None
    """The rows; None if there are errors, words in numeric columns, or no rows."""


def first_plan(text: bytes, layout: Layout) -> Plan:
    """Make a plan from the first records of a file, so that most files are read only once."""
    seen = read_cells(text, 0, layout, Plan(layout.words))
    return Plan(layout.words | seen.words, frozenset(seen.marked))


def read_cells(text: bytes, line: int, layout: Layout, plan: Plan) -> Records:
    """Read complete records. `line` is the number of the first line in the file."""
    reader = _CellReader(layout, plan)
    for row_line, record in _read_records(text, line, layout):
        reader.add(row_line, record)
        if reader.found.faults.full:
            break
    return reader.finish()


def _read_records(text: bytes, line: int, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of every record that is not blank."""
    with long_fields_allowed():
        records = csv.reader(io.StringIO(text.decode(), newline=""), delimiter=layout.delimiter)
        next_line = line
        for record in records:
            if record:
                yield next_line, record
            next_line = line + records.line_num


class _CellReader:
    def __init__(self, layout: Layout, plan: Plan) -> None:
        roles = layout.roles
        self.found = Records()
        self._layout = layout
        self._plan = plan
        self._numeric_labels = roles.target is not None and roles.target not in plan.words
        self._numbers = plan.numbers(layout)
        others = [roles.target] if roles.target is not None and self._numeric_labels else []
        self._cells_of_numbers = [*self._numbers, *others, *([] if roles.weight is None else [roles.weight])]
        self._rows: list[list[float]] = []  # in the order of `_cells_of_numbers`
        self._texts: dict[int, list[str]] = {j: [] for j in roles.features if j in plan.words}
        if roles.target is not None and not self._numeric_labels:
            self._texts[roles.target] = []
        if roles.group is not None:
            self._texts[roles.group] = []
        self._number_of = {j: k for k, j in enumerate(roles.features)}
        self._missing: Counter[int] = Counter()
        self._marks: dict[int, Counter[str]] = {}
        self._dropped = 0
        self._as_numbers = {j for j, choice in roles.choices.items() if choice == "numeric"}

    def add(self, line: int, record: list[str]) -> None:
        if len(record) != self._layout.n_columns:
            self._log_field_count(line, len(record))
            return
        target = self._layout.roles.target
        if self._layout.drops_missing and target is not None and self._is_missing(record[target]):
            self._dropped += 1
            return
        for j, texts in self._texts.items():
            texts.append(record[j])
        row = self._plain_numbers(record)
        self._rows.append(self._judged_numbers(line, record) if row is None else row)

    def _is_missing(self, cell: str) -> bool:
        return is_blank(cell) or cell in self._layout.missing

    def _plain_numbers(self, record: list[str]) -> list[float] | None:
        """Return the numbers of a record, or None if a cell is not a plain number and needs the checks of
        `_judged_numbers`."""
        roles = self._layout.roles
        if not self._layout.missing.isdisjoint(record):
            return None
        if any(is_blank(record[j]) for j in (roles.target, roles.group) if j is not None):
            return None
        if roles.weight is not None and "-" in record[roles.weight]:
            return None
        cells = [record[j] for j in self._cells_of_numbers]
        if any(PADDED.match(cell) for cell in cells):
            return None
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            return None
        return row if isfinite(sum(row)) and NUMBER_CHARACTERS.fullmatch("".join(cells)) else None

    def _judged_numbers(self, line: int, record: list[str]) -> list[float]:
        roles = self._layout.roles
        values: dict[int, float] = {}
        for j, cell in enumerate(record):
            if j in (roles.target, roles.group, roles.weight):
                values[j] = self._judge_other(j, cell, line)
            elif j in self._number_of and j not in self._plan.words:
                values[j] = self._judge_feature(j, cell, line)
            line += len(LINE_END.findall(cell))
        return [values[j] for j in self._cells_of_numbers]

    def _judge_feature(self, j: int, cell: str, line: int) -> float:
        status = _status(cell, self._layout.missing)
        number = self._number_of[j]
        if PADDED.match(cell) and j not in self._as_numbers:
            status = "word"
        if status in ("missing", "mark"):
            self._missing[number] += 1
            if status == "mark":
                self._marks.setdefault(number, Counter())[cell.strip(" \t")] += 1
            if cell and cell not in self._layout.missing:
                self.found.marked.add(j)
        elif status == "not_finite":
            self._log(line, j, "not_finite", f"has {excerpt(cell)}; only finite numbers are accepted")
        elif status == "word":
            self.found.words.add(j)
        return float(cell) if status == "number" else nan

    def _judge_other(self, j: int, cell: str, line: int) -> float:
        """Check a cell of the target, the weight or the group."""
        roles = self._layout.roles
        if cell in self._layout.missing or is_blank(cell):
            what = "is empty" if is_blank(cell) else f"has {excerpt(cell)}, which stands for a missing value"
            cure = "fill it in, or remove the row"
            if j == roles.target:
                cure = MISSING_LABEL_CURE
            self._log(line, j, "missing_value", f"{what}; {cure}")
        elif j == roles.group or (j == roles.target and not self._numeric_labels):
            return nan
        else:
            status = _status(cell, frozenset())
            if status == "number":
                if j == roles.weight and float(cell) < 0:
                    detail = f"has the weight {excerpt(cell)}; weights must not be negative"
                    self._log(line, j, "negative_weight", detail)
                return float(cell)
            is_number_like = status == "not_finite" or NOT_FINITE.fullmatch(cell) is not None
            if j == roles.target and not is_number_like:
                self.found.words.add(j)
            elif is_number_like:
                log = self.found.label_faults if j == roles.target else self.found.faults
                self._log(line, j, "not_finite", f"has {excerpt(cell)}; only finite numbers are accepted", log)
            else:
                self._log(line, j, "not_a_number", f"has {excerpt(cell)}, which is not a number")
        return nan

    def _log(self, line: int, j: int, code: str, what: str, log: ErrorLog | None = None) -> None:
        names = self._layout.names
        name = f"Column {j + 1}" + (f" ({excerpt(names[j])})" if names else "")
        (self.found.faults if log is None else log).add(line, j + 1, code, f"{name} {what}.")

    def _log_field_count(self, line: int, n_fields: int) -> None:
        model = "the header" if self._layout.names else "the first line"
        detail = f"The line has {plural(n_fields, 'field')}; {model} has {self._layout.n_columns}."
        column = min(n_fields, self._layout.n_columns) + 1
        self.found.faults.add(line, column, "wrong_field_count", detail)

    def finish(self) -> Records:
        found = self.found
        if self._rows and not (found.faults or found.label_faults or found.words):
            found.block = self._block()
        return found

    def _block(self) -> Block:
        roles, missing = self._layout.roles, self._layout.missing
        numbers = np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(self._cells_of_numbers))
        X = np.zeros((len(numbers), len(roles.features)))
        X[:, [self._number_of[j] for j in self._numbers]] = numbers[:, : len(self._numbers)]
        return Block(
            X=X,
            target=self._labels(numbers),
            weight=None if roles.weight is None else numbers[:, -1],
            group=None if roles.group is None else encode_list(self._texts[roles.group]),
            words={
                self._number_of[j]: encode_cells(pa.array(texts, pa.string()), missing, may_be_numbers=True)
                for j, texts in self._texts.items()
                if j in self._number_of
            },
            missing=self._missing,
            marks=self._marks,
            dropped=self._dropped,
        )

    def _labels(self, numbers: Array) -> Array | Encoded | None:
        target = self._layout.roles.target
        if target is None:
            return None
        return numbers[:, len(self._numbers)] if self._numeric_labels else encode_list(self._texts[target])


def _status(cell: str, missing: frozenset[str]) -> Status:
    if cell in missing or is_blank(cell):
        return "missing"
    if NUMBER.fullmatch(cell):
        return "number" if isfinite(float(cell)) else "not_finite"
    if is_mark(cell):
        return "mark"
    return "not_finite" if NOT_FINITE.fullmatch(cell) else "word"
