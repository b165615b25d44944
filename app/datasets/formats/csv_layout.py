"""How a CSV file is laid out: whether its first record is a header, which column is what, where the data begin."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.datasets.formats.column_roles import Roles, assign_roles
from app.datasets.formats.table import ErrorLog, FileError, FileWarning, InvalidFile, ReadOptions, excerpt
from app.datasets.formats.text import MAX_LINE_BYTES, text_lines

__all__ = ["Layout", "find_layout", "long_fields_allowed"]


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

    @property
    def used(self) -> list[int]:
        roles = self.roles
        return [*roles.features, *(j for j in (roles.target, roles.weight, roles.group) if j is not None)]


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


@contextmanager
def long_fields_allowed() -> Iterator[None]:
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
    with long_fields_allowed():
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
            detail = f"This column has no name; name it, or leave it out by ignore={j} (which counts from 0)."
            log.add(line, j + 1, "missing_name", detail)
    log.raise_if_any()
