"""Python versions of the intrinsics, which are machine code and cannot be called without numba's compiler.

`install` puts them in the place of `numba.extending.intrinsic`, before any module of the solvers is imported.
"""

import math
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


PYTHON_VERSIONS = {
    "_fused_multiply_add": fused_multiply_add,
    "_generate_tile": multiply_tile,
    "_generate_prefetch": prefetch,
}


def install() -> None:
    numba.extending.intrinsic = lambda generator: PYTHON_VERSIONS[generator.__name__]
