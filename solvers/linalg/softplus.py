"""exp(-x), log(1 + y) and the entropy in plain arithmetic, for loops over the rows of a logistic loss.

The compiler vectorises loops over these functions. A call of the C library for each row took longer than reading a
sparse row. The results are correct to 4 units in the last place; tests/unit/solvers/linalg/test_softplus.py compares
them with long doubles.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.extending import intrinsic

from solvers.linalg.types import Array

__all__ = ["CUT_OFF", "entropy_of_share", "exp_of_minus", "log1p_of_unit", "log_of_share", "sigmoid_and_softplus"]

LOWEST = 708.0
"""Largest x for which exp(-x) is computed. For larger x the result is exp(-LOWEST) = 3e-308, so that no subnormal
numbers occur."""
CUT_OFF = 4e-308
"""Bound on the absolute error of exp(-x) for x above LOWEST."""
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log(2) in two parts. The first has 32 significant bits, so its multiples are exact."""
_TO_WHOLE = 1.5 * 2.0**52
"""Adding this to a number below 2^51 rounds it to an integer, which the lowest bits of the sum then contain."""
_MANTISSA_BITS, _EXPONENT_BIAS = 52, 1023
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2). Subtracting them from the bits of x = 2^k m with sqrt(1/2) <= m < sqrt(2) leaves k in the bits
of the exponent."""
_TWO_52_BITS, _TWO_52 = 0x4330000000000000, 2.0**52
"""2^52 and its bits. Setting the mantissa to a whole number n below 2^52 gives the double 2^52 + n."""


def _generate_bits(typing_context: Any, value: Any) -> Any:
    """Generate the instruction that returns the bits of a double as an integer."""
    return types.int64(value), lambda context, builder, signature, given: builder.bitcast(given[0], ir.IntType(64))


def _generate_float(typing_context: Any, value: Any) -> Any:
    """Generate the instruction that returns the double with these bits."""
    return types.float64(value), lambda context, builder, signature, given: builder.bitcast(given[0], ir.DoubleType())


_as_bits: Any = intrinsic(_generate_bits)
_as_float: Any = intrinsic(_generate_float)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", forceinline=True)
def exp_of_minus(x: float) -> float:
    """Return exp(-x) for x >= 0, as 2^m times a polynomial; m is the integer nearest to -x / log(2)."""
    x = -min(x, LOWEST)
    shifted = x * _LOG2_E + _TO_WHOLE
    m = shifted - _TO_WHOLE
    r = (x - m * _LN2_HIGH) - m * _LN2_LOW  # |r| <= log(2) / 2: the rest of the series is below 2^-57
    high = 1.0 / 5040.0 + r * (1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (1.0 / 3628800.0)))
    tail = r * r * r * r * (1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0)))
    high = high + tail
    low = 0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * high))))
    power: float = _as_float((_as_bits(shifted) + _EXPONENT_BIAS) << _MANTISSA_BITS)
    return (1.0 + (r + r * r * low)) * power


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", forceinline=True)
def log1p_of_unit(y: float) -> float:
    """log(1 + y) for 0 <= y <= 1: 2 artanh(y / (2 + y))."""
    return _twice_artanh(y / (2.0 + y))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", forceinline=True)
def log_of_share(x: float) -> float:
    """Return log(x) for normal x up to 1/2, as k log(2) + 2 artanh((m - 1) / (m + 1)) with x = 2^k m."""
    bits = _as_bits(x)
    shifted = (bits - _ROOT_HALF_BITS + (_EXPONENT_BIAS << _MANTISSA_BITS)) >> _MANTISSA_BITS  # k + 1023, not negative
    k: float = _as_float(shifted | _TWO_52_BITS) - (_TWO_52 + _EXPONENT_BIAS)
    m: float = _as_float(bits - ((shifted - _EXPONENT_BIAS) << _MANTISSA_BITS))
    return k * _LN2_HIGH + (_twice_artanh((m - 1.0) / (m + 1.0)) + k * _LN2_LOW)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", forceinline=True)
def entropy_of_share(x: float) -> float:
    """Return -x log(x) - (1 - x) log(1 - x) for normal x up to 1/2."""
    rest = 1.0 - x
    return rest * log1p_of_unit(x / rest) - x * log_of_share(x)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", forceinline=True)
def _twice_artanh(f: float) -> float:
    """Return 2 artanh(f) for |f| <= 1/3, by its series in f^2."""
    z = f * f
    total = 1.0 / 35.0
    total = 1.0 / 33.0 + z * total
    total = 1.0 / 31.0 + z * total
    total = 1.0 / 29.0 + z * total
    total = 1.0 / 27.0 + z * total
    total = 1.0 / 25.0 + z * total
    total = 1.0 / 23.0 + z * total
    total = 1.0 / 21.0 + z * total
    total = 1.0 / 19.0 + z * total
    total = 1.0 / 17.0 + z * total
    total = 1.0 / 15.0 + z * total
    total = 1.0 / 13.0 + z * total
    total = 1.0 / 11.0 + z * total
    total = 1.0 / 9.0 + z * total
    total = 1.0 / 7.0 + z * total
    total = 1.0 / 5.0 + z * total
    total = 1.0 / 3.0 + z * total
    return 2.0 * (f + f * (z * total))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def sigmoid_and_softplus(slack: Array, sigmoid: Array, softplus: Array) -> None:
    """Write 1 / (1 + exp(-slack)) to sigmoid and log(1 + exp(slack)) to softplus, for each slack."""
    for k in range(slack.size):
        s = slack[k]
        e = exp_of_minus(abs(s))
        inverse = 1.0 / (1.0 + e)
        sigmoid[k] = inverse if s >= 0.0 else e * inverse
        softplus[k] = max(s, 0.0) + log1p_of_unit(e) + 0.0 * s
