"""Converts decimal numbers in text to floats, for the compiled readers of text files.

A number is converted here only if its rounding is provably correct. Short numbers need one floating-point operation.
Most others need a 128-bit product (Eisel and Lemire, see Lemire 2021). For the rest the status is UNSURE, and the
caller uses Python's float. Every loop stops at a line feed, so the text must contain a line feed after the position
where a scan starts.

numba's cache does not notice changes of imported modules. After a change of this file, touch the files of the kernels
that import it.

Symbols: a decimal is w * 10^q; 10^q = T * 2^(B - 127) with T of 128 bits, rounded down.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["LARGEST_INTEGER", "MALFORMED", "ROUNDED", "UNSURE", "scan_integer", "scan_number"]

Bytes = npt.NDArray[np.uint8]

ROUNDED, UNSURE, MALFORMED = range(3)
LARGEST_INTEGER = 10**18
"""Largest value that `scan_integer` returns. It stands for every larger integer too."""

_SPACE, _PLUS, _MINUS, _DOT, _ZERO, _NINE, _UPPER_E, _LOWER_E = b" +-.09Ee"
_ROOM = 10**17
"""Limit below which one more digit can be appended and the integer stays below 10^18."""
_EXACT_INTEGER = 2**53
"""Largest integer up to which float64 represents every integer exactly."""
_LARGEST_EXPONENT = 10**5
_Q_MIN, _Q_MAX = -307, 290
"""Range of q in which w * 10^q is a normal float64 for every 1 <= w <= 10^18."""


def _tabulate_powers() -> tuple[list[int], list[int]]:
    """Return T and B (see the module's docstring) for every q."""
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


@njit(cache=True, nogil=True, forceinline=True)
def scan_integer(text: Bytes, p: int) -> tuple[int, int]:
    """Parse the digits at offset p. Returns the value, at most 10^18, and the offset after the digits."""
    value = 0
    while _ZERO <= text[p] <= _NINE:
        value = value * 10 + (int(text[p]) - _ZERO) if value < _ROOM else LARGEST_INTEGER
        p += 1
    return value, p


@njit(cache=True, nogil=True, forceinline=True)
def scan_number(text: Bytes, p: int) -> tuple[int, float, int]:
    """Parse the decimal number at offset p. Returns the status, the value and the offset after the number."""
    if _ZERO <= text[p] <= _NINE and text[p + 1] == _SPACE:  # a fast path: most values of sparse data have one digit
        return ROUNDED, float(int(text[p]) - _ZERO), p + 1
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
        return MALFORMED, 0.0, p
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
            return MALFORMED, 0.0, p
        if exponent >= _LARGEST_EXPONENT:
            return UNSURE, 0.0, p
        q += -exponent if down else exponent
    status, value = _round_decimal(w, q, cut)
    return status, -value if negative else value, p


@njit(cache=True, nogil=True, forceinline=True)
def _round_decimal(w: int, q: int, cut: bool) -> tuple[int, float]:
    """Return the status and the float nearest to the number. The number is w * 10^q or, if `cut`, lies between w * 10^q
    and (w + 1) * 10^q."""
    if not cut and w <= _EXACT_INTEGER and -22 <= q <= 22:
        return ROUNDED, w / _TENS[-q] if q < 0 else w * _TENS[q]
    if w == 0 and not cut:
        return ROUNDED, 0.0
    if q < _Q_MIN or q > _Q_MAX:
        return UNSURE, 0.0
    status, value = _round_product(np.uint64(w), q)
    if cut and _round_product(np.uint64(w + 1), q) != (ROUNDED, value):
        return UNSURE, 0.0
    return status, value


@njit(cache=True, nogil=True)
def _round_product(w: np.uint64, q: int) -> tuple[int, float]:
    """Round w * 10^q from the upper 128 bits of w * T. The status is UNSURE if the rounding depends on the lower
    bits."""
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
        return UNSURE, 0.0
    if rest == half - np.uint64(1) and middle >= np.uint64(2**64 - 2):
        return UNSURE, 0.0
    if rest >= half:
        significand += np.uint64(1)
    return ROUNDED, significand * _TWOS[spare + 1 - lead + _EXPONENTS[q - _Q_MIN] - _TWO_MIN]


@njit(cache=True, nogil=True, forceinline=True)
def _multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the 128-bit product of two unsigned words as (high, low)."""
    mask, word = np.uint64(2**32 - 1), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> word, b & mask, b >> word
    low = a0 * b0
    cross = a1 * b0 + (low >> word)
    other = a0 * b1 + (cross & mask)
    return a1 * b1 + (cross >> word) + (other >> word), (other << word) | (low & mask)
