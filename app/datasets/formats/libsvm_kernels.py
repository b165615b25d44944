"""The compiled half of the libsvm reader: bytes to CSR arrays, faults by number and place.

One kernel walks the text line by line into arrays that the caller has allocated. A decimal is rounded
here when that is provably right: exactly in one floating-point operation for short ones, by a
128-bit product for most others (after Eisel and Lemire). What is left, and only that, is parked: the
slot holds a NaN that carries the token's byte offset, and the caller lets Python's float decide.
The legend of the letters: a decimal is w * 10^q; 10^q = T * 2^(B - 127) with T of 128 bits, rounded down.
"""

import numpy as np
from numba import njit

__all__ = [
    "BAD_INDEX",
    "BAD_LABEL",
    "BAD_QID",
    "BAD_VALUE",
    "COUNTED_ERRORS",
    "DUPLICATE_INDEX",
    "ERRORS",
    "FIRST_UNSORTED",
    "HAS_QID",
    "INDEX_BELOW_BASE",
    "INDEX_TOO_LARGE",
    "LINE",
    "LISTED_ERRORS",
    "MAX_INDEX",
    "MIN_INDEX",
    "MISSING_COLON",
    "MISSING_LABEL",
    "MISSING_QID",
    "NNZ",
    "NUL_BYTE",
    "PARKED_OFFSET",
    "PARKED_VALUES",
    "ROWS",
    "STATE_SIZE",
    "STRAY_RETURN",
    "UNEXPECTED_QID",
    "UNSORTED_ROWS",
    "count_marks",
    "parse_lines",
]

# Slots of the state array: what the walk knows so far.
ROWS, NNZ, LINE, ERRORS, MIN_INDEX, MAX_INDEX, UNSORTED_ROWS, FIRST_UNSORTED, PARKED_VALUES, HAS_QID = range(10)
STATE_SIZE = 10

# Faults, as written into the error list.
(
    BAD_LABEL,
    MISSING_LABEL,
    BAD_QID,
    MISSING_QID,
    UNEXPECTED_QID,
    BAD_INDEX,
    MISSING_COLON,
    INDEX_BELOW_BASE,
    INDEX_TOO_LARGE,
    DUPLICATE_INDEX,
    BAD_VALUE,
    STRAY_RETURN,
    NUL_BYTE,
) = range(13)

LISTED_ERRORS = 20
COUNTED_ERRORS = 1000
PARKED_OFFSET = (1 << 48) - 1
_PARKED = 0x7FF8 << 48

_TAB, _LF, _CR, _SPACE, _HASH, _PLUS, _MINUS, _DOT, _ZERO, _COLON = 9, 10, 13, 32, 35, 43, 45, 46, 48, 58
_ROUNDED, _UNSURE, _MALFORMED = 0, 1, 2
_MANTISSA_ROOM = 10**17  # below it one more digit keeps w under 10^18
_LARGEST_INTEGER = 2**53  # up to it every integer is a float
_LARGEST_EXPONENT = 10**5
_Q_MIN, _Q_MAX = -307, 290  # w * 10^q is a normal number for every 1 <= w < 10^18


def _tabulate_powers() -> tuple[list[int], list[int]]:
    """T and B of the module's legend for every q."""
    tops, exponents = [], []
    for q in range(_Q_MIN, _Q_MAX + 1):
        numerator, denominator = 10 ** max(q, 0), 10 ** max(-q, 0)
        exponent = numerator.bit_length() - denominator.bit_length()
        if numerator << max(-exponent, 0) < denominator << max(exponent, 0):
            exponent -= 1
        shift = 127 - exponent
        tops.append((numerator << max(shift, 0)) // (denominator << max(-shift, 0)))
        exponents.append(exponent)
    return tops, exponents


_T, _B = _tabulate_powers()
_T_HIGH = np.array([t >> 64 for t in _T], dtype=np.uint64)
_T_LOW = np.array([t & (2**64 - 1) for t in _T], dtype=np.uint64)
_EXPONENTS = np.array(_B, dtype=np.int64)
_TENS = np.array([10.0**k for k in range(23)])
_TWO_MIN = -1074
_TWOS = np.array([2.0**k for k in range(_TWO_MIN, 1024)])


@njit(cache=True, nogil=True)
def count_marks(text):
    """Line feeds and colons: upper bounds of the rows (less one) and of the entries."""
    feeds = 0
    colons = 0
    for k in range(text.size):
        feeds += text[k] == _LF
        colons += text[k] == _COLON
    return feeds, colons


@njit(cache=True, nogil=True)
def parse_lines(text, offset, lowest, highest, shift, state, y, group, indptr, indices, data, bits, y_bits, errors):
    """Parse `text`, which ends with a line feed, behind what `state` says was parsed before.

    `offset` is the place of `text` in the file; indices must lie in [lowest, highest] and are stored less
    `shift`; `bits` and `y_bits` are integer views of `data` and `y`; `errors` takes a row a fault:
    line, column, fault, byte offset.
    """
    p = 0
    while p < text.size and state[ERRORS] < COUNTED_ERRORS:
        state[LINE] += 1
        start = p
        p = _skip_blanks(text, p)
        fault, place = -1, p
        if not _ends_line(text[p]):
            entries = state[NNZ]
            fault, place, p = _parse_row(
                text, p, offset, lowest, highest, shift, state, y, group, indptr, indices, data, bits, y_bits
            )
            if fault >= 0:
                state[NNZ] = entries
        if fault < 0:
            fault, place, p = _finish_line(text, p)
        if fault >= 0:
            listed = state[ERRORS]
            if listed < LISTED_ERRORS:
                errors[listed, 0] = state[LINE]
                errors[listed, 1] = place - start + 1
                errors[listed, 2] = fault
                errors[listed, 3] = offset + place
            state[ERRORS] += 1
            while text[p] != _LF:
                p += 1
        p += 1


@njit(cache=True, nogil=True)
def _parse_row(text, p, offset, lowest, highest, shift, state, y, group, indptr, indices, data, bits, y_bits):
    """One row; returns (fault or -1, its place, where the walk stands)."""
    row = state[ROWS]
    status, value, stop = _scan_number(text, p)
    if status == _MALFORMED or not _ends_token(text[stop]):
        while not _ends_token(text[stop]):
            if text[stop] == _COLON:
                return MISSING_LABEL, p, stop
            stop += 1
        return BAD_LABEL, p, stop
    y[row] = value
    if status == _UNSURE:
        y_bits[row] = _PARKED | (offset + p)
        state[PARKED_VALUES] += 1
    p = _skip_blanks(text, stop)

    has_qid = text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == _COLON
    if has_qid:
        query, stop = _scan_integer(text, p + 4)
        if stop == p + 4 or not _ends_token(text[stop]) or query < 0:
            return BAD_QID, p, stop
        if state[HAS_QID] == 0:
            return UNEXPECTED_QID, p, stop
        group[row] = query
        p = _skip_blanks(text, stop)
    elif state[HAS_QID] == 1:
        return MISSING_QID, p, p
    state[HAS_QID] = has_qid

    first = state[NNZ]
    first_place = p
    n = first
    previous = -1
    ascending = True
    while not _ends_line(text[p]):
        index, stop = _scan_integer(text, p)
        if text[stop] != _COLON or stop == p:
            return _judge_index(text, p), p, stop
        if index < 0 or index > highest:
            return INDEX_TOO_LARGE, p, stop
        if index < lowest:
            return INDEX_BELOW_BASE, p, stop
        if index <= previous:
            if index == previous:
                return DUPLICATE_INDEX, p, stop
            ascending = False
        previous = index
        p = stop + 1
        status, value, stop = _scan_number(text, p)
        if status == _MALFORMED or not _ends_token(text[stop]):
            return BAD_VALUE, p, stop
        indices[n] = index - shift
        data[n] = value
        if status == _UNSURE:
            bits[n] = _PARKED | (offset + p)
            state[PARKED_VALUES] += 1
        n += 1
        p = _skip_blanks(text, stop)

    if not ascending:
        twice = _sort_row(indices, data, first, n)
        if twice >= 0:
            place = _find_entry(text, first_place, twice)
            return DUPLICATE_INDEX, place, p
        if state[UNSORTED_ROWS] == 0:
            state[FIRST_UNSORTED] = state[LINE]
        state[UNSORTED_ROWS] += 1
    if n > first:
        state[MIN_INDEX] = min(state[MIN_INDEX], indices[first] + shift)
        state[MAX_INDEX] = max(state[MAX_INDEX], indices[n - 1] + shift)
    state[NNZ] = n
    state[ROWS] = row + 1
    indptr[row + 1] = n
    return -1, p, p


@njit(cache=True, nogil=True)
def _finish_line(text, p):
    """Walk over a comment to the line feed; returns as _parse_row does."""
    if text[p] == _HASH:
        while text[p] != _LF:
            if text[p] == 0:
                return NUL_BYTE, p, p
            p += 1
    elif text[p] == _CR:
        if text[p + 1] != _LF:
            return STRAY_RETURN, p, p
        p += 1
    return -1, p, p


@njit(cache=True, nogil=True)
def _skip_blanks(text, p):
    while text[p] == _SPACE or text[p] == _TAB:
        p += 1
    return p


@njit(cache=True, nogil=True)
def _ends_line(c):
    return c == _LF or c == _CR or c == _HASH


@njit(cache=True, nogil=True)
def _ends_token(c):
    return c == _SPACE or c == _LF or c == _TAB or c == _CR or c == _HASH


@njit(cache=True, nogil=True)
def _judge_index(text, p):
    """What is wrong with a token that does not begin with digits and a colon."""
    while not _ends_token(text[p]):
        if text[p] == _COLON:
            return BAD_INDEX
        p += 1
    return MISSING_COLON


@njit(cache=True, nogil=True)
def _scan_integer(text, p):
    """Digits from p on: (their value, or -1 if it is above 2^63 - 1; the place behind them)."""
    value = 0
    while _ZERO <= text[p] <= _ZERO + 9:
        digit = np.int64(text[p]) - _ZERO
        if value > (2**63 - 1 - digit) // 10:
            value = -1
        if value >= 0:
            value = value * 10 + digit
        p += 1
    return value, p


@njit(cache=True, nogil=True)
def _scan_number(text, p):
    """A decimal from p on: (status, value, the place behind it)."""
    negative = text[p] == _MINUS
    if negative or text[p] == _PLUS:
        p += 1
    w = 0
    q = 0
    cut = False
    first = p
    while _ZERO <= text[p] <= _ZERO + 9:
        if w < _MANTISSA_ROOM:
            w = w * 10 + (np.int64(text[p]) - _ZERO)
        else:
            q += 1
            cut |= text[p] != _ZERO
        p += 1
    digits = p - first
    if text[p] == _DOT:
        p += 1
        first = p
        while _ZERO <= text[p] <= _ZERO + 9:
            if w < _MANTISSA_ROOM:
                w = w * 10 + (np.int64(text[p]) - _ZERO)
                q -= 1
            else:
                cut |= text[p] != _ZERO
            p += 1
        digits += p - first
    if digits == 0:
        return _MALFORMED, 0.0, p
    if text[p] == 101 or text[p] == 69:  # e, E
        p += 1
        down = text[p] == _MINUS
        if down or text[p] == _PLUS:
            p += 1
        first = p
        exponent = 0
        while _ZERO <= text[p] <= _ZERO + 9:
            if exponent < _LARGEST_EXPONENT:
                exponent = exponent * 10 + (np.int64(text[p]) - _ZERO)
            p += 1
        if p == first:
            return _MALFORMED, 0.0, p
        q += -exponent if down else exponent
        if exponent >= _LARGEST_EXPONENT:
            return _UNSURE, 0.0, p
    status, value = _round_decimal(w, q, cut)
    return status, -value if negative else value, p


@njit(cache=True, nogil=True)
def _round_decimal(w, q, cut):
    """The float nearest to w * 10^q, or to a number between it and (w + 1) * 10^q if digits were cut."""
    if not cut:
        if q == 0 and w <= _LARGEST_INTEGER:
            return _ROUNDED, float(w)
        if w == 0:
            return _ROUNDED, 0.0
        if w <= _LARGEST_INTEGER and -22 <= q <= 22:
            return _ROUNDED, w / _TENS[-q] if q < 0 else w * _TENS[q]
    if q < _Q_MIN or q > _Q_MAX:
        return _UNSURE, 0.0
    status, value = _round_product(np.uint64(w), q)
    if cut and status == _ROUNDED:
        status, above = _round_product(np.uint64(w + 1), q)
        if above != value:
            status = _UNSURE
    return status, value


@njit(cache=True, nogil=True)
def _round_product(w, q):
    """Round w * 10^q by the upper 128 bits of w * T; unsure if their error could decide."""
    lead = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == np.uint64(0):
            w <<= np.uint64(step)
            lead += step
    high, middle = _multiply(w, _T_HIGH[q - _Q_MIN])
    carry, _ = _multiply(w, _T_LOW[q - _Q_MIN])
    middle += carry
    if middle < carry:
        high += np.uint64(1)
    spare = 10 + np.int64(high >> np.uint64(63))  # bits below the 53 that a float keeps
    significand = np.int64(high >> np.uint64(spare))
    rest = high & ((np.uint64(1) << np.uint64(spare)) - np.uint64(1))
    half = np.uint64(1) << np.uint64(spare - 1)
    # The true product is at or above (high, middle) and below it + 2.
    if rest == half and middle == np.uint64(0):
        return _UNSURE, 0.0
    if rest == half - np.uint64(1) and middle >= np.uint64(2**64 - 2):
        return _UNSURE, 0.0
    if rest >= half:
        significand += 1
    return _ROUNDED, float(significand) * _TWOS[spare + 1 - lead + _EXPONENTS[q - _Q_MIN] - _TWO_MIN]


@njit(cache=True, nogil=True)
def _multiply(a, b):
    """The 128-bit product of two unsigned words as (high, low)."""
    mask, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> word, b & mask, b >> word
    low = a0 * b0
    cross = a1 * b0 + (low >> word)
    other = a0 * b1 + (cross & mask)
    return a1 * b1 + (cross >> word) + (other >> word), (other << word) | (low & mask)


@njit(cache=True, nogil=True)
def _sort_row(indices, data, first, last):
    """Sort one row by index; returns which entry of the line repeats an earlier index, or -1."""
    order = np.argsort(indices[first:last], kind="mergesort")
    sorted_indices = indices[first:last][order]
    sorted_data = data[first:last][order]
    twice = -1
    for k in range(1, order.size):
        if sorted_indices[k] == sorted_indices[k - 1] and (twice < 0 or order[k] < twice):
            twice = order[k]
    indices[first:last] = sorted_indices
    data[first:last] = sorted_data
    return twice


@njit(cache=True, nogil=True)
def _find_entry(text, p, k):
    """The place of the k-th entry (from 0) of a row whose entries begin at p and are well formed."""
    for _ in range(k):
        while not _ends_token(text[p]):
            p += 1
        p = _skip_blanks(text, p)
    return p
