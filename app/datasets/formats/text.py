"""Splits text files into pieces for the readers, and checks that they are valid text.

Pieces end at line ends, so two pieces can be parsed at the same time. `check_text` finds the first place where a
delimited file is not valid text.
"""

import codecs
import csv
import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from app.datasets.formats.mapped import Mapped, forget_pages, map_file
from app.datasets.formats.table import FileError, InvalidFile

__all__ = [
    "MAX_LINE_BYTES",
    "LineCounter",
    "Piece",
    "check_text",
    "find_line_end",
    "is_sound",
    "is_utf8",
    "map_in_order",
    "piece_bytes",
    "pieces",
    "skip_byte_order_mark",
    "text_lines",
]

BLOCK_BYTES = 4 << 20
"""Bytes per read while line ends are searched. Larger: fewer calls, more memory. Set by hand; no measurement is
recorded."""
MAX_LINE_BYTES = 64 << 20
"""Maximum bytes of a line. Larger: a file without line ends needs more memory. Set by hand; no measurement is
recorded."""
PIECE_BYTES = 2 << 20
"""Usual size of a piece in bytes. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""
LARGEST_PIECE_BYTES = 32 << 20
"""Maximum size in bytes of a piece of long records. Larger: more rows per piece, which pyarrow converts faster, and
more memory. Set by hand; no measurement is recorded."""
PIECE_RECORDS = 128
"""Number of records that a piece should contain even if records are long. Larger: fewer pieces, more memory. Set by
hand; no measurement is recorded."""
KEPT_BYTES = 8 << 20
"""Bytes before the current piece whose pages stay in memory. Larger: more memory, fewer pages are loaded twice. Set by
hand; no measurement is recorded."""
THREADS = min(2, os.cpu_count() or 1)
QUOTE = ord('"')
COMPLAINTS = {
    "nul_byte": "is a NUL; save the file as UTF-8 text",
    "not_utf8": "is not valid UTF-8; save the file as UTF-8",
    "bad_quote": "is a quote that does not enclose a whole field; quote the field from end to end "
    "and double the quotes inside it",
}


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Piece:
    """Complete lines of a file: the bytes of the mapped file from `first` up to, and not including, `past`."""

    mapped: Mapped
    first: int
    past: int

    @cached_property
    def text(self) -> bytes:
        return self.mapped[self.first : self.past]


FindEnd = Callable[[Mapped, int, int], int]


def pieces(path: Path, start: int, find_end: FindEnd, usual_bytes: int) -> Iterator[Piece]:
    """Yield the pieces of a file from byte `start` on. `find_end` returns the end of the last complete line in a range,
    or 0."""
    size = path.stat().st_size
    mapped = map_file(path)
    first, n_bytes = start, usual_bytes
    while first < size:
        past = min(first + n_bytes, size)
        end = size if past == size else find_end(mapped, first, past)
        if end:
            yield Piece(mapped, first, end)
            forget_pages(mapped, first - KEPT_BYTES, end - KEPT_BYTES)  # pages of pieces that have been parsed
            first, n_bytes = end, usual_bytes
        elif n_bytes < MAX_LINE_BYTES:
            n_bytes = min(2 * n_bytes, MAX_LINE_BYTES)
        else:
            line = LineCounter(path, 0).line_at(first)
            detail = f"The line is longer than {MAX_LINE_BYTES >> 20} MiB."
            raise InvalidFile([FileError(line, None, "line_too_long", detail)])


def piece_bytes(record_bytes: int) -> int:
    """Return the size of pieces in bytes for records of this size. Longer records get larger pieces, because pyarrow is
    fast only with many rows."""
    return max(PIECE_BYTES, min(PIECE_RECORDS * record_bytes, LARGEST_PIECE_BYTES))


def find_line_end(mapped: Mapped, first: int, past: int) -> int:
    """Return the position after the last line feed, or 0."""
    return mapped.rfind(b"\n", first, past) + 1


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield the results in the order of the items. The next results are computed while the caller uses one.

    Uses threads, so the function should release the GIL most of the time.
    """
    upcoming = iter(items)
    first = list(islice(upcoming, 2))
    if len(first) < 2:  # a small file has one piece, which needs no threads
        yield from map(function, first)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(THREADS) as threads:
        try:
            for item in chain(first, upcoming):
                waiting.append(threads.submit(function, item))
                if len(waiting) > THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class LineCounter:
    """Counts the lines of a file from 1. Reads the file only once if offsets are queried in ascending order."""

    def __init__(self, path: Path, start: int) -> None:
        self._path = path
        self._offset = start
        self._line = 1

    def line_at(self, offset: int) -> int:
        """Return the number of the line that begins at this byte."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            ends_open = False  # whether the block ends with a carriage return, which a line feed can follow
            while block := file.read(min(BLOCK_BYTES, offset - self._offset)):
                self._line += _count_line_ends(block) - (ends_open and block.startswith(b"\n"))
                self._offset += len(block)
                ends_open = block.endswith(b"\r")
        return self._line


def skip_byte_order_mark(head: bytes) -> int:
    """Return the offset of the text: 3 after a UTF-8 byte order mark, else 0. Raises InvalidFile for UTF-16 and
    UTF-32."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        detail = "The file is UTF-16 or UTF-32; convert it to UTF-8."
        raise InvalidFile([FileError(1, 1, "not_utf8", detail)])
    return len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0


def text_lines(path: Path, start: int, first_line: int = 1, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines from byte `start` on with their ends (LF, CR LF or CR).

    Raises InvalidFile for a line above MAX_LINE_BYTES, so that a file without line ends cannot fill the memory.
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


def is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_sound(text: bytes, delimiter: str) -> bool:
    """Return whether complete lines of a delimited file are UTF-8 without NUL and correctly quoted (see
    `check_text`)."""
    if b"\0" in text or not is_utf8(text):
        return False
    if b'"' not in text:
        return True
    quotes = _QuoteCheck(delimiter)
    return quotes.check(text, 0) is None and quotes.unclosed() is None


def check_text(path: Path, start: int, delimiter: str) -> None:
    """Raise InvalidFile at the first NUL byte, invalid UTF-8 byte or misplaced quote of a delimited file."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    quotes = _QuoteCheck(delimiter)
    faults = _FirstFault(path, start, delimiter)
    offset = start
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(BLOCK_BYTES):
            nul = block.find(b"\0")
            faults.note("nul_byte", None if nul < 0 else offset + nul)
            faults.note("not_utf8", _find_undecodable(decoder, block, offset))
            faults.note("bad_quote", quotes.check(block, offset))
            faults.raise_if_any()
            offset += len(block)
    faults.note("not_utf8", _find_undecodable(decoder, b"", offset, final=True))
    faults.note("bad_quote", quotes.unclosed())
    faults.raise_if_any()


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
    """The earliest error in the file among the noted ones. Its line and field are computed only when it is raised."""

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
        """Return the number of the field that contains the byte at `offset`."""
        fields = 1
        limit = csv.field_size_limit(MAX_LINE_BYTES)
        try:
            for record in csv.reader(self._lines_up_to(offset), delimiter=self._delimiter):
                fields = len(record)
        finally:
            csv.field_size_limit(limit)
        return fields

    def _lines_up_to(self, offset: int) -> Iterator[str]:
        """Yield the lines before `offset`, followed by one character for the byte at `offset`."""
        position = self._start
        for text in text_lines(self._path, self._start, encoding="latin-1"):
            if position + len(text) > offset:
                yield text[: offset - position] + "x"
                return
            yield text
            position += len(text)
        yield "x"


class _QuoteCheck:
    """Finds quotes that do not enclose a whole field, which CSV readers interpret differently.

    In well-formed text, opening and closing quotes alternate. Before an opening quote there is a delimiter, a line end
    or a closing quote (a doubled quote). After a closing quote there is a delimiter, a line end or an opening quote.
    """

    def __init__(self, delimiter: str) -> None:
        self._neighbours = np.zeros(256, dtype=np.bool_)
        self._neighbours[[ord(delimiter), ord("\r"), ord("\n"), QUOTE]] = True
        self._inside = False  # whether the last block ended inside a quoted field
        self._opened_at = 0
        self._last_byte = ord("\n")
        self._closed_at_end: int | None = None  # offset of a closing quote that was the last byte of its block

    def check(self, block: bytes, offset: int) -> int | None:
        """Return the offset of the first misplaced quote, or None."""
        closed_at_end, self._closed_at_end = self._closed_at_end, None
        if closed_at_end is not None and not self._neighbours[block[0]]:
            return closed_at_end
        if QUOTE in block or self._inside:
            buffer = np.frombuffer(block, dtype=np.uint8)
            places = np.flatnonzero(buffer == QUOTE)
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
        """Return the offset of a quote that is not closed, or None."""
        return self._opened_at if self._inside else None
