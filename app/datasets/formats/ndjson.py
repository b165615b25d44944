"""Reads ndjson: one JSON object per line, with the keys of the first line in any order.

The keys of the first line are the columns. The values of the first line determine whether labels are numbers, strings
or booleans (the classes `false` and `true`), and whether groups are numbers or strings. The first value of a feature
determines its type: number, boolean or string. null or an absent key is a missing value. pyarrow converts the file in
pieces. Python's json reads the pieces that pyarrow refuses. Blank lines are skipped.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from app.datasets.formats.collect import Block, Collector, is_clean
from app.datasets.formats.column_roles import Source
from app.datasets.formats.compressed import Ceiling
from app.datasets.formats.ndjson_lines import BLANK, Layout, Type, is_missing_label, parse_line, read_lines
from app.datasets.formats.table import ErrorLog, FileError, InvalidFile, ReadOptions, Summary
from app.datasets.formats.text import (
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
from app.datasets.formats.words import encode_cells
from app.tabular.types import Array

__all__ = ["read_ndjson"]

TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
NUMBER_BYTES = 8
"""Bytes of a float64, the size of a number in an array."""
FEWER_KEYS = "leave out keys that few lines have, or send sparse rows as libsvm"

_decode_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode_lines


def read_ndjson(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    with path.open("rb") as file:
        start = skip_byte_order_mark(file.read(4))
    layout = _find_layout(path, start, options)
    collector.prepare(options, layout.conventions, layout.roles, layout.names, may_be_numbers=False)
    admit = partial(_admit, layout=layout, ceiling=ceiling, file_bytes=path.stat().st_size)
    at_once = True
    while True:
        if _walk(path, start, layout, collector, admit, at_once):
            if collector.settled():
                break
        else:
            at_once = False  # the second pass searches the whole file for further such columns
        collector.clear()
    source = Source(layout.names, len(layout.names), layout.roles, _booleans(layout))
    if collector.n_rows == 0:
        raise InvalidFile([FileError(None, None, "no_rows", "The file has no rows of data with a label.")])
    return collector.finish(len(layout.roles.features), list(layout.roles.warnings), source)


def _booleans(layout: Layout) -> dict[int, Any]:
    features = enumerate(layout.roles.features)
    return {k: ("boolean", "every value is true or false") for k, j in features if layout.types.get(j) == "boolean"}


def _find_layout(path: Path, start: int, options: ReadOptions) -> Layout:
    """Return the layout that the first line shows. If rows without a label are left out, the first label decides the
    type of labels."""
    number = 0
    layout: Layout | None = None
    with path.open("rb") as file:
        file.seek(start)
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                detail = f"The line exceeds the limit of {MAX_LINE_BYTES >> 20} MiB; write one object per line."
                raise InvalidFile([FileError(number, None, "line_too_long", detail)])
            if line.strip(BLANK):
                log = ErrorLog()
                pairs = parse_line(line, number, log)
                log.raise_if_any()
                if layout is None and len(pairs) < 2:
                    detail = "The object has fewer than two keys; a label and at least one feature are needed."
                    raise InvalidFile([FileError(number, 1, "one_column", detail)])
                if layout is None:
                    layout = Layout(pairs, options, len(line))
                label = dict(pairs).get(layout.target_name or "")
                if layout.target_name is None or not layout.drops_missing or not is_missing_label(label):
                    if layout.target_name is not None:
                        layout.set_label(label)
                    return layout
    if layout is not None:
        return layout
    raise InvalidFile([FileError(None, None, "empty_file", "The file has no text in it.")])


def _admit(n_rows: int, layout: Layout, ceiling: Ceiling, file_bytes: int) -> None:
    """Raise TooLarge if the table has far more cells than the file has bytes. That is possible because lines can omit
    keys."""
    ceiling.check(n_rows * len(layout.roles.features) * NUMBER_BYTES, file_bytes, FEWER_KEYS)


def _walk(
    path: Path, start: int, layout: Layout, collector: Collector, admit: Callable[[int], None], at_once: bool
) -> bool:
    """Convert the whole file. Returns False if a feature that was assumed to be numeric is not.

    After such a feature or the first error, rows are checked but not stored. With `at_once` they are not read.
    """
    faults = ErrorLog()
    as_thought = True
    lines = LineCounter(path, start)
    convert = partial(_convert_piece, layout=layout, admit=admit)
    for piece, block in map_in_order(convert, pieces(path, start, find_line_end, piece_bytes(layout.line_bytes))):
        if block is None:
            seen = read_lines(piece.text, lines.line_at(piece.first), layout)
            block = seen.block
            layout.learn(seen.types)
            as_thought = as_thought and all(kind == "number" for kind in seen.types.values())
            faults.extend(seen.faults)
            if faults.full or (at_once and not as_thought):
                break
        if block is not None and as_thought and not faults:
            _note_numbers(block, layout)
            admit(collector.n_rows + len(block.X))
            collector.add(block)
    if as_thought:
        faults.raise_if_any()
    return as_thought


def _note_numbers(block: Block, layout: Layout) -> None:
    """Set the type of features whose first value is a number."""
    for k, j in enumerate(layout.roles.features):
        if j not in layout.types and block.missing.get(k, 0) < len(block.X):
            layout.learn({j: "number"})


def _convert_piece(piece: Piece, layout: Layout, admit: Callable[[int], None]) -> tuple[Piece, Block | None]:
    """Convert a piece with pyarrow. The block is None if pyarrow fails or a line is not a plain object."""
    n_lines = _count_objects(piece.text)
    admit(n_lines or sum(1 for line in piece.text.split(b"\n") if line.strip(BLANK)))
    if n_lines == 0 or not _has_known_keys(piece.text, layout):
        return piece, None
    names, roles, types = (
        layout.names,
        layout.roles,
        layout.types,
    )  # a copy: other threads can change the types meanwhile
    try:
        table = _parse(piece, layout, types)
        if table.num_rows != n_lines or not set(table.column_names) <= set(names):
            return piece, None
        columns = {j: table.column(names[j]).chunk(0) for j in layout.used}
        strings = {k: columns[j] for k, j in enumerate(roles.features) if types.get(j) == "string"}
        for column in strings.values():
            column.validate(full=True)
    except pa.ArrowInvalid:
        return piece, None
    others = [j for j in (roles.target, roles.weight, roles.group) if j is not None]
    if any(columns[j].null_count for j in others):  # also for rows to leave out, which is rare
        return piece, None
    X = np.zeros((n_lines, len(roles.features)))
    for k, j in enumerate(roles.features):
        if k not in strings:
            numbers = columns[j].cast(pa.float64()) if pa.types.is_boolean(columns[j].type) else columns[j]
            X[:, k] = numbers.to_numpy(zero_copy_only=False)
    block = Block(
        X,
        target=None if roles.target is None else _labels(columns[roles.target], layout),
        weight=None if roles.weight is None else columns[roles.weight].to_numpy(),
        group=None if roles.group is None else _encode(columns[roles.group]),
        words={k: encode_cells(column) for k, column in strings.items()},
        missing={
            k: columns[j].null_count for k, j in enumerate(roles.features) if columns[j].null_count and k not in strings
        },
    )
    return piece, block if is_clean(block) else None


def _count_objects(text: bytes) -> int:
    """Return the number of lines if each is an object and the text is valid, else 0."""
    if b"\0" in text or not is_utf8(text):
        return 0
    if text.startswith(b"{") and text.rstrip(BLANK).endswith(b"}"):
        ends = text.rstrip(BLANK).count(b"\n")
        if text.count(b"}\n{") == ends or text.count(b"}\r\n{") == ends:
            return ends + 1
    lines = [line for line in (line.strip(BLANK) for line in text.split(b"\n")) if line]
    return len(lines) if all(line.startswith(b"{") and line.endswith(b"}") for line in lines) else 0


def _has_known_keys(text: bytes, layout: Layout) -> bool:
    """Return whether all keys occur in the first line. Called only if columns are ignored; see `_parse`."""
    if len(layout.used) == len(layout.names):
        return True
    known = set(layout.names)
    try:
        return all(row.keys() <= known for row in _decode_keys(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _parse(piece: Piece, layout: Layout, types: Mapping[int, Type]) -> Any:
    roles = layout.roles
    fields = {j: TYPES[types.get(j, "number")] for j in layout.used}
    if roles.target is not None:
        fields[roles.target] = TYPES[layout.label_type]
    if roles.group is not None:
        fields[roles.group] = pa.string() if layout.has_word_groups else pa.int64()
    schema = pa.schema([(layout.names[j], kind) for j, kind in fields.items()])
    # pyarrow must not infer the types of ignored columns: it would make each unknown key a column of all rows.
    others = "error" if len(fields) == len(layout.names) else "ignore"
    return pyarrow.json.read_json(
        pa.BufferReader(piece.text),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(piece.text) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


def _labels(column: Any, layout: Layout) -> Any:
    return _encode(column) if layout.has_words else column.to_numpy()


def _encode(column: Any) -> tuple[list[Any], Array]:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
