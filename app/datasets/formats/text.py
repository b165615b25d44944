"""What must hold of a delimited text file before anyone parses it: its encoding and its quotes.

One pass over the bytes, block by block, at memory speed. It also counts what the CSV reader needs
to know beforehand: whether there are quotes, and how many lines there can be at most.
"""

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .table import FileError, InvalidFile

__all__ = ["MAX_LINE_BYTES", "TextScan", "scan_text", "skip_byte_order_mark", "text_lines"]

BLOCK_BYTES = 4 << 20
MAX_LINE_BYTES = 64 << 20
QUOTE = ord('"')
COMPLAINTS = {
    "nul_byte": "is NUL, which no text has",
    "not_utf8": "is not valid UTF-8",
    "bad_quote": "is a quote that does not enclose a whole field; quote the field from end to end "
    "and double the quotes inside it",
}


@dataclass(frozen=True)
class TextScan:
    """`start` is the first byte after a byte order mark, `max_lines` an upper bound of the lines."""

    start: int
    max_lines: int
    has_quotes: bool
    has_quoted_return: bool  # a carriage return inside a quoted field


def skip_byte_order_mark(head: bytes) -> int:
    """The offset of the text behind a UTF-8 mark; UTF-16 and UTF-32 are refused."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        detail = "The file is UTF-16 or UTF-32; convert it to UTF-8."
        raise InvalidFile([FileError(1, 1, "not_utf8", detail)])
    return len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0


def text_lines(path: Path, start: int, first_line: int = 1, encoding: str = "utf-8") -> Iterator[str]:
    """The physical lines from byte `start` on, each with its line end (LF, CR LF or CR).

    A line above 64 MiB is refused, so that one without an end cannot take the memory.
    """
    with path.open("rb") as raw:
        raw.seek(start)
        text = io.TextIOWrapper(raw, encoding=encoding, newline="")
        number = first_line
        while line := text.readline(MAX_LINE_BYTES):
            if len(line) == MAX_LINE_BYTES and not line.endswith(("\n", "\r")):
                detail = f"The line is longer than {MAX_LINE_BYTES >> 20} MiB."
                raise InvalidFile([FileError(number, None, "line_too_long", detail)])
            yield line
            number += 1


def scan_text(path: Path, delimiter: str) -> TextScan:
    """Check NUL bytes, UTF-8 and quoting of a delimited file; raise InvalidFile at the first fault."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    quotes = _QuoteCheck(delimiter)
    ends = 0
    last_byte = b""
    with path.open("rb") as file:
        start = offset = skip_byte_order_mark(file.read(4))
        faults = _FirstFault(path, start, delimiter)
        file.seek(start)
        while block := file.read(BLOCK_BYTES):
            nul = block.find(b"\0")
            faults.note("nul_byte", None if nul < 0 else offset + nul)
            faults.note("not_utf8", _find_undecodable(decoder, block, offset))
            faults.note("bad_quote", quotes.check(block, offset))
            faults.raise_if_any()
            ends += _count_line_ends(block)
            offset += len(block)
            last_byte = block[-1:]
    faults.note("not_utf8", _find_undecodable(decoder, b"", offset, final=True))
    faults.note("bad_quote", quotes.unclosed())
    faults.raise_if_any()
    return TextScan(start, ends + (last_byte not in (b"\n", b"\r")), quotes.seen, quotes.return_seen)


def _count_line_ends(block: bytes) -> int:
    feeds = int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")))
    return feeds if b"\r" not in block else feeds + block.count(b"\r") - block.count(b"\r\n")


def _find_undecodable(decoder: codecs.IncrementalDecoder, block: bytes, offset: int, final: bool = False) -> int | None:
    pending = len(decoder.getstate()[0])
    if block.isascii() and not pending:
        return None
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        return offset - pending + error.start
    return None


class _FirstFault:
    """The first of the faults noted, whatever its kind; finds its line and field only to raise it."""

    def __init__(self, path: Path, start: int, delimiter: str) -> None:
        self._path = path
        self._start = start
        self._delimiter = delimiter
        self._first: tuple[int, str] | None = None

    def note(self, code: str, offset: int | None) -> None:
        if offset is not None and (self._first is None or offset < self._first[0]):
            self._first = offset, code

    def raise_if_any(self) -> None:
        if self._first is None:
            return
        offset, code = self._first
        field = self._count_fields(offset)
        line, byte = self._find_line(offset)
        detail = f"Byte {byte} of the line {COMPLAINTS[code]}."
        raise InvalidFile([FileError(line, field, code, detail)])

    def _find_line(self, offset: int) -> tuple[int, int]:
        line, line_start = 1, self._start
        for text in text_lines(self._path, self._start, encoding="latin-1"):
            if line_start + len(text) > offset:
                break
            line, line_start = line + 1, line_start + len(text)
        return line, offset - line_start + 1

    def _count_fields(self, offset: int) -> int:
        """The number of the field that the byte at `offset` belongs to."""
        fields = 1
        limit = csv.field_size_limit(MAX_LINE_BYTES)
        try:
            for record in csv.reader(self._lines_up_to(offset), delimiter=self._delimiter):
                fields = len(record)
        finally:
            csv.field_size_limit(limit)
        return fields

    def _lines_up_to(self, offset: int) -> Iterator[str]:
        """The lines before `offset`, ended by one character that stands for the byte there."""
        position = self._start
        for text in text_lines(self._path, self._start, encoding="latin-1"):
            if position + len(text) > offset:
                yield text[: offset - position] + "x"
                return
            yield text
            position += len(text)
        yield "x"


class _QuoteCheck:
    """Finds quotes that do not enclose a whole field, where readers of CSV disagree, and quoted returns.

    In well-formed text quotes alternate: an opening one follows a delimiter, a line end or the
    closing one just before it (a doubled quote); a closing one is followed by one of the same.
    """

    def __init__(self, delimiter: str) -> None:
        self._neighbours = np.zeros(256, dtype=np.bool_)
        self._neighbours[[ord(delimiter), ord("\r"), ord("\n"), QUOTE]] = True
        self._inside = False  # of a quoted field, at the end of the last block
        self._opened_at = 0
        self._last_byte = ord("\n")
        self._closed_at_end: int | None = None  # a closing quote that was the last byte of its block
        self.seen = False
        self.return_seen = False

    def check(self, block: bytes, offset: int) -> int | None:
        """The offset of the first misplaced quote, if any."""
        closed_at_end, self._closed_at_end = self._closed_at_end, None
        if closed_at_end is not None and not self._neighbours[block[0]]:
            return closed_at_end
        if QUOTE in block or self._inside:
            self.seen = True
            buffer = np.frombuffer(block, dtype=np.uint8)
            places = np.flatnonzero(buffer == QUOTE)
            if b"\r" in block:
                quotes_before = np.searchsorted(places, np.flatnonzero(buffer == ord("\r")))
                self.return_seen |= bool(((quotes_before + self._inside) % 2).any())
            misplaced = self._check_places(buffer, places, offset) if len(places) else None
            if misplaced is not None:
                return misplaced
        self._last_byte = block[-1]
        return None

    def _check_places(self, buffer: npt.NDArray[np.uint8], places: npt.NDArray[np.intp], offset: int) -> int | None:
        opening = np.arange(len(places)) % 2 == int(self._inside)
        before = np.where(places > 0, buffer[places - 1], self._last_byte)
        at_end = places == len(buffer) - 1
        after = buffer[np.where(at_end, 0, places + 1)]
        fine = np.where(opening, self._neighbours[before], at_end | self._neighbours[after])
        if not fine.all():
            return offset + int(places[np.argmin(fine)])
        first_of_field = opening & (before != QUOTE)
        if first_of_field.any():
            self._opened_at = offset + int(places[first_of_field][-1])
        self._inside = bool(opening[-1])
        if at_end[-1] and not self._inside:
            self._closed_at_end = offset + len(buffer) - 1
        return None

    def unclosed(self) -> int | None:
        """The offset of a quote that is never closed, if any."""
        return self._opened_at if self._inside else None
