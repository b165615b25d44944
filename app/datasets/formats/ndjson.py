"""ndjson: one JSON object a line, all with the same keys, in any order.

The first line names the columns and tells by its values whether labels (and groups) are numbers or
strings; the other lines must agree. pyarrow converts piece by piece; where it refuses, Python's own
reader finds the places of the faults. Blank lines are skipped; a value of null is a fault.
"""

import json
from collections.abc import Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from .collect import Block, Collector, is_clean
from .columns import Roles, Source, assign_roles
from .compressed import Ceiling
from .labels import encode_list
from .table import Array, ErrorLog, FileError, InvalidFile, ReadOptions, Summary, excerpt
from .text import (
    MAX_LINE_BYTES,
    LineCounter,
    Piece,
    find_line_end,
    is_utf8,
    map_in_order,
    piece_bytes,
    pieces,
    skip_byte_order_mark,
)

__all__ = ["read_ndjson"]

BLANK = b" \t\r\n"
EXACT_DIGITS = 18  # integers of so many fit 64 bits; longer ones are read as floats

Pairs = list[tuple[str, Any]]


class _Layout:
    """What the first line says of all others."""

    def __init__(self, first: Pairs, options: ReadOptions, line_bytes: int) -> None:
        self.names = [name for name, _ in first]
        self.roles: Roles = assign_roles(self.names, len(self.names), options)
        values = [value for _, value in first]
        self.has_words = isinstance(values[self.roles.target], str)
        self.has_word_groups = self.roles.group is not None and isinstance(values[self.roles.group], str)
        self.line_bytes = line_bytes

    @property
    def used(self) -> list[int]:
        roles = self.roles
        return [*roles.features, *(j for j in (roles.target, roles.weight, roles.group) if j is not None)]

    def kind(self, j: int) -> str:
        """What the values of a column must be: number, string or integer."""
        if j == self.roles.target and self.has_words:
            return "string"
        if j == self.roles.group:
            return "string" if self.has_word_groups else "integer"
        return "number"


def read_ndjson(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    with path.open("rb") as file:
        start = skip_byte_order_mark(file.read(4))
    layout = _find_layout(path, start, options)
    faults = ErrorLog()
    lines = LineCounter(path, start)
    convert = partial(_convert_piece, layout=layout)
    for piece, block in map_in_order(convert, pieces(path, start, find_line_end, piece_bytes(layout.line_bytes))):
        if block is None:
            faults.extend(_find_faults(piece, lines.line_at(piece.first), layout))
            if faults.full:
                break
        if not faults:
            block = block or _convert_lines(piece, layout)
            if block is not None:
                collector.add(block)
    faults.raise_if_any()
    names, roles = layout.names, layout.roles
    return collector.finish(len(roles.features), [], Source(names, len(names), roles))


def _find_layout(path: Path, start: int, options: ReadOptions) -> _Layout:
    number = 0
    with path.open("rb") as file:
        file.seek(start)
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                detail = f"The line is longer than {MAX_LINE_BYTES >> 20} MiB."
                raise InvalidFile([FileError(number, None, "line_too_long", detail)])
            if line.strip(BLANK):
                log = ErrorLog()
                pairs = _parse_line(line, number, log)
                log.raise_if_any()
                if len(pairs) < 2:
                    detail = "The object has less than two keys; a label and features are needed."
                    raise InvalidFile([FileError(number, 1, "one_column", detail)])
                return _Layout(pairs, options, len(line))
    raise InvalidFile([FileError(None, None, "empty_file", "The file has no text in it.")])


def _convert_piece(piece: Piece, layout: _Layout) -> tuple[Piece, Block | None]:
    """By pyarrow: fast; None where it refuses, or where the lines are not plain."""
    n_lines = _count_objects(piece.text)
    if n_lines == 0:
        return piece, None
    try:
        table = _parse(piece, layout)
    except pa.ArrowInvalid:
        return piece, None
    if table.num_rows != n_lines or not set(table.column_names) <= set(layout.names):
        return piece, None
    columns = {j: table.column(layout.names[j]).chunk(0) for j in layout.used}
    if any(column.null_count for column in columns.values()):
        return piece, None
    roles = layout.roles
    X = np.empty((n_lines, len(roles.features)))
    for k, j in enumerate(roles.features):
        X[:, k] = columns[j].to_numpy()
    weight = None if roles.weight is None else columns[roles.weight].to_numpy()
    block = Block(
        X,
        target=_encode(columns[roles.target]) if layout.has_words else columns[roles.target].to_numpy(),
        weight=weight,
        group=None if roles.group is None else _encode(columns[roles.group]),
    )
    return piece, block if is_clean(block) else None


def _count_objects(text: bytes) -> int:
    """The number of lines if each is an object and the text is sound, else 0."""
    if b"\0" in text or not is_utf8(text):
        return 0
    if text.startswith(b"{") and text.rstrip(BLANK).endswith(b"}"):
        ends = text.rstrip(BLANK).count(b"\n")
        if text.count(b"}\n{") == ends or text.count(b"}\r\n{") == ends:
            return ends + 1
    lines = [line for line in (line.strip(BLANK) for line in text.split(b"\n")) if line]
    return len(lines) if all(line.startswith(b"{") and line.endswith(b"}") for line in lines) else 0


def _parse(piece: Piece, layout: _Layout) -> Any:
    types = {"number": pa.float64(), "string": pa.string(), "integer": pa.int64()}
    fields = [(layout.names[j], types[layout.kind(j)]) for j in layout.used]
    # Columns that are ignored are read as whatever they are, so that a key that is not known is still found.
    others = "error" if len(fields) == len(layout.names) else "infer"
    return pyarrow.json.read_json(
        pa.BufferReader(piece.text),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(piece.text) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=others),
    )


def _encode(column: Any) -> tuple[list[Any], Array]:
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _convert_lines(piece: Piece, layout: _Layout) -> Block | None:
    """By Python's own reader: the same result, for lines without faults that are not plain; None if all are blank."""
    rows = [dict(pairs) for _, pairs in _read_lines(piece, 0, ErrorLog())]
    if not rows:
        return None
    names, roles = layout.names, layout.roles
    labels = [row[names[roles.target]] for row in rows]
    return Block(
        X=np.array([[float(row[names[j]]) for j in roles.features] for row in rows]),
        target=encode_list(labels) if layout.has_words else np.array(labels, dtype=np.float64),
        weight=None if roles.weight is None else np.array([float(row[names[roles.weight]]) for row in rows]),
        group=None if roles.group is None else encode_list([row[names[roles.group]] for row in rows]),
    )


def _find_faults(piece: Piece, line: int, layout: _Layout) -> ErrorLog:
    log = ErrorLog()
    columns = {name: j for j, name in enumerate(layout.names)}
    used = sorted(layout.used)
    for number, pairs in _read_lines(piece, line, log):
        for name, _ in pairs:
            if name not in columns:
                log.add(number, None, "unknown_name", f"{excerpt(name)} is not a key of the first line.")
        row = dict(pairs)
        for j in used:
            fault = _judge(row, layout.names[j], layout.kind(j), is_weight=j == layout.roles.weight)
            if fault is not None:
                log.add(number, j + 1, fault[0], f"{excerpt(layout.names[j])} {fault[1]}.")
        if log.full:
            break
    return log


def _judge(row: dict[str, Any], name: str, kind: str, is_weight: bool) -> tuple[str, str] | None:
    value = row.get(name)
    if value is None or (isinstance(value, str) and kind == "string" and not value.strip(" \t")):
        what = "is not there" if name not in row else "is null" if value is None else "is empty"
        return "missing_value", f"{what}; fill it in or leave the row out"
    if kind == "string":
        return None if isinstance(value, str) else ("not_a_string", "is not a string, but that of the first line is")
    if kind == "integer":
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return None if is_integer else ("not_an_integer", "is not an integer of at most 18 digits")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "not_a_number", "is not a number"
    if not isfinite(value):
        return "not_finite", "is not finite as a 64-bit float; only finite numbers are accepted"
    if is_weight and value < 0:
        return "negative_weight", f"is {value}; weights must not be negative"
    return None


def _read_lines(piece: Piece, line: int, log: ErrorLog) -> Iterator[tuple[int, Pairs]]:
    """The line number and the object of every line that holds one; what is no object is logged."""
    for number, text in enumerate(piece.text.split(b"\n"), start=line):
        if text.strip(BLANK):
            n_faults = len(log)
            pairs = _parse_line(text, number, log)
            if len(log) == n_faults:
                yield number, pairs


def _parse_line(raw: bytes, number: int, log: ErrorLog) -> Pairs:
    """The keys and values of one object, in order; what is wrong with it is logged."""
    try:
        pairs = _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        log.add(number, error.start + 1, "not_utf8", f"Byte {error.start + 1} of the line is not valid UTF-8.")
    except json.JSONDecodeError as error:
        log.add(number, error.colno, "not_json", f"The line is not JSON: {error.msg}.")
    except RecursionError:
        log.add(number, None, "not_json", "The line is nested too deeply.")
    else:
        if not isinstance(pairs, _Object):
            log.add(number, 1, "not_an_object", "The line is not a JSON object: {...} with a key for each column.")
        elif len({name for name, _ in pairs}) < len(pairs):
            log.add(number, None, "duplicate_name", "The object has a key twice.")
        else:
            return pairs
    return []


class _Object(Pairs):
    """The pairs of an object, told from an array of pairs."""


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= EXACT_DIGITS else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_read_integer)
