"""Dual points whose sum is exactly zero, which a bias without regularisation requires.

A sum that is zero only up to rounding proves nothing: the error of the bound is that sum times the bias, and the bias
is unbounded. Therefore the numbers are rounded towards zero to multiples of a power of two. The power is chosen so that
the magnitudes of all numbers add up to at most 2^52 of it. Sums of such numbers are exact in doubles, in any order. If
positive and negative numbers do not cancel, the larger of the two sides is then reduced by the exact difference.
"""

import math

import numpy as np

from solvers.linalg.types import Floats

__all__ = ["balanced", "on_grid"]


def on_grid(values: Floats) -> Floats:
    """Round the values towards zero to multiples of a power of two, so that the sum of any of them is exact."""
    total = float(np.abs(values).sum())
    if not np.isfinite(total):
        return np.zeros_like(values)  # infinite values prove nothing
    # Twice the computed total exceeds the exact one, including its rounding error.
    exponent = max(math.frexp(2.0 * total)[1] - 52, -1074)
    # The scaling takes two steps, because the power of two itself can overflow.
    half = exponent // 2
    scaled = np.trunc(np.ldexp(np.ldexp(values, -half), half - exponent))
    return np.asarray(np.ldexp(np.ldexp(scaled, exponent - half), half))


def balanced(signed: Floats) -> Floats:
    """Return the numbers with a sum of exactly zero: those of the sign with the larger sum are reduced."""
    up, down = float(np.maximum(signed, 0.0).sum()), -float(np.minimum(signed, 0.0).sum())
    if up == 0.0 or down == 0.0 or not np.isfinite(up + down):
        return np.zeros_like(signed)
    if up != down:
        heavier = signed > 0.0 if up > down else signed < 0.0
        signed = np.where(heavier, signed * (min(up, down) / max(up, down)), signed)
    signed = on_grid(signed)
    excess = float(signed.sum())  # exact
    while excess != 0.0:
        largest = int(np.argmax(signed * np.sign(excess)))
        taken = math.copysign(min(abs(excess), abs(float(signed[largest]))), excess)
        signed[largest] -= taken
        excess -= taken
    return signed
