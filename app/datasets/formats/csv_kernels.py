"""The compiled part of the CSV reader. It parses lines of plain numbers; most large tables contain nothing else."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from app.datasets.formats.decimal_kernels import ROUNDED, scan_number
from app.tabular.types import Floats, Ints

__all__ = ["REFUSED", "TARGET", "TOO_PRECISE", "WEIGHT", "mark_padded", "parse_numbers"]

Bytes = npt.NDArray[np.uint8]

TARGET, WEIGHT = -1, -2
REFUSED, TOO_PRECISE = -1, -2

_LF, _CR, _MINUS, _ZERO, _NINE, _QUOTE, _SPACE, _TAB = b'\n\r-09" \t'
_SURE_DIGITS = 15
"""Maximum digits of an integer for which float64 is always exact, because 10^15 < 2^53."""


@njit(cache=True, nogil=True)
def parse_numbers(
    text: Bytes, delimiter: int, places: Ints, X: npt.NDArray[np.floating[Any]], target: Floats, weight: Floats
) -> int:
    """Parse lines into arrays with one row per line. Returns the number of rows, REFUSED or TOO_PRECISE.

    The last line must end with a line feed. `places` has the position of each column in X, or TARGET or WEIGHT. REFUSED
    means that another reader must parse the text: a cell is not a number that begins with a digit or a minus, or a
    feature has leading zeros, or the rounding of a number is not certain, or a line has another number of cells.
    TOO_PRECISE means that X is float32 and cannot hold a number exactly.
    """
    p, row, last = 0, 0, len(places) - 1
    while p < text.size:
        for j in range(len(places)):
            end = _LF if j == last else delimiter
            c = text[p]
            if not (_ZERO <= c <= _NINE or (c == _MINUS and _ZERO <= text[p + 1] <= _NINE)):
                return REFUSED
            if text[p + 1] == end:  # a fast path for one digit: most cells of tables of flags
                value = float(int(c) - _ZERO)
                p += 1
            else:
                if c == _ZERO and _ZERO <= text[p + 1] <= _NINE and places[j] >= 0:
                    return REFUSED
                first, w = p, 0
                while _ZERO <= text[p] <= _NINE:
                    w = w * 10 + (int(text[p]) - _ZERO)
                    p += 1
                if text[p] == end and p - first <= _SURE_DIGITS:
                    value = float(w)
                else:
                    status, value, p = scan_number(text, first)
                    if status != ROUNDED:
                        return REFUSED
                    if j == last and text[p] == _CR:
                        p += 1
                    if text[p] != end:
                        return REFUSED
            p += 1
            place = places[j]
            if place >= 0:
                X[row, place] = value
                if X[row, place] != value:
                    return TOO_PRECISE
            elif place == TARGET:
                target[row] = value
            else:
                weight[row] = value
        row += 1
    return row


@njit(cache=True, nogil=True)
def mark_padded(text: Bytes, delimiter: int, padded: npt.NDArray[np.bool_]) -> None:
    """Mark the columns with a cell of digits only that begins with 0 and has several digits. Records are split as CSV:
    delimiters and line ends inside quotes belong to the cell."""
    p, column, n = 0, 0, text.size
    while p < n:
        quoted = text[p] == _QUOTE
        if quoted:
            p += 1
        while p < n and (text[p] == _SPACE or text[p] == _TAB) and text[p] != delimiter:
            p += 1
        first = p
        while p < n and _ZERO <= text[p] <= _NINE:
            p += 1
        digits = p - first
        starts_with_zero = digits > 1 and text[first] == _ZERO
        while starts_with_zero and p < n and (text[p] == _SPACE or text[p] == _TAB) and text[p] != delimiter:
            p += 1
        at_end = p == n or text[p] == delimiter or text[p] == _LF or text[p] == _CR or (quoted and text[p] == _QUOTE)
        if starts_with_zero and at_end and column < padded.size:
            padded[column] = True
        if quoted:
            while p < n:
                if text[p] == _QUOTE:
                    if p + 1 < n and text[p + 1] == _QUOTE:
                        p += 1
                    else:
                        break
                p += 1
            p += 1
        while p < n and text[p] != delimiter and text[p] != _LF and text[p] != _CR:
            p += 1
        if p < n:
            column = column + 1 if text[p] == delimiter else 0
        p += 1
