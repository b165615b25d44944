"""The compiled part of the libsvm reader. It parses bytes into CSR arrays, and returns errors as codes with byte
offsets.

One kernel parses the text line by line into arrays that the caller has allocated. If the rounding of a number is not
certain (`decimal_kernels`), its place in the array holds a NaN whose bits contain the byte offset of the token, and the
caller converts the token with Python's float. Every loop over bytes stops only at a line feed, so the text must end
with a line feed.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from numba import njit

from app.datasets.formats.decimal_kernels import LARGEST_INTEGER, MALFORMED, UNSURE, scan_integer, scan_number
from app.tabular.types import Floats, Ints

__all__ = ["PARKED_OFFSET", "Arrays", "Fault", "Limits", "Slot", "parse_lines"]

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int32]
# in the order in which _parse_row unpacks them; `bits` arrays are integer views of float arrays
Arrays = tuple[Floats, Ints, Ints, Ints, Indices, Floats, Ints]
Limits = tuple[int, int, int]  # lowest and highest index allowed; the number subtracted from each index


class Slot(IntEnum):
    """Positions of the elements of the state array."""

    ROWS = 0
    NNZ = 1
    LINE = 2
    ERRORS = 3
    MIN_INDEX = 4
    MAX_INDEX = 5
    UNSORTED_ROWS = 6
    FIRST_UNSORTED = 7
    PARKED = 8
    HAS_QID = 9
    """1 if rows have a qid, 0 if not, -1 before the first row."""


class Fault(IntEnum):
    NONE = -1
    BAD_LABEL = 0
    MISSING_LABEL = 1
    BAD_QID = 2
    MISSING_QID = 3
    UNEXPECTED_QID = 4
    BAD_INDEX = 5
    MISSING_COLON = 6
    INDEX_BELOW_BASE = 7
    INDEX_TOO_LARGE = 8
    DUPLICATE_INDEX = 9
    BAD_VALUE = 10
    STRAY_RETURN = 11
    NUL_BYTE = 12


PARKED_OFFSET = (1 << 48) - 1
_PARKED_NAN = 0x7FF8 << 48

_TAB, _LF, _CR, _SPACE, _HASH, _COLON = b"\t\n\r #:"
_D, _I, _Q = b"diq"
_ROW_ROOM = 2**32


@njit(cache=True, nogil=True)
def parse_lines(
    text: Bytes, offset: int, limits: Limits, most_errors: int, state: Ints, arrays: Arrays, errors: Ints
) -> None:
    """Parse `text`, which begins at byte `offset` of the file, and add to the counts in `state`.

    Stops after `most_errors` errors. The first errors are written to `errors` as line, column, fault and byte offset.
    """
    p = 0
    while p < text.size and state[Slot.ERRORS] < most_errors:
        state[Slot.LINE] += 1
        start = p
        p = _skip_blanks(text, p)
        fault, place = Fault.NONE, p
        if not _ends_line(text[p]):
            entries = state[Slot.NNZ]
            fault, place, p = _parse_row(text, p, offset, limits, state, arrays)
            if fault != Fault.NONE:
                state[Slot.NNZ] = entries
        if fault == Fault.NONE:
            fault, place, p = _finish_line(text, p)
        if fault != Fault.NONE:
            listed = state[Slot.ERRORS]
            if listed < len(errors):
                errors[listed, 0] = state[Slot.LINE]
                errors[listed, 1] = place - start + 1
                errors[listed, 2] = fault
                errors[listed, 3] = offset + place
            state[Slot.ERRORS] += 1
            while text[p] != _LF:
                p += 1
        p += 1


@njit(cache=True, nogil=True)
def _parse_row(text: Bytes, p: int, offset: int, limits: Limits, state: Ints, arrays: Arrays) -> tuple[Fault, int, int]:
    """Parse one row up to its line end or comment. Returns the fault, the offset of the fault, and the offset after the
    parsed text."""
    lowest, highest, shift = limits
    y, y_bits, group, indptr, indices, data, data_bits = arrays
    row = state[Slot.ROWS]
    status, value, stop = scan_number(text, p)
    if status == MALFORMED or not _ends_token(text[stop]):
        while not _ends_token(text[stop]):
            if text[stop] == _COLON:
                return Fault.MISSING_LABEL, p, stop
            stop += 1
        return Fault.BAD_LABEL, p, stop
    y[row] = value
    if status == UNSURE:
        y_bits[row] = _PARKED_NAN | (offset + p)
        state[Slot.PARKED] += 1
    p = _skip_blanks(text, stop)

    has_qid = text[p] == _Q and text[p + 1] == _I and text[p + 2] == _D and text[p + 3] == _COLON
    if has_qid:
        query, stop = scan_integer(text, p + 4)
        if stop == p + 4 or not _ends_token(text[stop]) or query > LARGEST_INTEGER - 1:
            return Fault.BAD_QID, p, stop
        if state[Slot.HAS_QID] == 0:
            return Fault.UNEXPECTED_QID, p, stop
        group[row] = query
        p = _skip_blanks(text, stop)
    elif state[Slot.HAS_QID] == 1:
        return Fault.MISSING_QID, p, p
    state[Slot.HAS_QID] = has_qid

    first, first_place = state[Slot.NNZ], p
    n, previous, ascending = first, -1, True
    while not _ends_line(text[p]):
        index, stop = scan_integer(text, p)
        if stop == p or text[stop] != _COLON:
            return _judge_index(text, p), p, stop
        if index > highest:
            return Fault.INDEX_TOO_LARGE, p, stop
        if index < lowest:
            return Fault.INDEX_BELOW_BASE, p, stop
        if index <= previous:
            if index == previous:
                return Fault.DUPLICATE_INDEX, p, stop
            ascending = False
        previous = index
        p = stop + 1
        status, value, stop = scan_number(text, p)
        if status == MALFORMED or not _ends_token(text[stop]):
            return Fault.BAD_VALUE, p, stop
        indices[n] = index - shift
        data[n] = value
        if status == UNSURE:
            data_bits[n] = _PARKED_NAN | (offset + p)
            state[Slot.PARKED] += 1
        n += 1
        p = _skip_blanks(text, stop)

    if not ascending:
        twice = _sort_row(indices, data, first, n)
        if twice >= 0:
            return Fault.DUPLICATE_INDEX, _find_entry(text, first_place, twice), p
        if state[Slot.UNSORTED_ROWS] == 0:
            state[Slot.FIRST_UNSORTED] = state[Slot.LINE]
        state[Slot.UNSORTED_ROWS] += 1
    if n > first:
        state[Slot.MIN_INDEX] = min(state[Slot.MIN_INDEX], indices[first] + shift)
        state[Slot.MAX_INDEX] = max(state[Slot.MAX_INDEX], indices[n - 1] + shift)
    state[Slot.NNZ] = n
    state[Slot.ROWS] = row + 1
    indptr[row + 1] = n
    return Fault.NONE, p, p


@njit(cache=True, nogil=True)
def _finish_line(text: Bytes, p: int) -> tuple[Fault, int, int]:
    """Skip a comment after a row, up to the line feed. Returns the same as _parse_row."""
    if text[p] == _HASH:
        while text[p] != _LF:
            if text[p] == 0:
                return Fault.NUL_BYTE, p, p
            p += 1
    elif text[p] == _CR:
        if text[p + 1] != _LF:
            return Fault.STRAY_RETURN, p, p
        p += 1
    return Fault.NONE, p, p


@njit(cache=True, nogil=True, forceinline=True)
def _skip_blanks(text: Bytes, p: int) -> int:
    while text[p] == _SPACE or text[p] == _TAB:
        p += 1
    return p


@njit(cache=True, nogil=True, forceinline=True)
def _ends_line(c: int) -> bool:
    return c in (_LF, _CR, _HASH)


@njit(cache=True, nogil=True, forceinline=True)
def _ends_token(c: int) -> bool:
    return c in (_SPACE, _LF, _TAB, _CR, _HASH)


@njit(cache=True, nogil=True)
def _judge_index(text: Bytes, p: int) -> Fault:
    """Return the fault of a token that does not have the form index:value."""
    while not _ends_token(text[p]):
        if text[p] == _COLON:
            return Fault.BAD_INDEX
        p += 1
    return Fault.MISSING_COLON


@njit(cache=True, nogil=True)
def _sort_row(indices: Indices, data: Floats, first: int, last: int) -> int:
    """Sort one row by index. Returns the position, before the sort, of the first entry that repeats an index; -1 if
    none does."""
    n = last - first
    values = data[first:last].copy()
    keys = np.empty(n, dtype=np.int64)
    for k in range(n):
        keys[k] = indices[first + k] * _ROW_ROOM + k
    for root in range(n // 2 - 1, -1, -1):  # a heap sort: O(n log n) for every line
        _sift_down(keys, root, n)
    for end in range(n - 1, 0, -1):
        keys[0], keys[end] = keys[end], keys[0]
        _sift_down(keys, 0, end)
    twice = -1
    for k in range(n):
        entry = keys[k] % _ROW_ROOM
        indices[first + k] = keys[k] // _ROW_ROOM
        data[first + k] = values[entry]
        if k > 0 and indices[first + k] == indices[first + k - 1]:
            twice = entry if twice < 0 else min(twice, entry)
    return twice


@njit(cache=True, nogil=True)
def _sift_down(keys: Ints, root: int, end: int) -> None:
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and keys[child + 1] > keys[child]:
            child += 1
        if keys[root] >= keys[child]:
            return
        keys[root], keys[child] = keys[child], keys[root]
        root = child


@njit(cache=True, nogil=True)
def _find_entry(text: Bytes, p: int, k: int) -> int:
    """Return the offset of the k-th entry (from 0) of a row whose entries begin at p and are well formed."""
    for _ in range(k):
        while not _ends_token(text[p]):
            p += 1
        p = _skip_blanks(text, p)
    return p
