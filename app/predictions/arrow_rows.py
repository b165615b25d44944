"""Rows in an Arrow stream: columns by name. What the stream says of itself is checked before it is believed."""

import struct
from typing import Any

from app.errors import Invalid, Unparsable, UnsupportedMediaType, invalid_field
from app.predictions.array_rows import ROWS
from app.predictions.rows import Columns, check_count

# Of the flatbuffer tables of Arrow's message format: which field is which.
MESSAGE_HEADER_TYPE, MESSAGE_HEADER = 1, 2
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
DICTIONARY_DATA = 1
BATCH_LENGTH, BATCH_COMPRESSION = 0, 3


def read_arrow(body: bytes) -> Columns:
    import pyarrow as pa  # here, because most processes never need it

    try:
        n_rows = _count_rows(pa, body)
        check_count(n_rows, "body")
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            table = stream.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error):
        raise Unparsable("The body is not an Arrow stream.") from None
    names = table.column_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid_field("body", "duplicate_column", f"the column {twice[:64]!r} is there twice")
    return Columns({name: _values(pa, name, table.column(name)) for name in names}, table.num_rows, ROWS)


def _count_rows(pa: Any, body: bytes) -> int:
    """How many rows all batches say they have. Refuses compressed ones: they can be far larger than what was sent."""
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
            raise UnsupportedMediaType("Compressed Arrow streams are not read here; write it without compression.")
        length = _field(metadata, table, BATCH_LENGTH)
        if length and metadata[kind] == RECORD_BATCH:
            total += max(0, struct.unpack_from("<q", metadata, length)[0])


def _field(buffer: bytes, table: int, number: int) -> int:
    """Where a flatbuffer table keeps a field; 0: it has none."""
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", buffer, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", buffer, vtable + place)[0]
    return table + offset if offset else 0


def _follow(buffer: bytes, place: int) -> int:
    offset: int = struct.unpack_from("<I", buffer, place)[0]
    return place + offset


def _values(pa: Any, name: str, column: Any) -> Any:
    """A numpy array of numbers, or Python values; missing ones are NaN or None."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False).to_numpy()
    try:
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", kind.tz), safe=False)
        return column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        raise _unreadable(name) from None


def _unreadable(name: str) -> Invalid:
    return invalid_field("body", "wrong_type", f"the column {name[:64]!r} holds values that cannot be read")
