"""Rows as an Arrow stream: columns by name. Declared sizes are checked before the stream is read.

A few bytes can declare many values: nulls need no bytes, and a dictionary value is stored once. So names, row counts
and the expanded bytes of texts are checked first, and only columns of the model are read.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.errors import Invalid, Unparsable, UnsupportedMediaType, invalid_field
from app.predictions.array_rows import ROWS
from app.predictions.model_features import Features
from app.predictions.rows import Columns, check_count, duplicate_column

# Field numbers of the flatbuffer tables of Arrow's message format.
MESSAGE_HEADER_TYPE, MESSAGE_HEADER = 1, 2
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
DICTIONARY_DATA = 1
BATCH_LENGTH, BATCH_COMPRESSION = 0, 3


def read_arrow(body: bytes, features: Features) -> Columns:
    import pyarrow as pa  # imported here, because most processes do not need it

    try:
        n_rows = _count_rows(pa, body)
        check_count(n_rows, "body")
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            names = stream.schema.names
            if len(set(names)) != len(names):
                raise duplicate_column(names)
            features.check_columns(names, ROWS)
            features.admit(n_rows, "body")
            known = [name for name in names if name in features.index_of]
            for name in known:
                if not _is_readable(pa, stream.schema.field(name).type):
                    raise _unreadable(name)
            table = stream.read_all().select(known)
        table.validate()
        text_bytes = sum(_text_bytes(pa, name, table.column(name), features) for name in known)
        features.admit(table.num_rows, "body", text_bytes)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error):
        raise Unparsable("The body is not a valid Arrow stream.") from None
    columns: dict[str, Sequence[Any] | None] = dict.fromkeys(names)
    columns |= {name: _values(pa, name, table.column(name)) for name in known}
    return Columns(columns, table.num_rows, ROWS)


def _count_rows(pa: Any, body: bytes) -> int:
    """Sum the declared rows of all batches. Refuses compressed batches, which can expand far beyond the body."""
    total = 0
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return total
        metadata = message.metadata.to_pybytes()
        root = struct.unpack_from("<I", metadata)[0]
        kind = _field(metadata, root, MESSAGE_HEADER_TYPE)
        batch = _field(metadata, root, MESSAGE_HEADER)
        if not kind or not batch or metadata[kind] not in (DICTIONARY_BATCH, RECORD_BATCH):
            continue
        table = _follow(metadata, batch)
        if metadata[kind] == DICTIONARY_BATCH:
            data = _field(metadata, table, DICTIONARY_DATA)
            table = _follow(metadata, data) if data else table
        if _field(metadata, table, BATCH_COMPRESSION):
            raise UnsupportedMediaType(
                "Compressed Arrow streams are not supported; write the stream without compression."
            )
        length = _field(metadata, table, BATCH_LENGTH)
        if length and metadata[kind] == RECORD_BATCH:
            total += max(0, struct.unpack_from("<q", metadata, length)[0])


def _field(buffer: bytes, table: int, number: int) -> int:
    """Return the offset of a field of a flatbuffer table; 0: it is absent."""
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", buffer, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", buffer, vtable + place)[0]
    return table + offset if offset else 0


def _follow(buffer: bytes, place: int) -> int:
    offset: int = struct.unpack_from("<I", buffer, place)[0]
    return place + offset


def _text_bytes(pa: Any, name: str, column: Any, features: Features) -> int:
    """Return the bytes of the texts of all rows when expanded, if the stream can have fewer."""
    if pa.types.is_string_view(column.type):
        return sum(_view_bytes(chunk) for chunk in column.chunks)
    if name in features.texts and pa.types.is_dictionary(column.type):
        return sum(_dictionary_bytes(pa, chunk) for chunk in column.chunks)
    return 0


def _view_bytes(chunk: Any) -> int:
    """Sum the lengths of a string-view column. Each view has 16 bytes and begins with the length."""
    views = chunk.buffers()[1]
    if not len(chunk) or views is None:
        return 0
    lengths = np.frombuffer(views, "<i4").reshape(-1, 4)[chunk.offset : chunk.offset + len(chunk), 0]
    lengths = lengths[chunk.is_valid().to_numpy(zero_copy_only=False)]
    if (lengths < 0).any():
        raise ValueError("a view has a negative length")
    return int(lengths.sum(dtype=np.int64))


def _dictionary_bytes(pa: Any, chunk: Any) -> int:
    import pyarrow.compute as pc

    if not _is_text(pa, chunk.type.value_type):
        return 0
    lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(chunk.indices)).as_py() or 0


def _values(pa: Any, name: str, column: Any) -> Sequence[Any] | None:
    """Return a numpy array of numbers, or Python values; missing values are NaN or None. None: all are missing."""
    if pa.types.is_null(column.type):
        return None
    if _is_number(pa, column.type):
        numbers: Sequence[Any] = column.cast(pa.float64(), safe=False).to_numpy()
        return numbers
    try:
        if pa.types.is_dictionary(column.type):
            return [value for chunk in column.chunks for value in _looked_up(pa, chunk)]
        return _python_values(pa, column)
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        raise _unreadable(name) from None


def _looked_up(pa: Any, chunk: Any) -> list[Any]:
    """Return the values of a dictionary array. Rows with the same value share one object."""
    values = [*_python_values(pa, chunk.dictionary), None]
    places = chunk.indices.cast(pa.int64()).fill_null(len(values) - 1).to_pylist()
    return [values[place] for place in places]


def _python_values(pa: Any, array: Any) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
    values: list[Any] = array.to_pylist()
    return values


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_readable(pa: Any, kind: Any) -> bool:
    """Whether a column of this type is supported. Runs and lists are not: one byte can stand for millions of values."""
    types = pa.types
    if types.is_dictionary(kind):
        return _is_readable(pa, kind.value_type) and not types.is_dictionary(kind.value_type)
    others = types.is_null, types.is_boolean, types.is_date, types.is_timestamp, types.is_string_view
    return _is_number(pa, kind) or _is_text(pa, kind) or any(is_kind(kind) for is_kind in others)


def _unreadable(name: str) -> Invalid:
    return invalid_field(
        "body",
        "wrong_type",
        f"the column {name[:64]!r} has a type that is not supported; send numbers, strings, booleans or dates",
    )
