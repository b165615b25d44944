"""Encodes predictions in the format that the client accepts."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from app.errors import NotAcceptable, invalid_field
from app.tabular.cells import NUMBER
from app.tabular.types import Array
from app.web.media_types import ARROW, CSV, JSON, NDJSON, NPY

OFFERED = (JSON, CSV, NDJSON, ARROW, NPY)

Column = Sequence[Any] | Array
QUOTE = '"'
COMMA, LINE_FEED = b",\n"
NEEDS_QUOTES = re.compile('[,"\r\n]')
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make spreadsheets treat a cell as a formula (OWASP, CSV injection)."""
PLAIN = frozenset((int, float, bool, type(None)))
"""Types whose JSON text contains no comma and needs no quotes in CSV."""

_encoder = msgspec.json.Encoder()


class Reply(NamedTuple):
    content: bytes
    media_type: str
    headers: Mapping[str, str]


def negotiated(accept: str | None) -> str:
    """Choose the format by the q-values of Accept; of equal ones the first that is offered. Raises NotAcceptable."""
    if accept is None or accept in ("*/*", JSON):
        return JSON
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weights[name] = _weight(parameters)
    best, chosen = 0.0, None
    for media_type in OFFERED:
        for pattern in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
            if pattern in weights:
                if weights[pattern] > best:
                    best, chosen = weights[pattern], media_type
                break
    if chosen is None:
        raise NotAcceptable(f"The response can be {', '.join(OFFERED)}; Accept lists none of them.")
    return chosen


def encode(media_type: str, about: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    """Encode predictions. `about`: fields of the whole response, which only JSON contains."""
    return ENCODERS[media_type](about, columns)


def default_outputs(media_type: str, outputs: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    """Return the default outputs of a format: only scores for arrays."""
    if media_type != NPY:
        return usual
    return ("scores",) if "scores" in outputs else ("score",)


def plain(column: Column) -> Sequence[Any]:
    values: Sequence[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0


def records(columns: Mapping[str, Column]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*map(plain, columns.values()), strict=True)]


def _json(about: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    return _encoder.encode({**about, "predictions": records(columns)})


def _ndjson(about: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    return _encoder.encode_lines(records(columns))


def _csv(about: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    """Write CSV: numbers with all digits, empty cells for null, JSON for values with parts.

    Texts that a spreadsheet would execute get a leading apostrophe.
    """
    if len(columns) > 1 and all(map(_is_plain, columns.values())):
        return _plain_csv(",".join(map(_quoted, columns)).encode(), list(columns.values()))
    cells = [_cells(column) for column in columns.values()]
    if len(cells) == 1:
        cells = [[cell or '""' for cell in cells[0]]]  # an empty line would not count as a row
    return "\n".join([",".join(map(_quoted, columns)), *map(",".join, zip(*cells, strict=True)), ""]).encode()


def _plain_csv(heading: bytes, columns: Sequence[Column]) -> bytes:
    """Write all cells as one list, row by row, and then replace some commas by line ends: twice as fast."""
    width = len(columns)
    cells: list[Any] = [None] * (width * len(columns[0]))
    for place, column in enumerate(columns):
        cells[place::width] = plain(column)
    text = bytearray()
    _encoder.encode_into(cells, text)
    text[0], text[-1] = LINE_FEED, COMMA  # replace the brackets of the list
    letters = np.frombuffer(text, np.uint8)
    letters[np.flatnonzero(letters == COMMA)[width - 1 :: width]] = LINE_FEED
    return heading + text.replace(b"null", b"")


def _is_plain(column: Column) -> bool:
    """Whether there are values, and all of them are of a type in PLAIN."""
    if isinstance(column, np.ndarray):
        return column.ndim == 1 and column.dtype.kind in "fiub" and len(column) > 0
    return len(column) > 0 and PLAIN.issuperset(map(type, column))


def _cells(column: Column) -> list[str]:
    values = plain(column)
    if _is_plain(column):
        return _encoder.encode(values).decode()[1:-1].replace("null", "").split(",")
    return [_quoted(_as_text(value) if isinstance(value, str) else _cell(value)) for value in values]


def _cell(value: Any) -> str:
    return "" if value is None else _encoder.encode(value).decode()


def _as_text(label: str) -> str:
    """Quote a label for CSV. A label that a spreadsheet would execute gets a leading apostrophe."""
    is_formula = len(label) > 1 and label.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(label)
    return "'" + label if is_formula else label


def _quoted(text: str) -> str:
    return f'"{text.replace(QUOTE, 2 * QUOTE)}"' if NEEDS_QUOTES.search(text) else text


def _arrow(about: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    import pyarrow as pa  # imported here, because most processes do not need it

    arrays = {name: _arrow_column(pa, column) for name, column in columns.items()}
    table = pa.table(arrays, metadata={name: _encoder.encode(value) for name, value in about.items()})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def _arrow_column(pa: Any, column: Column) -> Any:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return pa.array(column)
    values = plain(column)
    if len({type(value) for value in values}) > 1 and any(isinstance(value, str) for value in values):
        return pa.array([str(value) for value in values])  # labels of different types are written as text
    if values and isinstance(values[0], list) and any(isinstance(one, str) for part in values for one in part):
        return pa.array([[str(one) for one in part] for part in values], pa.list_(pa.string()))
    return pa.array(values)


def _npy(about: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    array = None
    if len(columns) == 1:
        (column,) = columns.values()
        array = np.asarray(column) if not isinstance(column, list) or _all_numbers(column) else None
    if array is None:
        raise invalid_field(
            "return",
            "not_an_array",
            "an npy response contains exactly one numeric output without nulls; request one, or another format",
        )
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _all_numbers(values: Sequence[Any]) -> bool:
    return all(type(value) in (int, float) for value in values)


ENCODERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Column]], bytes]] = {
    JSON: _json,
    CSV: _csv,
    NDJSON: _ndjson,
    ARROW: _arrow,
    NPY: _npy,
}
