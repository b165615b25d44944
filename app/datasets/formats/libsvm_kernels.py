"""The compiled half of the libsvm reader: bytes to CSR arrays, faults by number and place.

One kernel walks the text line by line into arrays that the caller has allocated. A decimal is rounded
here when that is provably right: in one floating-point operation for short ones, by a 128-bit product
for most others (after Eisel and Lemire). What is left, and only that, is parked: its slot holds a NaN
that carries the token's byte offset, and the caller lets Python's float decide. Every loop over bytes
stops at a line feed, so the text must end with one; nothing else bounds it.

Letters: a decimal is w * 10^q; 10^q = T * 2^(B - 127) with T of 128 bits, rounded down.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["PARKED_OFFSET", "Arrays", "Fault", "Limits", "Slot", "parse_lines"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Arrays = tuple[Floats, Ints, Ints, Ints, Indices, Floats, Ints]  # as _parse_row unpacks them; bits: views
Limits = tuple[int, int, int]  # lowest and highest index allowed; what an index is stored less


class Slot(IntEnum):
    """What the places of the state array mean."""

    ROWS = 0
    NNZ = 1
    LINE = 2
    ERRORS = 3
    MIN_INDEX = 4
    MAX_INDEX = 5
    UNSORTED_ROWS = 6
    FIRST_UNSORTED = 7
    PARKED = 8
    HAS_QID = 9  # -1 until the first row decides


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

_TAB, _LF, _CR, _SPACE, _HASH, _PLUS, _MINUS, _DOT, _ZERO, _NINE, _COLON = b"\t\n\r #+-.09:"
_UPPER_E, _LOWER_E, _D, _I, _Q = b"Eediq"
_ROUNDED, _UNSURE, _MALFORMED = range(3)
_ROOM = 10**17  # below it one more digit keeps an integer under 10^18
_LARGEST_INTEGER = 2**53  # up to it every integer is a float
_LARGEST_EXPONENT = 10**5
_ROW_ROOM = 2**32
_Q_MIN, _Q_MAX = -307, 290  # w * 10^q is a normal number for every 1 <= w <= 10^18


def _tabulate_powers() -> tuple[list[int], list[int]]:
    """T and B of the module's legend for every q."""
    tops, exponents = [], []
    for q in range(_Q_MIN, _Q_MAX + 1):
        above, below = 10 ** max(q, 0), 10 ** max(-q, 0)
        shift = 128 - (above.bit_length() - below.bit_length())
        top = (above << max(shift, 0)) // (below << max(-shift, 0))
        extra = top.bit_length() - 128  # 0 or 1
        tops.append(top >> extra)
        exponents.append(127 - shift + extra)
    return tops, exponents


_T, _B = _tabulate_powers()
_T_HIGH = np.array([t >> 64 for t in _T], dtype=np.uint64)
_T_LOW = np.array([t & (2**64 - 1) for t in _T], dtype=np.uint64)
_EXPONENTS = np.array(_B, dtype=np.int64)
_TENS = np.array([10.0**k for k in range(23)])
_TWO_MIN = -1074
_TWOS = np.array([2.0**k for k in range(_TWO_MIN, 1024)])


@njit(cache=True, nogil=True)
def parse_lines(
    text: Bytes, offset: int, limits: Limits, most_errors: int, state: Ints, arrays: Arrays, errors: Ints
) -> None:
    """Parse `text`, whose place in the file is `offset`, going on from where `state` stands.

    Stops after `most_errors` faults; `errors` takes the first: line, column, fault, byte offset of each.
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
    """One row up to the end of its line or its comment: (fault, its place, where the walk stands)."""
    lowest, highest, shift = limits
    y, y_bits, group, indptr, indices, data, data_bits = arrays
    row = state[Slot.ROWS]
    status, value, stop = _scan_number(text, p)
    if status == _MALFORMED or not _ends_token(text[stop]):
        while not _ends_token(text[stop]):
            if text[stop] == _COLON:
                return Fault.MISSING_LABEL, p, stop
            stop += 1
        return Fault.BAD_LABEL, p, stop
    y[row] = value
    if status == _UNSURE:
        y_bits[row] = _PARKED_NAN | (offset + p)
        state[Slot.PARKED] += 1
    p = _skip_blanks(text, stop)

    has_qid = text[p] == _Q and text[p + 1] == _I and text[p + 2] == _D and text[p + 3] == _COLON
    if has_qid:
        query, stop = _scan_integer(text, p + 4)
        if stop == p + 4 or not _ends_token(text[stop]) or query > 10 * _ROOM - 1:
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
        index, stop = _scan_integer(text, p)
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
        status, value, stop = _scan_number(text, p)
        if status == _MALFORMED or not _ends_token(text[stop]):
            return Fault.BAD_VALUE, p, stop
        indices[n] = index - shift
        data[n] = value
        if status == _UNSURE:
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
    """From the end of a row, over a comment, to the line feed; returns as _parse_row does."""
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
    """What is wrong with a token that is not digits, a colon and more."""
    while not _ends_token(text[p]):
        if text[p] == _COLON:
            return Fault.BAD_INDEX
        p += 1
    return Fault.MISSING_COLON


@njit(cache=True, nogil=True, forceinline=True)
def _scan_integer(text: Bytes, p: int) -> tuple[int, int]:
    """Digits from p on: (their value, or 10^18 where it is that or more; the place behind them)."""
    value = 0
    while _ZERO <= text[p] <= _NINE:
        value = value * 10 + (int(text[p]) - _ZERO) if value < _ROOM else 10 * _ROOM
        p += 1
    return value, p


@njit(cache=True, nogil=True, forceinline=True)
def _scan_number(text: Bytes, p: int) -> tuple[int, float, int]:
    """A decimal from p on: (status, value, the place behind it)."""
    if _ZERO <= text[p] <= _NINE and text[p + 1] == _SPACE:  # most values of sparse data
        return _ROUNDED, float(int(text[p]) - _ZERO), p + 1
    negative = text[p] == _MINUS
    if negative or text[p] == _PLUS:
        p += 1
    w, q, cut = 0, 0, False
    first = p
    while _ZERO <= text[p] <= _NINE:
        if w < _ROOM:
            w = w * 10 + (int(text[p]) - _ZERO)
        else:
            q += 1
            cut |= text[p] != _ZERO
        p += 1
    digits = p - first
    if text[p] == _DOT:
        p += 1
        first = p
        while _ZERO <= text[p] <= _NINE:
            if w < _ROOM:
                w = w * 10 + (int(text[p]) - _ZERO)
                q -= 1
            else:
                cut |= text[p] != _ZERO
            p += 1
        digits += p - first
    if digits == 0:
        return _MALFORMED, 0.0, p
    if text[p] == _LOWER_E or text[p] == _UPPER_E:
        down = text[p + 1] == _MINUS
        p += 2 if down or text[p + 1] == _PLUS else 1
        first = p
        exponent = 0
        while _ZERO <= text[p] <= _NINE:
            if exponent < _LARGEST_EXPONENT:
                exponent = exponent * 10 + (int(text[p]) - _ZERO)
            p += 1
        if p == first:
            return _MALFORMED, 0.0, p
        if exponent >= _LARGEST_EXPONENT:
            return _UNSURE, 0.0, p
        q += -exponent if down else exponent
    status, value = _round_decimal(w, q, cut)
    return status, -value if negative else value, p


@njit(cache=True, nogil=True, forceinline=True)
def _round_decimal(w: int, q: int, cut: bool) -> tuple[int, float]:
    """The float nearest to w * 10^q, or to what lies between it and (w + 1) * 10^q if digits were cut."""
    if not cut and w <= _LARGEST_INTEGER and -22 <= q <= 22:
        return _ROUNDED, w / _TENS[-q] if q < 0 else w * _TENS[q]
    if w == 0 and not cut:
        return _ROUNDED, 0.0
    if q < _Q_MIN or q > _Q_MAX:
        return _UNSURE, 0.0
    status, value = _round_product(np.uint64(w), q)
    if cut and _round_product(np.uint64(w + 1), q) != (_ROUNDED, value):
        return _UNSURE, 0.0
    return status, value


@njit(cache=True, nogil=True)
def _round_product(w: np.uint64, q: int) -> tuple[int, float]:
    """Round w * 10^q by the upper 128 bits of w * T; unsure if what they leave out could decide."""
    lead = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == 0:
            w, lead = w << np.uint64(step), lead + step
    high, middle = _multiply(w, _T_HIGH[q - _Q_MIN])
    carry, _ = _multiply(w, _T_LOW[q - _Q_MIN])
    middle += carry
    if middle < carry:
        high += np.uint64(1)
    spare = 10 + int(high >> np.uint64(63))  # bits of `high` below the 53 that a float keeps
    significand = high >> np.uint64(spare)
    rest = high & ((np.uint64(1) << np.uint64(spare)) - np.uint64(1))
    half = np.uint64(1) << np.uint64(spare - 1)
    # The true product is at or above (high, middle) and below (high, middle) + 2.
    if rest == half and middle == 0:
        return _UNSURE, 0.0
    if rest == half - np.uint64(1) and middle >= np.uint64(2**64 - 2):
        return _UNSURE, 0.0
    if rest >= half:
        significand += np.uint64(1)
    return _ROUNDED, significand * _TWOS[spare + 1 - lead + _EXPONENTS[q - _Q_MIN] - _TWO_MIN]


@njit(cache=True, nogil=True, forceinline=True)
def _multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The 128-bit product of two unsigned words as (high, low)."""
    mask, word = np.uint64(2**32 - 1), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> word, b & mask, b >> word
    low = a0 * b0
    cross = a1 * b0 + (low >> word)
    other = a0 * b1 + (cross & mask)
    return a1 * b1 + (cross >> word) + (other >> word), (other << word) | (low & mask)


@njit(cache=True, nogil=True)
def _sort_row(indices: Indices, data: Floats, first: int, last: int) -> int:
    """Sort one row by index; returns which entry of the line repeats an earlier index, or -1."""
    n = last - first
    values = data[first:last].copy()
    keys = np.empty(n, dtype=np.int64)
    for k in range(n):
        keys[k] = indices[first + k] * _ROW_ROOM + k
    for root in range(n // 2 - 1, -1, -1):  # a heap sort, which no line can make slow
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
    """The place of the k-th entry (from 0) of a row whose entries begin at p and are well formed."""
    for _ in range(k):
        while not _ends_token(text[p]):
            p += 1
        p = _skip_blanks(text, p)
    return p
