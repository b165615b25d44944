"""Reads CSV in pieces. A compiled kernel parses pieces of plain numbers, and pyarrow the others. If both fail, Python's
csv reader finds the places of the errors.

Rows of plain numbers are stored as float32 as long as float32 represents each number exactly.

Column names come only from the header. A feature is numeric until a cell is not a finite decimal number; then the
column is read again as text, and `guess` determines its kind. Labels are numbers if every label is a number, else
strings exactly as written. Groups are strings. Blank lines are skipped. Spaces and tabs around a number are ignored. A
warning reports every guess.
"""

from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from app.datasets.formats import csv_kernels, decimal_kernels
from app.datasets.formats.collect import Block, Collector, is_clean
from app.datasets.formats.column_roles import Roles, Source
from app.datasets.formats.compressed import Ceiling
from app.datasets.formats.csv_cells import Plan, first_plan, read_cells
from app.datasets.formats.csv_kernels import TARGET, TOO_PRECISE, WEIGHT, parse_numbers
from app.datasets.formats.csv_layout import Layout, find_layout
from app.datasets.formats.labels import Encoded
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
    Piece,
    check_text,
    is_sound,
    map_in_order,
    piece_bytes,
    pieces,
    skip_byte_order_mark,
)
from app.datasets.formats.words import encode_cells
from app.tabular.cells import MARKS, NUMBER

__all__ = ["read_csv", "read_tsv", "warm"]

WIDE = 10_000
"""Maximum columns of a table that pyarrow parses. Python's csv module parses wider tables, except pieces of plain
numbers. Larger: more tables pay pyarrow's fixed cost per column and piece. Set by hand; no measurement is recorded."""
PEEKED_BYTES = 16 << 10
"""Bytes at the start of the data from which the first `Plan` is made. Larger: fewer files are read twice, and each file
takes longer to plan. Set by hand; no measurement is recorded."""
IGNORED = -3


@cache
def warm() -> None:
    """Compile or load the kernel, once per process."""
    from solvers.linalg import kernel_cache

    kernels = kernel_cache.kernels_of(csv_kernels) + kernel_cache.kernels_of(decimal_kernels)
    layout = Layout(",", None, 2, Roles(1, None, None, [0]), frozenset(), 4, 0, 1)
    kernel_cache.warm(kernels, lambda: _parse_plain(Piece(b"0.1,2\n", 0, 6), layout))  # for both precisions


class _Unsound(Exception):
    """Raised when the bytes of a piece are not valid text."""


def read_csv(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    return _read(path, options, _check_delimiter(options.delimiter), collector)


def read_tsv(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    return _read(path, options, "\t", collector)


def _read(path: Path, options: ReadOptions, delimiter: str, collector: Collector) -> Summary:
    with path.open("rb") as file:
        start = skip_byte_order_mark(file.read(4))
    try:
        layout, warnings = find_layout(path, start, delimiter, options)
        _check_header(path, start, layout)
        faults = _convert(path, start, layout, collector)
    except (_Unsound, InvalidFile, InvalidOption, UnicodeDecodeError):
        check_text(path, start, delimiter)  # if this raises, its error is the cause of all others
        raise
    faults.raise_if_any()
    if collector.n_rows == 0:
        detail = "The file has no rows of data" + (" after its header." if layout.names else ".")
        raise InvalidFile([FileError(layout.body_line, None, "no_rows", detail)])
    source = Source(layout.names, layout.n_columns, layout.roles)
    summary = collector.finish(len(layout.roles.features), warnings, source)
    summary.warnings += _warn_mixed_labels(summary.labels or [])
    return summary


def _check_delimiter(delimiter: str | None) -> str:
    if delimiter is None:
        return ","
    if delimiter == "tab":
        return "\t"
    if not DELIMITER.fullmatch(delimiter):
        raise InvalidOption("delimiter", f"It must be {DELIMITERS}.")
    return delimiter


def _check_header(path: Path, start: int, layout: Layout) -> None:
    with path.open("rb") as file:
        file.seek(start)
        if not is_sound(file.read(layout.body_start - start), layout.delimiter):
            raise _Unsound


def _convert(path: Path, start: int, layout: Layout, collector: Collector) -> ErrorLog:
    """Read the file. Start again whenever columns turn out to have another kind than planned. Returns the errors of the
    file."""
    plan = first_plan(_peek(path, layout), layout)
    at_once = True
    while True:
        found, faults = _walk(path, start, layout, collector, plan, at_once)
        if found:
            at_once = False  # the second pass searches the whole file for further such columns
        elif faults or collector.n_rows == 0:
            return faults
        elif strays := {layout.roles.features[number] for number in collector.features.strays}:
            plan.words, plan.forced = plan.words - strays, frozenset(strays)
        elif collector.features.settled():
            return faults
        collector.clear()


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
    convert = partial(_convert_piece, layout=layout, plan=plan)
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


def _convert_piece(piece: Piece, layout: Layout, plan: Plan) -> tuple[Piece, Block | None]:
    """Convert a piece with the kernel if all cells are plain numbers, else with pyarrow. The block is None if pyarrow
    fails or would be slow."""
    if not (plan.words or plan.marked or layout.missing) and (plain := _parse_plain(piece, layout)) is not None:
        return piece, plain
    if not is_sound(piece.text, layout.delimiter):
        raise _Unsound
    if layout.n_columns > WIDE or _is_blank(piece.text):
        return piece, None
    roles = layout.roles
    reading = Plan(plan.words, plan.marked - plan.words)  # a copy: other threads can change the plan meanwhile
    try:
        table = _parse(piece, layout, reading)
        columns = {j: table.column(str(j)).chunk(0) for j in layout.used}
        marks = {j: _take_out_marks(columns, j, layout) for j in reading.marked}
    except pa.ArrowInvalid:
        return piece, None
    if any(columns[j].null_count for j in (roles.target, roles.weight) if j is not None):
        return piece, None
    make = np.zeros if reading.words else np.empty
    X = make((len(columns[roles.target]), len(roles.features)))
    for k, j in enumerate(roles.features):
        if j not in reading.words:
            X[:, k] = columns[j].to_numpy(zero_copy_only=False)
    features = dict(enumerate(roles.features))
    block = Block(
        X,
        target=_encode(columns[roles.target]) if roles.target in reading.words else columns[roles.target].to_numpy(),
        weight=None if roles.weight is None else columns[roles.weight].to_numpy(),
        group=None if roles.group is None else _encode(columns[roles.group]),
        words={
            k: encode_cells(columns[j], layout.missing, may_be_numbers=True)
            for k, j in features.items()
            if j in reading.words
        },
        missing={k: columns[j].null_count for k, j in features.items() if columns[j].null_count},
        marks={k: marks[j] for k, j in features.items() if marks.get(j)},
    )
    return piece, block if is_clean(block) and not _says_missing(block, layout) else None


def _parse_plain(piece: Piece, layout: Layout) -> Block | None:
    """Parse rows of plain numbers. Returns None if the piece contains anything else. A parsed piece needs no further
    check for valid text."""
    roles = layout.roles
    places = np.full(layout.n_columns, IGNORED)
    places[roles.features] = np.arange(len(roles.features))
    places[roles.target] = TARGET
    if roles.weight is not None:
        places[roles.weight] = WEIGHT
    text = np.frombuffer(piece.mapped, np.uint8, piece.past - piece.first, piece.first)
    if IGNORED in places or text[-1] != ord("\n"):  # an ignored cell can contain anything, even a line feed in quotes
        return None
    n_rows = int(np.count_nonzero(text == ord("\n")))
    target, weight = np.empty(n_rows), np.empty(0 if roles.weight is None else n_rows)
    # try float32 first: integers mostly fit, and a decimal fraction ends the attempt early
    for dtype in (np.float32, np.float64):
        X = np.empty((n_rows, len(roles.features)), dtype)
        found = parse_numbers(text, ord(layout.delimiter), places, X, target, weight)
        if found != TOO_PRECISE:
            break
    if found != n_rows or (weight < 0).any():
        return None
    return Block(X, target, None if roles.weight is None else weight)


def _take_out_marks(columns: dict[int, Any], j: int, layout: Layout) -> Counter[str]:
    """Convert a column of strings to numbers, with null for markers of missing values. Returns the count of each
    marker."""
    bare = pc.utf8_trim(columns[j], characters=" \t")
    missing = pa.array(sorted(layout.missing), pa.string())
    gone = pc.or_(pc.equal(bare, ""), pc.is_in(columns[j], value_set=missing))
    marked = pc.and_(pc.is_in(pc.utf8_lower(bare), value_set=pa.array(sorted(MARKS))), pc.invert(gone))
    columns[j] = pc.if_else(pc.or_(gone, marked), pa.scalar(None, pa.string()), bare).cast(pa.float64())
    return Counter({one["values"]: one["counts"] for one in pc.value_counts(bare.filter(marked)).to_pylist()})


def _says_missing(block: Block, layout: Layout) -> bool:
    """Return whether a label or a group is a text that means a missing value."""
    return any(
        value in layout.missing
        for part in (block.target, block.group)
        if isinstance(part, tuple) and layout.missing
        for value in part[0]
    )


def _is_blank(text: bytes) -> bool:
    # the second test copies most of the text, so it comes last
    return not text[:100].strip(b"\r\n") and not text.strip(b"\r\n")


def _encode(column: Any) -> Encoded:
    return column.dictionary.to_pylist(), column.indices.to_numpy()


def _parse(piece: Piece, layout: Layout, plan: Plan) -> Any:
    """Parse the used columns of a piece; the result is by column number. An empty numeric cell is null; an empty text
    is not."""
    roles = layout.roles
    keys = [str(j) for j in range(layout.n_columns)]  # not the names of the file, which can be duplicates
    words = pa.dictionary(pa.int32(), pa.string())
    types = {keys[j]: pa.float64() for j in layout.used}
    types |= {keys[j]: pa.string() for j in plan.words | plan.marked}
    if roles.target in plan.words:
        types[keys[roles.target]] = words
    if roles.group is not None:
        types[keys[roles.group]] = words
    # Read the piece as one block: at the boundary of two blocks, pyarrow 26 loses the line feed of a quoted CR LF.
    one_block = pyarrow.csv.ReadOptions(column_names=keys, use_threads=False, block_size=len(piece.text) + 1)
    return pyarrow.csv.read_csv(
        pa.BufferReader(piece.text),
        read_options=one_block,
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=b'"' in piece.text),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=[keys[j] for j in layout.used],
            null_values=["", *layout.missing],
            strings_can_be_null=False,
            check_utf8=False,  # already checked above
        ),
    )


def _warn_mixed_labels(labels: list[str]) -> list[FileWarning]:
    words = [label for label in labels if not NUMBER.fullmatch(label)]
    if len(words) == len(labels):
        return []
    detail = (
        f"{len(words)} of the {len(labels)} distinct labels are not numbers, such as {excerpt(words[0])}; "
        "all labels are read as strings."
    )
    return [FileWarning("mixed_labels", detail)]
