"""Converts pieces of a CSV file to blocks of rows: with a compiled kernel if all cells are plain numbers, else with
pyarrow. The CSV reader calls it in several threads."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from app.datasets.formats import csv_kernels, decimal_kernels
from app.datasets.formats.collect import Block, is_clean
from app.datasets.formats.column_roles import Roles
from app.datasets.formats.csv_cells import Plan
from app.datasets.formats.csv_kernels import TARGET, TOO_PRECISE, WEIGHT, mark_padded, parse_numbers
from app.datasets.formats.csv_layout import Layout
from app.datasets.formats.labels import Encoded
from app.datasets.formats.text import Piece, is_sound
from app.datasets.formats.words import encode_cells
from app.tabular.cells import MARKS
from app.tabular.types import Array

__all__ = ["Unsound", "convert_piece", "warm"]

WIDE = 10_000
"""Maximum columns of a table that pyarrow parses. Python's csv module parses wider tables, except pieces of plain
numbers. Larger: more tables pay pyarrow's fixed cost per column and piece. Set by hand; no measurement is recorded."""
IGNORED = -3


class Unsound(Exception):
    """Raised when the bytes of a piece are not valid text."""


@cache
def warm() -> None:
    """Compile or load the kernel, once per process."""
    from solvers.linalg import kernel_cache

    kernels = kernel_cache.kernels_of(csv_kernels) + kernel_cache.kernels_of(decimal_kernels)
    layout = Layout(",", None, 2, Roles(1, None, None, [0]), frozenset(), 4, 0, 1)

    def use() -> None:
        _parse_plain(Piece(b"0.1,2\n", 0, 6), layout)  # for both precisions
        _padded_columns(Piece(b"01,2\n", 0, 5), layout)

    kernel_cache.warm(kernels, use)


def convert_piece(piece: Piece, layout: Layout, plan: Plan) -> tuple[Piece, Block | None]:
    """Convert a piece with the kernel if all cells are plain numbers, else with pyarrow. The block is None if pyarrow
    fails or would be slow."""
    if not (plan.words or plan.marked or layout.missing) and (plain := _parse_plain(piece, layout)) is not None:
        return piece, plain
    if not is_sound(piece.text, layout.delimiter):
        raise Unsound
    if layout.n_columns > WIDE or _is_blank(piece.text):
        return piece, None
    if _padded_columns(piece, layout) - plan.words:
        return piece, None
    roles = layout.roles
    reading = Plan(plan.words, plan.marked - plan.words)  # a copy: other threads can change the plan meanwhile
    try:
        table = _parse(piece, layout, reading)
        columns = {j: table.column(str(j)).chunk(0) for j in layout.used}
        marks = {j: _take_out_marks(columns, j, layout) for j in reading.marked}
    except pa.ArrowInvalid:
        return piece, None
    n_rows = n_kept = table.num_rows
    if layout.drops_missing and roles.target is not None:
        columns = _labelled(columns, roles.target, layout.missing)
        n_kept = len(columns[roles.features[0]])
    if any(columns[j].null_count for j in (roles.target, roles.weight) if j is not None):
        return piece, None
    make = np.zeros if reading.words else np.empty
    X = make((n_kept, len(roles.features)))
    for k, j in enumerate(roles.features):
        if j not in reading.words:
            X[:, k] = columns[j].to_numpy(zero_copy_only=False)
    features = dict(enumerate(roles.features))
    block = Block(
        X,
        target=None if roles.target is None else _labels(columns[roles.target]),
        weight=None if roles.weight is None else columns[roles.weight].to_numpy(),
        group=None if roles.group is None else _encode(columns[roles.group]),
        words={
            k: encode_cells(columns[j], layout.missing, may_be_numbers=True)
            for k, j in features.items()
            if j in reading.words
        },
        missing={k: columns[j].null_count for k, j in features.items() if columns[j].null_count},
        marks={k: marks[j] for k, j in features.items() if marks.get(j)},
        dropped=n_rows - n_kept,
    )
    return piece, block if is_clean(block) and not _says_missing(block, layout) else None


def _parse_plain(piece: Piece, layout: Layout) -> Block | None:
    """Parse rows of plain numbers. Returns None if the piece contains anything else. A parsed piece needs no further
    check for valid text."""
    roles = layout.roles
    places = np.full(layout.n_columns, IGNORED)
    places[roles.features] = np.arange(len(roles.features))
    if roles.target is not None:
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
    return Block(X, None if roles.target is None else target, None if roles.weight is None else weight)


def _padded_columns(piece: Piece, layout: Layout) -> frozenset[int]:
    """Return the features with an integer that has leading zeros. Arrow would read such a code as a number."""
    padded = np.zeros(layout.n_columns, dtype=np.bool_)
    mark_padded(np.frombuffer(piece.text, np.uint8), ord(layout.delimiter), padded)
    if not padded.any():
        return frozenset()
    choices = layout.roles.choices
    return frozenset(j for j in layout.roles.features if padded[j] and choices.get(j) != "numeric")


def _labelled(columns: dict[int, Any], place: int, missing: frozenset[str]) -> dict[int, Any]:
    """Return the columns without the rows that have no label in column `place`."""
    target = columns[place]
    if pa.types.is_dictionary(target.type):
        words = target.dictionary
        gone = pc.equal(pc.utf8_trim(words, characters=" \t"), "")
        if missing:
            gone = pc.or_(gone, pc.is_in(words, value_set=pa.array(sorted(missing), pa.string())))
        keep = pc.invert(pc.take(gone, target.indices))
    else:
        keep = target.is_valid()
    if pc.all(keep).as_py() is not False:
        return columns
    kept = {j: column.filter(keep) for j, column in columns.items()}
    if pa.types.is_dictionary(target.type):
        kept[place] = kept[place].dictionary_decode().dictionary_encode()
    return kept


def _labels(column: Any) -> Array | Encoded:
    return _encode(column) if pa.types.is_dictionary(column.type) else column.to_numpy()


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
    if roles.target is not None and roles.target in plan.words:
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
