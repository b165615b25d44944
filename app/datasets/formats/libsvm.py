"""Reads libsvm (svmlight) text: `label [qid:n] index:value ... [# comment]`, one row per line.

Compiled kernels parse the bytes in pieces. This module sets the limits, converts the few numbers that the kernels leave
to Python's float, and words the errors. Explicit zeros are stored and counted. A row whose indices do not ascend is
sorted, with a warning. A repeated index in a row is an error. Lines end with LF or CR LF. Blank lines and comment lines
are skipped.
"""

import re
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.datasets.formats import decimal_kernels, libsvm_kernels
from app.datasets.formats.collect import Block, Collector, SparseRows
from app.datasets.formats.compressed import Ceiling
from app.datasets.formats.labels import encode_integers
from app.datasets.formats.libsvm_kernels import PARKED_OFFSET, Fault, Slot, parse_lines
from app.datasets.formats.table import (
    COUNTED_ERRORS,
    LISTED_ERRORS,
    ErrorLog,
    FileError,
    FileWarning,
    InvalidFile,
    InvalidOption,
    ReadOptions,
    Summary,
    excerpt,
    plural,
)
from app.datasets.formats.text import Piece, find_line_end, map_in_order, piece_bytes, pieces, skip_byte_order_mark

__all__ = ["read_libsvm", "warm"]

MAX_INDEX = 2**31 - 2
"""Largest accepted index, because feature numbers are 32-bit integers."""
LINE_FEED = ord("\n")
TOKEN = re.compile(rb"[^ \t\r\n#]*")
NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)

Text = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _Limits:
    """The range of allowed indices, and the number that is subtracted from each."""

    base: int
    lowest: int
    highest: int
    n_features: int | None

    @classmethod
    def of(cls, options: ReadOptions) -> "_Limits":
        """Build the limits. If index_base is not given, it is assumed to be 1 until an index 0 occurs."""
        base = 0 if options.index_base == "0" else 1
        highest = MAX_INDEX if options.n_features is None else min(MAX_INDEX, options.n_features - 1 + base)
        return cls(base, 1 if options.index_base == "1" else 0, highest, options.n_features)


def _count_lines(text: Text) -> int:
    return int(np.count_nonzero(text == LINE_FEED))


class _BaseIsZero(Exception):
    """Raised at an index 0 if index_base was assumed to be 1 and n_features is set: read the file again with base 0."""


def read_libsvm(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    if options.n_features is not None and not 1 <= options.n_features <= MAX_INDEX + 1:
        raise InvalidOption("n_features", f"n_features must be between 1 and {MAX_INDEX + 1}.")
    warm()
    with path.open("rb") as file:
        start = skip_byte_order_mark(file.read(4))
        if file.seek(0, 2) == start:
            raise InvalidFile([FileError(None, None, "empty_file", "The file has no text in it.")])
    try:
        walk = _Walk(path, start, options, collector)
    except _BaseIsZero:
        collector.clear()
        walk = _Walk(path, start, replace(options, index_base="0"), collector)
    if collector.n_rows == 0:
        raise InvalidFile([FileError(None, None, "no_rows", "The file has no rows of data; add rows.")])
    if collector.nnz == 0 and options.n_features is None:
        raise InvalidFile(
            [
                FileError(
                    None,
                    None,
                    "no_features",
                    "No row has an entry, so the number of features is not known; set n_features.",
                )
            ]
        )
    n_features = options.n_features or walk.max_index - walk.base + 1
    return collector.finish(n_features, walk.warnings(guessed=options.index_base == "auto"))


@cache
def warm() -> None:
    """Compile or load the kernels, once per process."""
    from solvers.linalg import kernel_cache

    all_kernels = kernel_cache.kernels_of(libsvm_kernels) + kernel_cache.kernels_of(decimal_kernels)
    text = b"1 qid:1 2:1e300 1:0.1 # x\n-1 qid:2\n"
    piece = Piece(text, 0, len(text))
    kernel_cache.warm(all_kernels, lambda: _PieceRows(piece, _Limits.of(ReadOptions()), _Pool(len(text))))


class _Walk:
    """One pass over a file. Passes its rows to the collector, and collects its errors and the facts for warnings."""

    def __init__(self, path: Path, start: int, options: ReadOptions, collector: Collector) -> None:
        limits = _Limits.of(options)
        self.base = limits.base
        self.min_index = MAX_INDEX + 1
        self.max_index = limits.base - 1
        self._unsorted_rows = 0
        self._first_unsorted = 0
        self._has_qid = -1
        self._lines = 0
        faults = ErrorLog()
        usual_bytes = piece_bytes(record_bytes=1)
        pool = _Pool(usual_bytes)
        parse = partial(_PieceRows, limits=limits, pool=pool)
        for rows in map_in_order(parse, pieces(path, start, find_line_end, usual_bytes)):
            if self._has_qid >= 0 and rows.found(Slot.HAS_QID) not in (-1, self._has_qid):
                rows = _PieceRows(
                    rows.piece, limits, pool, self._has_qid
                )  # parse this piece again to find the places of its errors
            rows.log_faults(faults, self._lines)
            self._note(rows)
            if self.base == 1 and self.min_index == 0:
                if options.n_features is not None:
                    raise _BaseIsZero
                self.base = 0
                collector.shift_indices(1)
            if faults.full:
                break
            if not faults:
                rows.add_to(collector, shift=limits.base - self.base)
            pool.give_back(rows.space)
        faults.raise_if_any()

    def _note(self, rows: "_PieceRows") -> None:
        self.min_index = min(self.min_index, rows.found(Slot.MIN_INDEX))
        self.max_index = max(self.max_index, rows.found(Slot.MAX_INDEX))
        if rows.found(Slot.UNSORTED_ROWS) and not self._unsorted_rows:
            self._first_unsorted = self._lines + rows.found(Slot.FIRST_UNSORTED)
        self._unsorted_rows += rows.found(Slot.UNSORTED_ROWS)
        self._has_qid = max(self._has_qid, rows.found(Slot.HAS_QID))
        self._lines += rows.found(Slot.LINE)

    def warnings(self, guessed: bool) -> list[FileWarning]:
        warnings = []
        if guessed and self.min_index <= MAX_INDEX:
            detail = f"The smallest index is {self.min_index}, so indices were assumed to start at {self.base}."
            warnings.append(FileWarning("index_base_guessed", detail))
        if self._unsorted_rows:
            detail = (
                f"The indices of {plural(self._unsorted_rows, 'row')} did not ascend and were sorted; "
                f"the first is line {self._first_unsorted}."
            )
            warnings.append(FileWarning("unsorted_rows", detail))
        return warnings


class _Space:
    """Arrays for the rows of one piece."""

    def __init__(self, max_rows: int, max_entries: int) -> None:
        self.y = np.empty(max_rows)
        self.group = np.empty(max_rows, dtype=np.int64)
        self.indptr = np.zeros(max_rows + 1, dtype=np.int64)
        self.indices = np.empty(max_entries, dtype=np.int32)
        self.data = np.empty(max_entries)


class _Pool:
    """Buffers that are reused. With a new buffer per piece, the kernel would spend most of its time on page faults."""

    def __init__(self, usual_bytes: int) -> None:
        self._usual_bytes = usual_bytes
        self._free: list[_Space] = []

    def take(self, text: Text) -> _Space:
        # The shortest row is "1" and a line feed, the shortest entry " 1:2".
        if len(text) > self._usual_bytes + 1:
            return _Space(_count_lines(text) + 1, len(text) // 4 + 1)
        try:
            return self._free.pop()
        except IndexError:
            return _Space(self._usual_bytes // 2 + 2, self._usual_bytes // 4 + 2)

    def give_back(self, space: _Space) -> None:
        if len(space.data) == self._usual_bytes // 4 + 2:
            self._free.append(space)


class _PieceRows:
    """The rows of one piece and its errors. Line numbers count within the piece."""

    def __init__(self, piece: Piece, limits: _Limits, pool: _Pool, has_qid: int = -1) -> None:
        if piece.mapped[piece.past - 1] != LINE_FEED:  # the kernel needs a line feed at the end
            piece = Piece(piece.text + b"\n", 0, len(piece.text) + 1)
        self.piece = piece
        self._limits = limits
        self._text = np.frombuffer(piece.mapped, dtype=np.uint8, count=piece.past - piece.first, offset=piece.first)
        self.space = pool.take(self._text)
        self._errors = np.empty((LISTED_ERRORS, 4), dtype=np.int64)
        self._state = np.zeros(len(Slot), dtype=np.int64)
        self._state[Slot.MIN_INDEX] = MAX_INDEX + 1
        self._state[Slot.MAX_INDEX] = limits.base - 1
        self._state[Slot.HAS_QID] = has_qid
        self._parse()
        self._overflows = self._settle(self.space.y, Slot.ROWS) + self._settle(self.space.data, Slot.NNZ)

    def _parse(self) -> None:
        limits = self._limits.lowest, self._limits.highest, self._limits.base
        space = self.space
        y_bits, data_bits = space.y.view(np.int64), space.data.view(np.int64)
        arrays = space.y, y_bits, space.group, space.indptr, space.indices, space.data, data_bits
        parse_lines(self._text, self.piece.first, limits, COUNTED_ERRORS, self._state, arrays, self._errors)

    def found(self, slot: int) -> int:
        return int(self._state[slot])

    def add_to(self, collector: Collector, shift: int) -> None:
        n_rows, nnz = self.found(Slot.ROWS), self.found(Slot.NNZ)
        if n_rows == 0:
            return
        space = self.space
        if shift:
            space.indices[:nnz] += np.int32(shift)
        X = SparseRows(space.data[:nnz], space.indices[:nnz], space.indptr[: n_rows + 1])
        group = encode_integers(space.group[:n_rows]) if self.found(Slot.HAS_QID) == 1 else None
        collector.add(Block(X, space.y[:n_rows], group=group))

    def log_faults(self, log: ErrorLog, lines_before: int) -> None:
        """Add all errors in the order of the file."""
        n_faults = self.found(Slot.ERRORS) + len(self._overflows)
        if n_faults == 0:
            return
        faults = [
            (int(line), int(column), *self._word(int(fault), int(place)))
            for line, column, fault, place in self._errors[: self.found(Slot.ERRORS)]
        ]
        faults += [self._word_overflow(place) for place in self._overflows[:LISTED_ERRORS]]
        faults.sort()
        for line, column, code, detail in faults[:LISTED_ERRORS]:
            log.add(lines_before + line, column, code, detail)
        log.add_unlisted(n_faults - min(len(faults), LISTED_ERRORS))

    def _settle(self, values: npt.NDArray[np.float64], length: Slot) -> list[int]:
        """Convert the numbers that the kernel left to Python's float. Returns the offsets of those that overflow."""
        overflows: list[int] = []
        if self.found(Slot.PARKED) == 0:
            return overflows
        values = values[: self.found(length)]
        for k in np.flatnonzero(np.isnan(values)):
            place = int(values[k : k + 1].view(np.int64)[0]) & PARKED_OFFSET
            values[k] = float(self._token(place))
            if np.isinf(values[k]):
                overflows.append(place)
                if len(overflows) == COUNTED_ERRORS:
                    break
        return overflows

    def _token(self, place: int) -> bytes:
        match = TOKEN.match(self.piece.mapped, place)
        return match.group() if match else b""

    def _word_overflow(self, place: int) -> tuple[int, int, str, str]:
        line = 1 + _count_lines(self._text[: place - self.piece.first])
        line_start = max(self.piece.first, self.piece.mapped.rfind(b"\n", 0, place) + 1)
        return (
            line,
            place - line_start + 1,
            "not_finite",
            f"{excerpt(self._token(place))} exceeds the range of a 64-bit float.",
        )

    def _word(self, fault: int, place: int) -> tuple[str, str]:
        """Return the code and the message of an error whose token is at byte offset `place`."""
        n_features, lowest = self._limits.n_features, self._limits.lowest
        token = self._token(place)
        shown = excerpt(token)
        if b"\0" in token or fault == Fault.NUL_BYTE:
            return "nul_byte", "The line contains a NUL byte; save the file as UTF-8 text."
        if fault in (Fault.BAD_LABEL, Fault.BAD_VALUE):
            what = "label" if fault == Fault.BAD_LABEL else "value"
            if not token:
                return "missing_value", "There is no value after the colon; add one, or remove the index."
            if NOT_FINITE.fullmatch(token):
                return "not_finite", f"The {what} is {shown}; only finite numbers are accepted."
            return "not_a_number", f"The {what} is {shown}, which is not a number."
        if fault == Fault.INDEX_TOO_LARGE:
            if n_features is None:
                return "index_too_large", f"The index of {shown} exceeds the limit of {MAX_INDEX}."
            return (
                "index_too_large",
                f"The index of {shown} exceeds n_features, which is {n_features}; set a larger n_features.",
            )
        return {
            Fault.MISSING_LABEL: ("missing_label", f"The line begins with {shown} instead of its label."),
            Fault.BAD_QID: ("bad_qid", f"{shown} must be qid: followed by an integer below 10^18."),
            Fault.MISSING_QID: (
                "missing_qid",
                "The line has no qid, but earlier lines have one; add qid to every line or to none.",
            ),
            Fault.UNEXPECTED_QID: (
                "unexpected_qid",
                "The line has a qid, but earlier lines have none; add qid to every line or to none.",
            ),
            Fault.BAD_INDEX: (
                "bad_index",
                f"The index of {shown} is not an integer of at least {lowest}.",
            ),
            Fault.MISSING_COLON: ("missing_colon", f"{shown} is not of the form index:value."),
            Fault.INDEX_BELOW_BASE: (
                "index_below_base",
                f"The index of {shown} is below index_base, which is 1; set index_base to 0.",
            ),
            Fault.DUPLICATE_INDEX: ("duplicate_index", f"The row has the index of {shown} twice."),
            Fault.STRAY_RETURN: (
                "stray_return",
                "The line contains a carriage return in its middle; convert line ends to LF or CR LF.",
            ),
        }[Fault(fault)]
