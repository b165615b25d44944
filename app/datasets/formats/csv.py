"""CSV: pyarrow converts piece by piece; where it refuses, Python's own reader finds the places of the faults.

Column names come from the header or not at all; every feature is a finite decimal number; labels are
numbers if all of them are, else strings exactly as given; groups are strings. Blank lines are skipped.
Spaces and tabs around a number are no part of it. Nothing is changed or guessed without a warning.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from .collect import Block, Collector, is_clean
from .compressed import Ceiling
from .csv_layout import NOT_FINITE, NUMBER, Layout, find_faults, find_layout, read_records
from .labels import Encoded, encode_list
from .mapped import Mapped
from .table import ErrorLog, FileError, FileWarning, InvalidFile, InvalidOption, ReadOptions, Summary, excerpt
from .text import LineCounter, Piece, check_text, is_sound, map_in_order, piece_bytes, pieces, skip_byte_order_mark

__all__ = ["read_csv", "read_tsv"]

WIDE = 10_000  # columns; from about here on pyarrow's cost of a column in a piece outweighs its speed


class _Unsound(Exception):
    """The bytes are not well-formed text."""


class _FoundWord(Exception):
    """A label that is no number, in a file whose labels were taken as numbers so far."""


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
        check_text(path, start, delimiter)  # its verdict explains all others
        raise
    faults.raise_if_any()
    if collector.n_rows == 0:
        detail = "The file has no rows of data" + (" behind its header." if layout.names else ".")
        raise InvalidFile([FileError(layout.body_line, None, "no_rows", detail)])
    roles, names = layout.roles, layout.names
    summary = collector.finish(
        len(roles.features),
        warnings,
        feature_names=None if names is None else [names[j] for j in roles.features],
        target=str(roles.target) if names is None else names[roles.target],
    )
    summary.warnings += _warn_mixed_labels(summary.labels or [])
    return summary


def _check_delimiter(delimiter: str | None) -> str:
    if delimiter is None:
        return ","
    if delimiter == "tab":
        return "\t"
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"+-.\r\n\0':
        raise InvalidOption(
            "delimiter",
            "It must be 'tab' or one ASCII character that is no letter, digit, quote, sign, dot or line end.",
        )
    return delimiter


def _check_header(path: Path, start: int, layout: Layout) -> None:
    with path.open("rb") as file:
        file.seek(start)
        if not is_sound(file.read(layout.body_start - start), layout.delimiter):
            raise _Unsound


def _convert(path: Path, start: int, layout: Layout, collector: Collector) -> ErrorLog:
    # Numbers are tried first: a real-valued target has about as many labels as rows.
    try:
        return _walk(path, start, layout, collector, as_words=False)
    except _FoundWord:
        collector.clear()
        return _walk(path, start, layout, collector, as_words=True)


def _walk(path: Path, start: int, layout: Layout, collector: Collector, as_words: bool) -> ErrorLog:
    """Convert the whole file; returns its faults. Rows behind the first fault are only looked at."""
    faults = ErrorLog()
    label_faults = ErrorLog()  # count only if no label is a word
    lines = LineCounter(path, start)
    convert = partial(_convert_piece, layout=layout, as_words=as_words)
    n_bytes = piece_bytes(layout.first_record_bytes)
    for piece, block in map_in_order(convert, pieces(path, layout.body_start, _find_record_end, n_bytes)):
        if block is None:
            line = lines.line_at(piece.first)
            found = find_faults(piece.text, line, layout)
            faults.extend(found)
            if faults.full:
                break
            if not found and not as_words:
                label_faults.extend(_find_label_faults(piece, line, layout))
        if not (faults or label_faults):
            block = block or _convert_records(piece, layout, as_words)
            if block is not None:
                collector.add(block)
    return faults or label_faults


def _find_record_end(mapped: Mapped, first: int, past: int) -> int:
    """The place behind the last line end that no quotes enclose, or 0. A CR at the very end may lack its LF."""
    buffer = np.frombuffer(mapped, dtype=np.uint8, count=past - first, offset=first)
    is_quote = buffer == ord('"')
    if not is_quote.any():
        return (mapped.rfind(b"\n", first, past) + 1) or (mapped.rfind(b"\r", first, past - 1) + 1)
    is_end = buffer == ord("\n")
    is_end[:-1] |= (buffer[:-1] == ord("\r")) & (buffer[1:] != ord("\n"))
    ends = np.flatnonzero(is_end)
    quotes_before = np.searchsorted(np.flatnonzero(is_quote), ends)
    outside = ends[quotes_before % 2 == 0]
    return first + int(outside[-1]) + 1 if len(outside) else 0


def _find_label_faults(piece: Piece, line: int, layout: Layout) -> ErrorLog:
    """Labels that spell no finite number, of a piece that has no other faults."""
    for _, record in read_records(piece.text, line, layout):
        label = record[layout.roles.target]
        if not NUMBER.fullmatch(label) and not NOT_FINITE.fullmatch(label):
            raise _FoundWord
    return find_faults(piece.text, line, layout, numeric_labels=True)


def _convert_piece(piece: Piece, layout: Layout, as_words: bool) -> tuple[Piece, Block | None]:
    """By pyarrow: fast; None where it refuses, and where it would be slow."""
    if not is_sound(piece.text, layout.delimiter):
        raise _Unsound
    if layout.n_columns > WIDE or _is_blank(piece.text):
        return piece, None
    roles = layout.roles
    try:
        columns = [column.chunk(0) for column in _parse(piece, layout, as_words).columns]
    except pa.ArrowInvalid:
        return piece, None
    if any(column.null_count for column in columns):
        return piece, None
    n_features = len(roles.features)
    X = np.empty((len(columns[0]), n_features))
    for j, column in enumerate(columns[:n_features]):
        X[:, j] = column.to_numpy()
    others = iter(columns[n_features:])
    target = _encode(next(others)) if as_words else next(others).to_numpy()
    weight = None if roles.weight is None else next(others).to_numpy()
    group = None if roles.group is None else _encode(next(others))
    block = Block(X, target, weight, group)
    return piece, block if is_clean(block) else None


def _is_blank(text: bytes) -> bool:
    return not text[:100].strip(b"\r\n") and not text.strip(b"\r\n")  # the second copies most of it


def _encode(column: Any) -> Encoded:
    return column.dictionary.to_pylist(), column.indices.to_numpy()


def _parse(piece: Piece, layout: Layout, as_words: bool) -> Any:
    """A table whose columns are the features, the target and, where they are, the weight and the group."""
    roles = layout.roles
    keys = [str(j) for j in range(layout.n_columns)]  # free of the user's names, which may clash
    words = pa.dictionary(pa.int32(), pa.string())
    types = {keys[j]: pa.float64() for j in roles.numbers}
    types[keys[roles.target]] = words if as_words else pa.float64()
    wanted = [*roles.features, roles.target]
    if roles.weight is not None:
        wanted.append(roles.weight)
    if roles.group is not None:
        types[keys[roles.group]] = words
        wanted.append(roles.group)
    # One block: where two meet, pyarrow 26 loses the line feed of a quoted CR LF.
    one_block = pyarrow.csv.ReadOptions(column_names=keys, use_threads=False, block_size=len(piece.text) + 1)
    return pyarrow.csv.read_csv(
        pa.BufferReader(piece.text),
        read_options=one_block,
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=b'"' in piece.text),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=[keys[j] for j in wanted],
            null_values=list(layout.missing),  # nothing else turns into a missing value: an empty cell is a fault
            strings_can_be_null=bool(layout.missing),
            check_utf8=False,  # done before
        ),
    )


def _convert_records(piece: Piece, layout: Layout, as_words: bool) -> Block | None:
    """By Python's own reader: the same result, for what pyarrow reads slowly or not at all; None for blank lines."""
    roles = layout.roles
    records = [record for _, record in read_records(piece.text, 0, layout)]
    if not records:
        return None
    labels = [record[roles.target] for record in records]
    return Block(
        X=np.array([[float(record[j]) for j in roles.features] for record in records]),
        target=encode_list(labels) if as_words else np.array([float(label) for label in labels]),
        weight=None if roles.weight is None else np.array([float(record[roles.weight]) for record in records]),
        group=None if roles.group is None else encode_list([record[roles.group] for record in records]),
    )


def _warn_mixed_labels(labels: list[str]) -> list[FileWarning]:
    words = [label for label in labels if not NUMBER.fullmatch(label)]
    if len(words) == len(labels):
        return []
    detail = (
        f"{len(words)} of the {len(labels)} distinct labels are not numbers, such as {excerpt(words[0])}; "
        "all labels are taken as strings."
    )
    return [FileWarning("mixed_labels", detail)]
