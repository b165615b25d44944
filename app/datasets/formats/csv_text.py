"""Recognises the character encoding and the delimiter of delimited text, and converts other encodings to UTF-8.

The readers work on UTF-8. A file in another encoding is converted into a temporary file, in bounded memory.
"""

import codecs
import csv
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.datasets.formats.compressed import COPY_BYTES, Ceiling
from app.datasets.formats.csv_layout import long_fields_allowed
from app.datasets.formats.table import Charset, FileError, FileWarning, InvalidFile, excerpt
from app.tabular.cell_format import STYLES, number_pattern

__all__ = ["GUESSED", "as_utf8", "find_charset", "find_delimiter", "guessed_warning", "looks_western"]

HEAD_BYTES = 1 << 16
"""Bytes at the start of a file from which its delimiter and UTF-16 without a byte order mark are recognised. Larger:
more records are compared, more time per file. Set by hand; no measurement is recorded."""
HEAD_RECORDS = 100
"""Maximum records that are split to find the delimiter. Larger: more time per file. Set by hand; no measurement is
recorded."""
CANDIDATES = (",", ";", "\t", "|")
NULS_OF_UTF_16 = 0.4
"""Smallest share of NUL bytes at every second position of UTF-16 text. Text of one alphabet has nearly 1, English with
a few other letters too. Set by hand; no measurement is recorded."""
CONTROLS = bytes(set(range(32)) - {0x09, 0x0A, 0x0C, 0x0D, 0x1A})
"""Control characters that text does not contain."""
GUESSED: Charset = "windows-1252"
NAMES = {"utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "utf-16": "UTF-16", "windows-1252": "Windows-1252 (Latin-1)"}


def find_charset(path: Path, wanted: Charset | None) -> tuple[Charset, list[FileWarning]]:
    """Return the encoding that the client set, or that the first bytes show: UTF-8 or UTF-16."""
    if wanted is not None:
        return wanted, []
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-8", []  # refused by `skip_byte_order_mark`
    found: Charset = "utf-8"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = "utf-16"
    elif len(head) >= 2:
        even, odd = (head[start::2].count(0) / max(1, len(head) // 2) for start in (0, 1))
        if max(even, odd) >= NULS_OF_UTF_16 and min(even, odd) < NULS_OF_UTF_16 / 10:
            found = "utf-16-be" if even > odd else "utf-16-le"
    return found, [] if found == "utf-8" else [guessed_warning(found)]


def guessed_warning(charset: Charset) -> FileWarning:
    detail = f"The file is not UTF-8 and was read as {NAMES[charset]}. Set encoding if names or words are wrong."
    return FileWarning("encoding_guessed", detail)


@contextmanager
def as_utf8(path: Path, charset: Charset, ceiling: Ceiling) -> Iterator[Path]:
    """Yield the path of the file in UTF-8: the file itself, or a temporary one. Raises InvalidFile."""
    if charset == "utf-8":
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=ceiling.scratch, prefix="utf8-") as plain, path.open("rb") as raw:
        decoder = codecs.getincrementaldecoder(charset)()
        n_bytes = n_read = 0
        try:
            while block := raw.read(COPY_BYTES):
                text = decoder.decode(block).encode()
                n_read += len(block)
                n_bytes += len(text)
                ceiling.check(n_bytes, n_read)
                plain.write(text)
            plain.write(decoder.decode(b"", True).encode())
        except UnicodeError as error:
            offset = n_read + (error.start if isinstance(error, UnicodeDecodeError) else 0)
            detail = f"The file is not valid {charset} near byte {offset + 1}; set encoding, or save the file as UTF-8."
            raise InvalidFile([FileError(None, None, "bad_encoding", detail)]) from None
        plain.flush()
        yield Path(plain.name)


def looks_western(path: Path) -> bool:
    """Return whether a file that is not UTF-8 is text in Windows-1252, and not damaged UTF-8 or binary."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    western = codecs.getincrementaldecoder(GUESSED)()
    valid = invalid = 0
    with path.open("rb") as file:
        while block := file.read(COPY_BYTES):
            if block.translate(None, CONTROLS) != block:
                return False
            try:
                western.decode(block)
            except UnicodeDecodeError:
                return False
            text = decoder.decode(block)
            wrong = text.count("\ufffd")
            invalid += wrong
            valid += 0 if text.isascii() else len(re.sub("[\x00-\x7f\ufffd]+", "", text))
    return invalid > valid


def find_delimiter(path: Path, start: int) -> tuple[str, list[FileWarning]]:
    """Return the delimiter: the one that splits the first records into equally many fields. Comma wins if several do
    and their cells make as much sense."""
    with path.open("rb") as file:
        file.seek(start)
        head = file.read(HEAD_BYTES)
    if not any(other.encode() in head for other in CANDIDATES[1:]):
        return ",", []
    text = head.decode("utf-8", "replace")
    if len(head) == HEAD_BYTES:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    scores = {delimiter: _score(text, delimiter) for delimiter in CANDIDATES}
    best = max(CANDIDATES, key=lambda delimiter: scores[delimiter])  # the first of equal ones
    if best == "," or scores[best] == (0, 0.0):
        return ",", []
    name = {"\t": "a tab", ";": "a semicolon", "|": "a vertical bar"}[best]
    detail = f"The fields are separated by {name}, {excerpt(best)}. Set delimiter if that is wrong."
    return best, [FileWarning("delimiter_guessed", detail)]


_NUMBER = re.compile("|".join(number_pattern(*style) for style in STYLES))


def _score(text: str, delimiter: str) -> tuple[int, float]:
    """Return how well a delimiter splits the records: 2 if all have equally many fields, 1 if only the first has
    several, 0 if not even that; and the share of cells that make sense."""
    records = []
    with long_fields_allowed():
        for record in csv.reader(text.splitlines(keepends=True), delimiter=delimiter):
            if record:
                records.append(record)
            if len(records) == HEAD_RECORDS:
                break
    if not records or len(records[0]) < 2:
        return 0, 0.0
    cells = [cell for record in records for cell in record]
    sensible = sum(1 for cell in cells if _is_sensible(cell.strip(), delimiter)) / len(cells)
    even = all(len(record) == len(records[0]) for record in records)
    return (2 if even else 1), sensible


def _is_sensible(cell: str, delimiter: str) -> bool:
    """Return whether a cell contains no other delimiter, except in a number such as 1,5 or in a sentence."""
    if not any(other in cell for other in CANDIDATES if other != delimiter):
        return True
    return " " in cell or (len(cell) < 32 and _NUMBER.fullmatch(cell) is not None)
