"""Python versions of the intrinsics, which are machine code and cannot be called without numba's compiler.

`install` puts them in the place of `numba.extending.intrinsic`, before any module of the solvers is imported.
"""

import math
import struct
from fractions import Fraction
from typing import Any

import numba.extending

HIGH, WIDE = 4, 12


def fused_multiply_add(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once: computed exactly."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def multiply_tile(left: Any, at: int, right: Any, at_right: int, steps: int, out: Any) -> None:
    """As solvers/linalg/tiles.py describes it."""
    for m in range(HIGH):
        for c in range(WIDE):
            places = range(steps)
            out[WIDE * m + c] = sum((left[at + WIDE * s + m] * right[at_right + WIDE * s + c] for s in places), 0.0)


def prefetch(array: Any, index: int) -> None:
    """A hint to the processor; nothing to do."""


def bits_of(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def float_of(bits: int) -> float:
    """Of the lowest 64 bits: shifted numbers are longer in Python."""
    (value,) = struct.unpack("<d", struct.pack("<Q", bits & (2**64 - 1)))
    return float(value)


PYTHON_VERSIONS = {
    "_fused_multiply_add": fused_multiply_add,
    "_generate_tile": multiply_tile,
    "_generate_prefetch": prefetch,
    "_generate_bits": bits_of,
    "_generate_float": float_of,
}


def install() -> None:
    numba.extending.intrinsic = lambda generator: PYTHON_VERSIONS[generator.__name__]
