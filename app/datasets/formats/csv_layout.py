"""The parts of CSV that need Python's own reader: the header, what column is what, and exact places.

`find_layout` reads the first record and decides; `find_faults` walks refused lines cell by cell.
"""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal

from .columns import Roles, assign_roles
from .table import ErrorLog, FileError, FileWarning, InvalidFile, ReadOptions, excerpt, plural
from .text import MAX_LINE_BYTES, text_lines

__all__ = ["NOT_FINITE", "NUMBER", "Layout", "find_faults", "find_layout", "read_records"]

NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")
NOT_FINITE = re.compile(r"[ \t]*[+-]?(?:nan|inf|infinity)[ \t]*", re.IGNORECASE)
NUMBER_CHARACTERS = re.compile(r"[0-9eE+\-. \t]*")
LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Layout:
    """Which field of a record is what, what counts as missing, and where the data begin."""

    delimiter: str
    names: list[str] | None
    n_columns: int
    roles: Roles
    missing: frozenset[str]
    first_record_bytes: int
    body_start: int  # byte offset of the first record of data
    body_line: int  # number of the physical line there


def find_layout(path: Path, start: int, delimiter: str, options: ReadOptions) -> tuple[Layout, list[FileWarning]]:
    first, line, n_bytes, n_lines = _read_first_record(path, start, delimiter)
    if len(first) < 2:
        _refuse_one_column(first[0], line, delimiter)
    has_header, warnings = _decide_header(first, options.header)
    names = first if has_header else None
    if names is not None:
        _check_names_differ(names, line)
    roles = assign_roles(names, len(first), options)
    if names is not None:
        _check_names_present(names, roles.features, line)
    layout = Layout(
        delimiter=delimiter,
        names=names,
        n_columns=len(first),
        roles=roles,
        missing=frozenset(options.missing),
        first_record_bytes=n_bytes,
        body_start=start + n_bytes if has_header else start,
        body_line=1 + n_lines if has_header else 1,
    )
    return layout, warnings


def find_faults(text: bytes, line: int, layout: Layout, numeric_labels: bool = False) -> ErrorLog:
    """Every fault of some whole records whose first line has this number, with its physical line and its field."""
    log = ErrorLog()
    for row_line, record in read_records(text, line, layout):
        if _is_clean(record, layout, numeric_labels):
            continue
        if len(record) != layout.n_columns:
            _log_field_count(log, row_line, len(record), layout)
        else:
            _log_cells(log, row_line, record, layout, numeric_labels)
        if log.full:
            break
    return log


def read_records(text: bytes, line: int, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The physical line and the fields of every record that is not blank."""
    with _long_fields_allowed():
        records = csv.reader(io.StringIO(text.decode(), newline=""), delimiter=layout.delimiter)
        next_line = line
        for record in records:
            if record:
                yield next_line, record
            next_line = line + records.line_num


def _is_clean(record: list[str], layout: Layout, numeric_labels: bool) -> bool:
    """A cheap test that no record with a fault passes; a few without one fail it."""
    roles = layout.roles
    if len(record) != layout.n_columns or not layout.missing.isdisjoint(record):
        return False
    words = [record[roles.target]] if roles.group is None else [record[roles.target], record[roles.group]]
    if not all(word.strip(" \t") for word in words):
        return False
    if roles.weight is not None and "-" in record[roles.weight]:
        return False
    cells = [record[j] for j in roles.numbers]
    if numeric_labels:
        cells.append(record[roles.target])
    try:
        total = sum(map(float, cells))
    except ValueError:
        return False
    return isfinite(total) and NUMBER_CHARACTERS.fullmatch("".join(cells)) is not None


@contextmanager
def _long_fields_allowed() -> Iterator[None]:
    """Python's limit on a field is global and lower than ours on a line."""
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _read_first_record(path: Path, start: int, delimiter: str) -> tuple[list[str], int, int, int]:
    """The first record that is not blank, its line, and the bytes and lines up to its end."""
    n_bytes = 0

    def counted_lines() -> Iterator[str]:
        nonlocal n_bytes
        for text in text_lines(path, start):
            n_bytes += len(text.encode())
            yield text

    line = 1
    with _long_fields_allowed():
        records = csv.reader(counted_lines(), delimiter=delimiter)
        try:
            for record in records:
                if record:
                    return record, line, n_bytes, records.line_num
                line = records.line_num + 1
        except csv.Error:  # a quoted field of many lines
            detail = f"The record is longer than {MAX_LINE_BYTES >> 20} MiB."
            raise InvalidFile([FileError(line, None, "line_too_long", detail)]) from None
    raise InvalidFile([FileError(None, None, "empty_file", "The file has no text in it.")])


def _refuse_one_column(cell: str, line: int, delimiter: str) -> None:
    detail = f"The file has one column when split at {excerpt(delimiter)}; a label and features are needed."
    for other in ("\t", ";", ",", "|", " "):
        if other != delimiter and other in cell:
            detail += f" It may be delimited by {excerpt(other)}: set delimiter."
            break
    raise InvalidFile([FileError(line, 1, "one_column", detail)])


def _decide_header(first: list[str], header: Literal["auto", "true", "false"]) -> tuple[bool, list[FileWarning]]:
    if header != "auto":
        return header == "true", []
    number = next((cell for cell in first if _looks_numeric(cell)), None)
    if number is None:
        detail = "No cell of the first line is a number: it was taken as the column names."
        return True, [FileWarning("header_guessed", detail)]
    detail = f"The first line holds a number, {excerpt(number)}: it was taken as data."
    return False, [FileWarning("header_guessed", detail)]


def _looks_numeric(cell: str) -> bool:
    """Also true of nan, 1_000 and the like: a line of data must not pass for a header."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_names_differ(names: list[str], line: int) -> None:
    log = ErrorLog()
    first_seen: dict[str, int] = {}
    for j, name in enumerate(names):
        k = first_seen.setdefault(name, j)
        if name and k != j:
            log.add(line, j + 1, "duplicate_name", f"Columns {k + 1} and {j + 1} are both named {excerpt(name)}.")
    log.raise_if_any()


def _check_names_present(names: list[str], features: list[int], line: int) -> None:
    log = ErrorLog()
    for j in features:
        if not names[j]:
            detail = f"Column {j + 1} has no name; name it, or leave it out by ignore={j}."
            log.add(line, j + 1, "missing_name", detail)
    log.raise_if_any()


def _log_field_count(log: ErrorLog, line: int, found: int, layout: Layout) -> None:
    model = "the header" if layout.names else "the first line"
    detail = f"The line has {plural(found, 'field')}; {model} has {layout.n_columns}."
    log.add(line, min(found, layout.n_columns) + 1, "wrong_field_count", detail)


def _log_cells(log: ErrorLog, line: int, record: list[str], layout: Layout, numeric_labels: bool) -> None:
    roles = layout.roles
    numbers = {*roles.numbers, roles.target} if numeric_labels else set(roles.numbers)
    used = {*numbers, roles.target, roles.group}
    for j, cell in enumerate(record):
        if j in used:
            name = f"Column {j + 1}" + (f" ({excerpt(layout.names[j])})" if layout.names else "")
            fault = _judge_cell(cell, layout.missing, must_be_number=j in numbers)
            if fault is None and j == roles.weight and float(cell) < 0:
                fault = "negative_weight", f"has the weight {excerpt(cell)}; weights must not be negative"
            if fault is not None:
                log.add(line, j + 1, fault[0], f"{name} {fault[1]}.")
        line += len(LINE_END.findall(cell))


def _judge_cell(cell: str, missing: frozenset[str], must_be_number: bool) -> tuple[str, str] | None:
    if cell in missing or not cell.strip(" \t"):
        what = f"has {excerpt(cell)}, which stands for a missing value" if cell in missing else "is empty"
        return "missing_value", f"{what}; fill it in or leave the row out"
    if not must_be_number:
        return None
    if NOT_FINITE.fullmatch(cell):
        return "not_finite", f"has {excerpt(cell)}; only finite numbers are accepted"
    if not NUMBER.fullmatch(cell):
        return "not_a_number", f"has {excerpt(cell)}, which is not a number"
    if not isfinite(float(cell)):
        return "not_finite", f"has {excerpt(cell)}, which is beyond the range of a 64-bit float"
    return None
