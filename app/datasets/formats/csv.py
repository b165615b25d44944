"""Reads CSV in pieces. A compiled kernel parses pieces of plain numbers, and pyarrow the others. If both fail, Python's
csv reader finds the places of the errors.

Rows of plain numbers are stored as float32 as long as float32 represents each number exactly.

Column names come only from the header. A feature is numeric until a cell is not a finite decimal number; then the
column is read again as text, and `guess` determines its kind. Labels are numbers if every label is a number, else
strings exactly as written. Groups are strings. Blank lines are skipped. Spaces and tabs around a number are ignored. A
warning reports every guess.
"""

from functools import partial
from pathlib import Path

import numpy as np

from app.datasets.formats.collect import Collector
from app.datasets.formats.column_roles import Source
from app.datasets.formats.compressed import Ceiling
from app.datasets.formats.csv_cells import Plan, first_plan, read_cells
from app.datasets.formats.csv_layout import Layout, find_layout
from app.datasets.formats.csv_pieces import Unsound, convert_piece, warm
from app.datasets.formats.csv_text import (
    GUESSED,
    as_utf8,
    find_charset,
    find_delimiter,
    guessed_warning,
    looks_western,
)
from app.datasets.formats.guess import Conventions
from app.datasets.formats.mapped import Mapped, map_file
from app.datasets.formats.table import (
    DELIMITER,
    DELIMITERS,
    ErrorLog,
    FileError,
    FileWarning,
    InvalidFile,
    InvalidOption,
    ReadOptions,
    Summary,
    excerpt,
)
from app.datasets.formats.text import (
    LineCounter,
    check_text,
    is_sound,
    map_in_order,
    piece_bytes,
    pieces,
    skip_byte_order_mark,
)
from app.tabular.cells import NUMBER

__all__ = ["read_csv", "read_tsv", "warm"]

PEEKED_BYTES = 16 << 10
"""Bytes at the start of the data from which the first `Plan` is made. Larger: fewer files are read twice, and each file
takes longer to plan. Set by hand; no measurement is recorded."""


def read_csv(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    return _read_text(path, options, _check_delimiter(options.delimiter), collector, ceiling)


def read_tsv(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    return _read_text(path, options, "\t", collector, ceiling)


def _read_text(
    path: Path, options: ReadOptions, delimiter: str | None, collector: Collector, ceiling: Ceiling
) -> Summary:
    """Read a file in any encoding. A file that is not UTF-8 is read again as Windows-1252, if it looks so."""
    charset, warnings = find_charset(path, options.charset)
    try:
        with as_utf8(path, charset, ceiling) as plain:
            return _read(plain, options, delimiter, collector, warnings)
    except InvalidFile as error:
        is_other = any(one.code == "not_utf8" for one in error.errors)
        if options.charset is not None or charset != "utf-8" or not is_other or not looks_western(path):
            raise
    collector.clear()
    with as_utf8(path, GUESSED, ceiling) as plain:
        return _read(plain, options, delimiter, collector, [guessed_warning(GUESSED)])


def _read(
    path: Path, options: ReadOptions, delimiter: str | None, collector: Collector, guessed: list[FileWarning]
) -> Summary:
    with path.open("rb") as file:
        start = skip_byte_order_mark(file.read(4))
    if delimiter is None:
        delimiter, found = find_delimiter(path, start)
        guessed = [*guessed, *found]
    try:
        layout, warnings = find_layout(path, start, delimiter, options)
        _check_header(path, start, layout)
        roles = layout.roles
        conventions = Conventions.of(options, delimiter, roles.kinds)
        collector.prepare(options, conventions, roles, layout.names, may_be_numbers=True)
        if options.decimal == ",":
            collector.labels.expect_commas()
        faults = _convert(path, start, layout, collector)
    except (Unsound, InvalidFile, InvalidOption, UnicodeDecodeError):
        check_text(path, start, delimiter)  # if this raises, its error is the cause of all others
        raise
    faults.raise_if_any()
    if collector.n_rows == 0:
        detail = "The file has no rows of data" + (" after its header." if layout.names else ".")
        raise InvalidFile([FileError(layout.body_line, None, "no_rows", detail)])
    source = Source(layout.names, layout.n_columns, roles, nameless=layout.nameless, header_line=layout.header_line)
    summary = collector.finish(len(roles.features), [*guessed, *warnings], source)
    summary.warnings += _warn_mixed_labels(summary.labels or [])
    return summary


def _check_delimiter(delimiter: str | None) -> str | None:
    if delimiter is None:
        return None
    if delimiter == "tab":
        return "\t"
    if not DELIMITER.fullmatch(delimiter):
        raise InvalidOption("delimiter", f"It must be {DELIMITERS}.")
    return delimiter


def _check_header(path: Path, start: int, layout: Layout) -> None:
    with path.open("rb") as file:
        file.seek(start)
        if not is_sound(file.read(layout.body_start - start), layout.delimiter):
            raise Unsound


def _convert(path: Path, start: int, layout: Layout, collector: Collector) -> ErrorLog:
    """Read the file. Start again whenever columns turn out to have another kind than planned. Returns the errors of the
    file."""
    plan = first_plan(_peek(path, layout), layout)
    at_once = True
    while True:
        found, faults = _walk(path, start, layout, collector, plan, at_once)
        if found:
            at_once = False  # the second pass searches the whole file for further such columns
        elif faults or collector.n_rows == 0 or (collector.settled() and not _needs_commas(collector, layout, plan)):
            return faults
        collector.clear()


def _needs_commas(collector: Collector, layout: Layout, plan: Plan) -> bool:
    """Plan all features as words if a column has a decimal comma: then 1.234 in another column can mean 1234. Returns
    whether the plan has changed."""
    roles = layout.roles
    every = frozenset(roles.features) | (frozenset() if roles.target is None else {roles.target})
    if not collector.features.has_comma or plan.words >= every:
        return False
    plan.words |= every
    collector.labels.expect_commas()
    return True


def _peek(path: Path, layout: Layout) -> bytes:
    """Return some complete records from the start of the data, or nothing."""
    mapped = map_file(path)
    past = min(len(mapped), layout.body_start + PEEKED_BYTES)
    end = _find_record_end(mapped, layout.body_start, past) if past > layout.body_start else 0
    text = mapped[layout.body_start : end]
    return text if is_sound(text, layout.delimiter) else b""


def _walk(
    path: Path, start: int, layout: Layout, collector: Collector, plan: Plan, at_once: bool
) -> tuple[frozenset[int], ErrorLog]:
    """Convert the whole file. Returns the columns that were planned as numeric but contain words, and the errors.

    After the first such column or error, rows are checked but not stored. With `at_once`, reading stops at the first
    word.
    """
    faults = ErrorLog()
    label_faults = ErrorLog()  # reported only if no label is a word
    found: frozenset[int] = frozenset()
    lines = LineCounter(path, start)
    convert = partial(convert_piece, layout=layout, plan=plan)
    n_bytes = piece_bytes(layout.first_record_bytes)
    for piece, block in map_in_order(convert, pieces(path, layout.body_start, _find_record_end, n_bytes)):
        if block is None:
            seen = read_cells(piece.text, lines.line_at(piece.first), layout, plan)
            found |= seen.words
            plan.words |= seen.words
            plan.marked |= seen.marked
            faults.extend(seen.faults)
            label_faults.extend(seen.label_faults)
            if faults.full or (found and at_once):
                break
            block = seen.block
        if block is not None and not (faults or label_faults or found):
            collector.add(block)
    return found, faults or label_faults


def _find_record_end(mapped: Mapped, first: int, past: int) -> int:
    """Return the position after the last line end outside of quotes, or 0. A CR at the very end does not count: it can
    be half of a CR LF."""
    text = mapped[first:past]  # searching a copy is faster than searching the mapped file
    if b'"' not in text:
        end = (text.rfind(b"\n") + 1) or (text.rfind(b"\r", 0, -1) + 1)
        return first + end if end else 0
    buffer = np.frombuffer(text, dtype=np.uint8)
    is_quote = buffer == ord('"')
    is_end = buffer == ord("\n")
    is_end[:-1] |= (buffer[:-1] == ord("\r")) & (buffer[1:] != ord("\n"))
    ends = np.flatnonzero(is_end)
    quotes_before = np.searchsorted(np.flatnonzero(is_quote), ends)
    outside = ends[quotes_before % 2 == 0]
    return first + int(outside[-1]) + 1 if len(outside) else 0


def _warn_mixed_labels(labels: list[str]) -> list[FileWarning]:
    words = [label for label in labels if not NUMBER.fullmatch(label)]
    if not words or len(words) == len(labels):
        return []
    detail = (
        f"{len(words)} of the {len(labels)} distinct labels are not numbers, such as {excerpt(words[0])}; "
        "all labels are read as strings."
    )
    return [FileWarning("mixed_labels", detail)]
