"""The compiled half of the CSV reader: lines of plain numbers, which is what most large tables are."""

import numpy as np
import numpy.typing as npt
from numba import njit

from .decimal_kernels import ROUNDED, scan_number

__all__ = ["TARGET", "WEIGHT", "parse_numbers"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TARGET, WEIGHT = -1, -2

_LF, _CR, _MINUS, _ZERO, _NINE = b"\n\r-09"


@njit(cache=True, nogil=True)
def parse_numbers(text: Bytes, delimiter: int, places: Ints, X: Floats, target: Floats, weight: Floats) -> int:
    """Read lines, the last of which ends with a line feed, into arrays that have a row for each; returns the rows.

    `places` says of each column which of X it is, or TARGET or WEIGHT. -1: there is something else than numbers that
    begin with a digit or a minus and are rounded for sure, or another number of them; another reader has to look.
    """
    p, row, last = 0, 0, len(places) - 1
    while p < text.size:
        for j in range(len(places)):
            c = text[p]
            if not (_ZERO <= c <= _NINE or (c == _MINUS and _ZERO <= text[p + 1] <= _NINE)):
                return -1
            if text[p + 1] == delimiter or text[p + 1] == _LF:  # one digit: most cells of tables of flags
                value = float(int(c) - _ZERO)
                p += 1
            else:
                status, value, p = scan_number(text, p)
                if status != ROUNDED:
                    return -1
            if j == last and text[p] == _CR:
                p += 1
            if text[p] != (_LF if j == last else delimiter):
                return -1
            p += 1
            place = places[j]
            if place >= 0:
                X[row, place] = value
            elif place == TARGET:
                target[row] = value
            else:
                weight[row] = value
        row += 1
    return row
