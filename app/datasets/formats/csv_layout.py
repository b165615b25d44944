"""Determines the layout of a CSV file: header, roles of the columns, start of the data."""

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.datasets.formats.column_roles import Roles, assign_roles, nameless_detail
from app.datasets.formats.table import ErrorLog, FileError, FileWarning, InvalidFile, ReadOptions, excerpt
from app.datasets.formats.text import MAX_LINE_BYTES, text_lines
from app.tabular.cell_format import STYLES, core_pattern

__all__ = ["Layout", "find_layout", "long_fields_allowed"]

LONGEST_NUMBER = 40
"""Maximum characters of a cell of the first line that is compared with formats of numbers."""
NUMBER = re.compile("[-+]?(?:" + "|".join(core_pattern(*style) for style in STYLES) + ")")


@dataclass(frozen=True)
class Layout:
    """The layout of a CSV file: roles of its columns, texts that mean a missing value, and the start of the data."""

    delimiter: str
    names: list[str] | None
    n_columns: int
    roles: Roles
    missing: frozenset[str]
    first_record_bytes: int
    body_start: int  # byte offset of the first record of data
    body_line: int  # number of the line at that offset
    words: frozenset[int] = frozenset()
    """Columns that are read as text from the start, because of the options."""
    drops_missing: bool = False
    """Whether rows without a label are left out."""
    header_line: int = 1
    nameless: frozenset[int] = frozenset()
    """Columns without a name in the header."""

    @property
    def used(self) -> list[int]:
        return self.roles.used


def find_layout(path: Path, start: int, delimiter: str, options: ReadOptions) -> tuple[Layout, list[FileWarning]]:
    first, line, n_bytes, n_lines = _read_first_record(path, start, delimiter)
    if len(first) < 2:
        _refuse_one_column(first[0], line, delimiter)
    has_header, warnings = _decide_header(first, options.header)
    names = first if has_header else None
    if names is not None:
        _check_names_differ(names, line)
    roles = assign_roles(names, len(first), options)
    nameless = frozenset(j for j in roles.features if names is not None and not names[j])
    if names is not None:
        _refuse_nameless([j for j in sorted(nameless) if j > 0], line)
        names = [name or (f"Unnamed: {j}" if j in nameless else name) for j, name in enumerate(names)]
    layout = Layout(
        delimiter=delimiter,
        names=names,
        n_columns=len(first),
        roles=roles,
        missing=frozenset(options.missing),
        first_record_bytes=n_bytes,
        body_start=start + n_bytes if has_header else start,
        body_line=1 + n_lines if has_header else 1,
        words=_words_from_start(roles, options),
        drops_missing=options.on_missing_target == "drop",
        nameless=nameless,
        header_line=line,
    )
    return layout, [*warnings, *roles.warnings]


def _words_from_start(roles: Roles, options: ReadOptions) -> frozenset[int]:
    """Return the columns that are read as text because of the options `columns` and `decimal`."""
    readable = {*roles.features, *(() if roles.target is None else (roles.target,))}
    if options.decimal == ",":
        return frozenset(readable)
    words = ("categorical", "text", "boolean", "date")
    return frozenset(j for j in readable if roles.choices.get(j) in words)


@contextmanager
def long_fields_allowed() -> Iterator[None]:
    """Raise the limit of Python's csv module for a field, 128 KiB, to the limit of this service for a line."""
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _read_first_record(path: Path, start: int, delimiter: str) -> tuple[list[str], int, int, int]:
    """Return the first record that is not blank, its line number, and the number of bytes and lines up to its end."""
    n_bytes = 0

    def counted_lines() -> Iterator[str]:
        nonlocal n_bytes
        for text in text_lines(path, start):
            n_bytes += len(text.encode())
            yield text

    line = 1
    with long_fields_allowed():
        records = csv.reader(counted_lines(), delimiter=delimiter)
        try:
            for record in records:
                if record:
                    return record, line, n_bytes, records.line_num
                line = records.line_num + 1
        except csv.Error:  # a quoted field with too many lines
            detail = f"The record exceeds {MAX_LINE_BYTES >> 20} MiB; check for a quote that is not closed."
            raise InvalidFile([FileError(line, None, "line_too_long", detail)]) from None
    raise InvalidFile([FileError(None, None, "empty_file", "The file has no text in it.")])


def _refuse_one_column(cell: str, line: int, delimiter: str) -> None:
    detail = f"The file has one column when split at {excerpt(delimiter)}; a label and at least one feature are needed."
    for other in ("\t", ";", ",", "|", " "):
        if other != delimiter and other in cell:
            detail += f" Its delimiter seems to be {excerpt(other)}: set delimiter."
            break
    raise InvalidFile([FileError(line, 1, "one_column", detail)])


def _decide_header(first: list[str], header: Literal["auto", "true", "false"]) -> tuple[bool, list[FileWarning]]:
    if header != "auto":
        return header == "true", []
    number = next((cell for cell in first if _looks_numeric(cell)), None)
    if number is None:
        detail = "No cell of the first line is a number, so it was read as the header."
        return True, [FileWarning("header_guessed", detail)]
    detail = f"The first line contains a number, {excerpt(number)}, so it was read as data."
    return False, [FileWarning("header_guessed", detail)]


def _looks_numeric(cell: str) -> bool:
    """Return whether a cell looks like a number. nan, 1_000 and 1.234,5 count too, so that a line of data is not read
    as a header."""
    try:
        float(cell)
    except ValueError:
        return len(cell) < LONGEST_NUMBER and NUMBER.fullmatch(cell.strip()) is not None
    return True


def _check_names_differ(names: list[str], line: int) -> None:
    log = ErrorLog()
    first_seen: dict[str, int] = {}
    for j, name in enumerate(names):
        k = first_seen.setdefault(name, j)
        if name and k != j:
            log.add(
                line,
                j + 1,
                "duplicate_name",
                f"Columns {k + 1} and {j + 1} are both named {excerpt(name)}; rename one.",
            )
    log.raise_if_any()


def _refuse_nameless(features: list[int], line: int) -> None:
    log = ErrorLog()
    for j in features:
        log.add(line, j + 1, "missing_name", nameless_detail(j))
    log.raise_if_any()
