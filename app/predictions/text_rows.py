"""Rows in text: CSV and TSV with or without a header, libsvm with or without labels."""

import csv
import io
import re
from typing import Any

import numpy as np

from app.errors import Invalid, Unparsable, invalid_field
from app.predictions.model_features import Features
from app.predictions.rows import Columns, MatrixRows, Places, Rows, check_count, check_width, csr_of
from app.tabular import cells

MISSING_WORDS = [
    "",
    "NaN",
    *cells.MARKS,
    *(mark.upper() for mark in cells.MARKS),
    *(mark.capitalize() for mark in cells.MARKS),
]
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
QUOTE = '"'
HEADER_CHARACTERS = 1 << 20
CONVERSION_ERROR = re.compile(r"column #(\d+): Row #(\d+)")

# An optional label, a number or a word (or several, separated by commas), an optional query id, then index:value pairs.
LABEL = r"[^\s:#\[\]{}\"<>]+"
LIBSVM_LINE = re.compile(
    rf"\s*(?:{LABEL}(?=\s|$))?((?:\s*qid:\d+(?=\s|$))?(?:\s*\d{{1,15}}:{NUMBER}(?=\s|$))*)\s*", re.ASCII
)
QUERY_ID = re.compile(r"\s*qid:\d+", re.ASCII)

csv.field_size_limit(1 << 40)  # of a cell; what may be sent at all is limited elsewhere


def read_csv(body: bytes, features: Features, delimiter: str, header: str | None) -> Rows:
    """`header` is `present`, `absent`, or None: there is one if a cell of the first row is a name of the model."""
    if header not in (None, "present", "absent"):
        raise invalid_field("Content-Type", "unknown_header", "header must be present or absent")
    text = decoded(body)
    _check_quotes(text, delimiter)
    first = _first_record(text, delimiter)
    has_header = header == "present" if header else _looks_like_names(first, features)
    records = _Records(text, delimiter, has_header)
    names = first if has_header else list(features.names)
    if has_header:
        _check_names(names, features)
    else:
        check_width(len(first), features.width, 0, Places(line_of=records.line_of))
    columns = records.columns([not names or name in features.numeric for name in names or first])
    places = Places(line_of=records.line_of)
    n_rows = len(columns[0])
    check_count(n_rows, "body")
    if not names:
        return MatrixRows(np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns]), places)
    return Columns(dict(zip(names, map(_values, columns), strict=True)), n_rows, places)


def read_libsvm(body: bytes, features: Features, index_base: int) -> Rows:
    """A row a line, indices from `index_base`; what follows a `#` is no part of it, and blank lines are no rows."""
    counts, pairs, lines = [], [], []
    for number, line in enumerate(decoded(body).splitlines(), 1):
        content = line.partition("#")[0]
        if not content.strip():
            continue
        match = LIBSVM_LINE.fullmatch(content)
        if match is None:
            raise Places(line_of=lambda row: row).refuse(number, "bad_line", "is not `label index:value …`")
        text = QUERY_ID.sub("", match[1], count=1)
        counts.append(text.count(":"))
        pairs.append(text)
        lines.append(number)
    places = Places(line_of=lines.__getitem__)
    check_count(len(counts), "body")
    starts = np.concatenate([[0], np.cumsum(counts)])
    numbers = np.empty(0)
    if starts[-1]:  # of nothing but blanks numpy would make a number
        numbers = np.fromstring(" ".join(pairs).replace(":", " "), dtype=np.float64, sep=" ")
    indices = numbers[0::2].astype(np.int64) - index_base
    matrix = csr_of(numbers[1::2], indices, starts, features.width, places, index_base)
    return MatrixRows(matrix, places)


def decoded(body: bytes) -> str:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise Unparsable(f"line {line}: the text is not valid UTF-8.") from None
    if "\0" in text:
        raise Unparsable(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}: a NUL is no text.")
    return text


class _Records:
    """The records of a delimited text, converted column by column."""

    def __init__(self, text: str, delimiter: str, has_header: bool) -> None:
        self._text = text
        self._delimiter = delimiter
        self._has_header = has_header

    def columns(self, numeric: list[bool]) -> list[Any]:
        """Arrow arrays: numbers with nulls where they are missing, or texts."""
        import pyarrow as pa  # here, because most processes never need it
        from pyarrow import csv as arrow_csv

        body = self._text.encode()
        names = [str(position) for position in range(len(numeric))]
        uneven: list[Any] = []

        def note(row: Any) -> str:
            uneven.append(row)
            return "skip"

        options = (
            arrow_csv.ReadOptions(
                use_threads=False,
                column_names=names,
                skip_rows_after_names=int(self._has_header),
                block_size=len(body) + 1,  # one block: a record may have any length
            ),
            arrow_csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                invalid_row_handler=note,
            ),
            arrow_csv.ConvertOptions(
                column_types={
                    name: pa.float64() if is_number else pa.string()
                    for name, is_number in zip(names, numeric, strict=True)
                },
                null_values=MISSING_WORDS,
            ),
        )
        try:
            table = arrow_csv.read_csv(pa.BufferReader(body), *options)
        except pa.ArrowInvalid as error:
            raise self._refusal(str(error), uneven) from None
        if uneven:
            raise self._uneven(uneven[0])
        return [column.combine_chunks() for column in table.columns]

    def line_of(self, row: int) -> int:
        """The line on which a row begins."""
        record = row + self._has_header
        reader = csv.reader(io.StringIO(self._text, newline=""), delimiter=self._delimiter)
        before = 0
        for fields in reader:
            if fields:
                if record == 0:
                    break
                record -= 1
            before = reader.line_num
        return before + 1

    def _refusal(self, message: str, uneven: list[Any]) -> Invalid | Unparsable:
        if uneven:
            return self._uneven(uneven[0])
        if place := CONVERSION_ERROR.search(message):
            row = int(place[2]) - 1 - self._has_header
            return Places(line_of=self.line_of).refuse(row, "not_a_number", "must be a number", int(place[1]))
        return Unparsable("The body is not CSV.")

    def _uneven(self, row: Any) -> Invalid:
        detail = f"has {row.actual_columns} cells, the first line has {row.expected_columns}"
        return Places(line_of=self.line_of).refuse(row.number - 1 - self._has_header, "wrong_width", detail)


def _values(column: Any) -> Any:
    """A numpy array of numbers, or the texts."""
    import pyarrow as pa

    return column.to_numpy(zero_copy_only=False) if pa.types.is_floating(column.type) else column


def _check_quotes(text: str, delimiter: str) -> None:
    """A quote that is never closed would make one cell of all rows behind it."""
    if text.count(QUOTE) % 2 == 0:
        return
    start = rf"(?:\A|(?<=[{delimiter}\r\n]))"  # of a cell; elsewhere a quote means nothing
    if not re.fullmatch(rf'(?:[^"]++|{start}"(?:[^"]|"")*+"|(?!{start})")*+', text):
        raise Unparsable("The body ends inside quotes.")


def _first_record(text: str, delimiter: str) -> list[str]:
    for size in (HEADER_CHARACTERS, len(text)):  # mostly there is no need to copy all of it
        stream = io.StringIO(text[:size], newline="")
        try:
            record = next(filter(None, csv.reader(stream, delimiter=delimiter)), None)
        except csv.Error as error:
            raise Unparsable(f"The first line is not CSV: {error}.") from None
        if stream.tell() < size:
            break
    if record is None:
        raise invalid_field("body", "empty", "give at least one row")
    return record


def _looks_like_names(record: list[str], features: Features) -> bool:
    if not features.names:
        return not all(cells.NUMBER.fullmatch(cell) or cell in MISSING_WORDS for cell in record)
    return any(cell in features.index_of for cell in record)


def _check_names(names: list[str], features: Features) -> None:
    if not features.names:
        detail = f"the model's features have no names; send exactly {features.width} columns without a header"
        raise invalid_field("body", "unnamed_features", detail)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid_field("body", "duplicate_column", f"the column {twice[:64]!r} is there twice")
