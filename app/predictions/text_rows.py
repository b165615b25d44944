"""Rows as text: CSV and TSV with or without a header, libsvm with or without labels."""

import csv
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from app.errors import Invalid, Unparsable, invalid_field
from app.predictions import rows
from app.predictions.model_features import Features
from app.predictions.rows import Columns, MatrixRows, Places, Rows, check_count, check_width, csr_of, duplicate_column
from app.tabular import cells

MISSING_WORDS = [
    "",
    "NaN",
    *cells.MARKS,
    *(mark.upper() for mark in cells.MARKS),
    *(mark.capitalize() for mark in cells.MARKS),
]
QUOTE = '"'
LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
CONVERSION_ERROR = re.compile(r"column #(\d+): Row #(\d+)")

# An optional label (a number, a word, or several with commas), an optional query id, then index:value pairs. The
# pattern does not backtrack (`++`, `(?>…)`), so that a wrong line is refused in linear time.
LIBSVM_LINE = re.compile(
    r"\s*+(?:[^\s:#\[\]{}\"<>]++(?=\s|$))?+(?:\s*+qid:\d++(?=\s|$))?+"
    rf"((?:\s*+\d{{1,15}}+:(?>{cells.DECIMAL})(?=\s|$))*+)\s*+",
    re.ASCII,
)

csv.field_size_limit(1 << 40)  # no limit for a cell; the size of the body is limited elsewhere


def read_csv(body: bytes, features: Features, delimiter: str, header: str | None) -> Rows:
    """Parse CSV. `header`: `present`, `absent`, or None: present if a cell of the first row is a name of the model."""
    if header not in (None, "present", "absent"):
        raise invalid_field("Content-Type", "unknown_header", "the parameter header must be 'present' or 'absent'")
    text = decoded(body)
    _check_quotes(text, delimiter)
    first = _first_record(text, delimiter)
    has_header = header == "present" if header else _looks_like_names(first, features)
    records = _Records(text, delimiter, has_header)
    places = Places(line_of=records.line_of)
    if has_header:
        _check_names(first, features, places)
    else:
        check_width(len(first), features.width, 0, places)
    records.check_count()
    if not features.names:
        n_rows, columns = records.columns(dict.fromkeys(range(features.width), True), features.width)
        features.admit(n_rows, "body")
        return MatrixRows(np.column_stack([_values(column) for column in columns.values()]), places)
    names = first if has_header else list(features.names)
    known = {j: name in features.numeric for j, name in enumerate(names) if name in features.index_of}
    n_rows, columns = records.columns(known, len(names))
    features.admit(n_rows, "body")
    given: dict[str, Any] = dict.fromkeys(names)
    return Columns(given | {names[j]: _values(column) for j, column in columns.items()}, n_rows, places)


def read_libsvm(body: bytes, features: Features, index_base: int) -> Rows:
    """Parse libsvm: one row per line, indices from `index_base`. Text after `#` and blank lines are skipped."""
    counts: list[int] = []
    pairs: list[str] = []
    lines: list[int] = []
    for number, line in enumerate(_lines(decoded(body)), 1):
        content = line.partition("#")[0].rstrip()
        if not content:
            continue
        if len(counts) >= rows.MAX_ROWS:
            check_count(len(counts) + 1, "body")
        match = LIBSVM_LINE.fullmatch(content)
        if match is None:
            raise Places(line_of=lambda row: row).refuse(number, "bad_line", "must have the form `label index:value …`")
        counts.append(match[1].count(":"))
        pairs.append(match[1])
        lines.append(number)
    places = Places(line_of=lines.__getitem__)
    features.admit_sparse(len(counts), sum(counts), "body")
    starts = np.concatenate([[0], np.cumsum(counts)])
    numbers = np.empty(0)
    if starts[-1]:  # numpy would convert a blank text to a number
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
        raise Unparsable(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}: the text contains a NUL character.")
    return text


def _lines(text: str) -> Iterator[str]:
    """Yield lines with their ends (LF, CR LF or CR). io.StringIO would need four times the memory of the text."""
    return (match.group() for match in LINE.finditer(text))


class _Records:
    """The records of a delimited text, parsed column by column."""

    def __init__(self, text: str, delimiter: str, has_header: bool) -> None:
        self._text = text
        self._delimiter = delimiter
        self._has_header = has_header

    def check_count(self) -> None:
        """Raise for too many records before any is stored."""
        if self._text.count("\n") + self._text.count("\r") < rows.MAX_ROWS:
            return
        reader = csv.reader(_lines(self._text), delimiter=self._delimiter)
        n_records = sum(1 for _ in islice(filter(None, reader), rows.MAX_ROWS + 1 + self._has_header))
        if n_records > self._has_header:
            check_count(n_records - self._has_header, "body")

    def columns(self, numeric: Mapping[int, bool], n_columns: int) -> tuple[int, dict[int, Any]]:
        """Return the number of rows, and columns by position: numbers (`numeric`) or texts; null: missing."""
        import pyarrow as pa  # imported here, because most processes do not need it
        from pyarrow import csv as arrow_csv

        body = self._text.encode()
        names = [str(position) for position in range(n_columns)]
        wanted = numeric or {0: False}  # pyarrow would read all columns for an empty list
        uneven: list[Any] = []

        def note(row: Any) -> str:
            uneven.append(row)
            return "error"

        options = (
            arrow_csv.ReadOptions(
                use_threads=False,
                column_names=names,
                skip_rows_after_names=int(self._has_header),
                block_size=len(body) + 1,  # one block, because a record can have any length
            ),
            arrow_csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                invalid_row_handler=note,
            ),
            arrow_csv.ConvertOptions(
                include_columns=[names[j] for j in wanted],
                column_types={names[j]: pa.float64() if is_number else pa.string() for j, is_number in wanted.items()},
                null_values=MISSING_WORDS,
            ),
        )
        try:
            table = arrow_csv.read_csv(pa.BufferReader(body), *options)
        except pa.ArrowInvalid as error:
            raise self._refusal(str(error), uneven) from None
        return table.num_rows, {j: table.column(names[j]).combine_chunks() for j in numeric}

    def line_of(self, row: int) -> int:
        """Return the first line of a row."""
        record = row + self._has_header
        reader = csv.reader(_lines(self._text), delimiter=self._delimiter)
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
        detail = f"has {row.actual_columns} cells; the first line has {row.expected_columns}"
        return Places(line_of=self.line_of).refuse(row.number - 1 - self._has_header, "wrong_width", detail)


def _values(column: Any) -> Any:
    """Return a numpy array of numbers, or the texts."""
    import pyarrow as pa

    return column.to_numpy(zero_copy_only=False) if pa.types.is_floating(column.type) else column


def _check_quotes(text: str, delimiter: str) -> None:
    """Refuse a quote that is not closed: it would turn all following rows into one cell."""
    if text.count(QUOTE) % 2 == 0:
        return
    start = rf"(?:\A|(?<=[{delimiter}\r\n]))"  # start of a cell; elsewhere a quote has no meaning
    if not re.fullmatch(rf'(?:[^"]++|{start}"(?:[^"]|"")*+"|(?!{start})")*+', text):
        raise Unparsable("The body ends inside a quoted cell; close the quote.")


def _first_record(text: str, delimiter: str) -> list[str]:
    try:
        record = next(filter(None, csv.reader(_lines(text), delimiter=delimiter)), None)
    except csv.Error as error:
        raise Unparsable(f"The first line is not CSV: {error}.") from None
    if record is None:
        raise invalid_field("body", "empty", "give at least one row")
    return record


def _looks_like_names(record: list[str], features: Features) -> bool:
    if not features.names:
        return not all(cells.NUMBER.fullmatch(cell) or cell in MISSING_WORDS for cell in record)
    return any(cell in features.index_of for cell in record)


def _check_names(names: list[str], features: Features, places: Places) -> None:
    if not features.names:
        detail = f"the features of the model have no names; send exactly {features.width} columns without a header"
        raise invalid_field("body", "unnamed_features", detail)
    if len(set(names)) != len(names):
        raise duplicate_column(names)
    features.check_columns(names, places)
