"""libsvm (svmlight) text: `label [qid:n] index:value ... [# comment]`, one row a line.

The bytes are parsed by our own kernels over the mapped file; this module chooses the limits, finishes
the few numbers that the kernels left to Python's float, and words the faults. Explicit zeros are kept
and counted. A row whose indices do not ascend is sorted, with a warning; an index that a row holds
twice is a fault. Lines end with LF or CR LF; blank and comment lines are no rows.
"""

import mmap
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import libsvm_kernels
from .libsvm_kernels import PARKED_OFFSET, Fault, Limits, Slot, parse_lines
from .table import (
    COUNTED_ERRORS,
    LISTED_ERRORS,
    FileError,
    FileWarning,
    InvalidFile,
    InvalidOption,
    ReadOptions,
    Table,
    excerpt,
    plural,
    summarize_numbers,
)
from .text import skip_byte_order_mark

__all__ = ["read_libsvm", "warm"]

MAX_INDEX = 2**31 - 2
BLOCK_BYTES = 1 << 20
TOKEN = re.compile(rb"[^ \t\r\n#]*")
NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)

Text = npt.NDArray[np.uint8]


def read_libsvm(path: Path, options: ReadOptions) -> Table:
    _check_options(options)
    warm()
    with path.open("rb") as file:
        start = skip_byte_order_mark(file.read(4))
        if file.seek(0, 2) == start:
            raise InvalidFile([FileError(None, None, "empty_file", "The file has no text in it.")])
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    base = 0 if options.index_base == "0" else 1
    walk = _Walk(mapped, start, base, options)
    if options.index_base == "auto" and walk.found(Slot.MIN_INDEX) == 0:
        base = 0
        if options.n_features is not None and walk.found(Slot.MAX_INDEX) >= options.n_features:
            walk = _Walk(mapped, start, base, options)  # again, to name the places
        else:
            walk.indices += 1
    walk.raise_if_faulty(base, options.n_features)
    n_rows = walk.found(Slot.ROWS)
    n_features = walk.found(Slot.MAX_INDEX) - base + 1
    if n_rows == 0:
        raise InvalidFile([FileError(None, None, "no_rows", "The file has no rows of data.")])
    if options.n_features is not None:
        n_features = options.n_features
    elif walk.found(Slot.NNZ) == 0:
        raise InvalidFile([FileError(None, None, "no_features", "No row has an entry; set n_features.")])
    counts, hint, label_warnings = summarize_numbers(walk.y)
    return Table(
        storage="csr",
        arrays=walk.arrays(),
        n_rows=n_rows,
        n_features=n_features,
        nnz=walk.found(Slot.NNZ),
        label_kind="number",
        task_hint=hint,
        class_counts=counts,
        warnings=walk.warnings(base, guessed=options.index_base == "auto") + label_warnings,
    )


@cache
def warm() -> None:
    """Compile the kernels, or load them compiled; once a process."""
    from solvers import kernel_cache

    all_kernels = [value for value in vars(libsvm_kernels).values() if hasattr(value, "py_func")]
    kernel_cache.warm(all_kernels, lambda: _Walk(b"1 qid:1 2:1e300 1:0.1 # x\n-1 qid:2", 0, 1, ReadOptions()))


def _check_options(options: ReadOptions) -> None:
    if options.target is not None:
        raise InvalidOption("target", "The target of libsvm text is the label at the start of each line.")
    if options.weight is not None:
        raise InvalidOption("weight", "libsvm text has no weights.")
    if options.ignore:
        raise InvalidOption("ignore", "libsvm text has no columns to leave out.")
    if options.delimiter is not None:
        raise InvalidOption("delimiter", "libsvm text is delimited by spaces and tabs.")
    if options.header != "auto":
        raise InvalidOption("header", "libsvm text has no header.")
    if options.n_features is not None and not 1 <= options.n_features <= MAX_INDEX + 1:
        raise InvalidOption("n_features", f"It must be between 1 and {MAX_INDEX + 1}.")


def _count(text: Text, mark: bytes) -> int:
    blocks = range(0, len(text), BLOCK_BYTES)
    return sum(int(np.count_nonzero(text[k : k + BLOCK_BYTES] == ord(mark))) for k in blocks)


class _Walk:
    """One walk of the kernels over a text: the arrays, and what was met on the way."""

    def __init__(self, raw: bytes | mmap.mmap, start: int, base: int, options: ReadOptions) -> None:
        self._raw = raw
        text = np.frombuffer(raw, dtype=np.uint8)
        # The shortest row is "1" and a line feed, the shortest entry " 1:2".
        max_rows = min(_count(text, b"\n"), len(text) // 2) + 1
        max_entries = min(_count(text, b":"), len(text) // 4 + 1)
        self._y = np.empty(max_rows)
        self._group = np.empty(max_rows, dtype=np.int64)
        self._indptr = np.zeros(max_rows + 1, dtype=np.int64)
        self._indices = np.empty(max_entries, dtype=np.int32)
        self._data = np.empty(max_entries)
        self._errors = np.empty((LISTED_ERRORS, 4), dtype=np.int64)
        self._state = np.zeros(len(Slot), dtype=np.int64)
        self._state[Slot.MIN_INDEX] = MAX_INDEX + 1
        self._state[Slot.MAX_INDEX] = base - 1
        self._state[Slot.HAS_QID] = -1
        lowest = 1 if options.index_base == "1" else 0
        highest = MAX_INDEX if options.n_features is None else min(MAX_INDEX, options.n_features - 1 + base)
        limits = lowest, highest, base
        # The kernel needs a line feed behind all it reads, so a last line without one is copied.
        body = max(start, raw.rfind(b"\n") + 1)
        self._parse(text[start:body], start, limits)
        if body < len(raw):
            tail = np.append(text[body:], np.uint8(ord("\n")))
            tail.flags.writeable = False  # as the mapped text: numba compiles for each kind apart
            self._parse(tail, body, limits)

    def _parse(self, text: Text, offset: int, limits: Limits) -> None:
        y_bits, data_bits = self._y.view(np.int64), self._data.view(np.int64)
        arrays = self._y, y_bits, self._group, self._indptr, self._indices, self._data, data_bits
        parse_lines(text, offset, limits, COUNTED_ERRORS, self._state, arrays, self._errors)

    def found(self, slot: int) -> int:
        return int(self._state[slot])

    @property
    def y(self) -> npt.NDArray[np.float64]:
        return self._y[: self.found(Slot.ROWS)]

    @property
    def indices(self) -> npt.NDArray[np.int32]:
        return self._indices[: self.found(Slot.NNZ)]

    @indices.setter
    def indices(self, indices: npt.NDArray[np.int32]) -> None:
        self._indices[: len(indices)] = indices

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        n_rows = self.found(Slot.ROWS)
        arrays: dict[str, npt.NDArray[Any]] = {
            "data": self._data[: self.found(Slot.NNZ)],
            "indices": self.indices,
            "indptr": self._indptr[: n_rows + 1],
            "y": self.y,
        }
        if self.found(Slot.HAS_QID) == 1:
            arrays["group"] = self._group[:n_rows]
        return arrays

    def warnings(self, base: int, guessed: bool) -> list[FileWarning]:
        warnings = []
        if guessed and self.found(Slot.NNZ):
            smallest = self.found(Slot.MIN_INDEX)
            detail = f"The smallest index is {smallest}, so indices were taken to start at {base}."
            warnings.append(FileWarning("index_base_guessed", detail))
        unsorted = self.found(Slot.UNSORTED_ROWS)
        if unsorted:
            detail = (
                f"The indices of {plural(unsorted, 'row')} did not ascend and were sorted; "
                f"the first is line {self.found(Slot.FIRST_UNSORTED)}."
            )
            warnings.append(FileWarning("unsorted_rows", detail))
        return warnings

    def raise_if_faulty(self, base: int, n_features: int | None) -> None:
        """Settle the parked numbers and raise for everything that is wrong, in the file's order."""
        n_errors = self.found(Slot.ERRORS)
        faults = [
            FileError(int(line), int(column), *self._word(int(fault), int(place), base, n_features))
            for line, column, fault, place in self._errors[:n_errors]
        ]
        if self.found(Slot.PARKED):
            for values in (self.y, self._data[: self.found(Slot.NNZ)]):
                overflows = self._settle(values)
                n_errors += len(overflows)
                faults += [self._word_overflow(place) for place in overflows[:LISTED_ERRORS]]
        if n_errors:
            faults.sort(key=lambda fault: (fault.line or 0, fault.column or 0))
            listed = faults[:LISTED_ERRORS]
            raise InvalidFile(listed, n_errors - len(listed))

    def _settle(self, values: npt.NDArray[np.float64]) -> list[int]:
        """Let Python round the parked numbers; returns the offsets of those beyond the range."""
        overflows = []
        for k in np.flatnonzero(np.isnan(values)):
            place = int(values[k : k + 1].view(np.int64)[0]) & PARKED_OFFSET
            values[k] = float(self._token(place))
            if np.isinf(values[k]):
                overflows.append(place)
                if len(overflows) == COUNTED_ERRORS:
                    break
        return overflows

    def _token(self, place: int) -> bytes:
        match = TOKEN.match(self._raw, place)
        return match.group() if match else b""

    def _word_overflow(self, place: int) -> FileError:
        line_start = self._raw.rfind(b"\n", 0, place) + 1
        line = 1 + _count(np.frombuffer(self._raw, dtype=np.uint8, count=line_start), b"\n")
        detail = f"{excerpt(self._token(place))} is beyond the range of a 64-bit float."
        return FileError(line, place - line_start + 1, "not_finite", detail)

    def _word(self, fault: int, place: int, base: int, n_features: int | None) -> tuple[str, str]:
        """The code and the sentence of a fault whose token is at `place`."""
        token = self._token(place)
        shown = excerpt(token)
        if b"\0" in token or fault == Fault.NUL_BYTE:
            return "nul_byte", "The line holds a NUL byte, which no text has."
        if fault in (Fault.BAD_LABEL, Fault.BAD_VALUE):
            what = "label" if fault == Fault.BAD_LABEL else "value"
            if not token:
                return "missing_value", "There is no value behind the colon."
            if NOT_FINITE.fullmatch(token):
                return "not_finite", f"The {what} is {shown}; only finite numbers are accepted."
            return "not_a_number", f"The {what} is {shown}, which is not a number."
        if fault == Fault.INDEX_TOO_LARGE:
            if n_features is None:
                return "index_too_large", f"The index of {shown} is above {MAX_INDEX}."
            return (
                "index_too_large",
                f"The index of {shown} is beyond the {plural(n_features, 'feature')} set.",
            )
        return {
            Fault.MISSING_LABEL: ("missing_label", f"The line begins with {shown} in place of its label."),
            Fault.BAD_QID: ("bad_qid", f"{shown} is not qid: and a whole number below 10^18."),
            Fault.MISSING_QID: ("missing_qid", "The line has no qid: but lines before it have one."),
            Fault.UNEXPECTED_QID: ("unexpected_qid", "The line has a qid: but lines before it have none."),
            Fault.BAD_INDEX: ("bad_index", f"The index of {shown} is not a whole number from {base} on."),
            Fault.MISSING_COLON: ("missing_colon", f"{shown} is not of the form index:value."),
            Fault.INDEX_BELOW_BASE: (
                "index_below_base",
                f"The index of {shown} is below 1, the base that was set.",
            ),
            Fault.DUPLICATE_INDEX: ("duplicate_index", f"The row has the index of {shown} twice."),
            Fault.STRAY_RETURN: ("stray_return", "The line holds a carriage return that does not end it."),
        }[Fault(fault)]
