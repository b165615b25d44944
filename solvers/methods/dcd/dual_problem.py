"""The dual of a binary problem for kernels: its constants, its variables, its value, and a row's term of the gap.

All kernels of this family use the same symbols: y, a, U, C and D are y_i, alpha_i, the upper bound of alpha_i, C_i, and
the diagonal D_ii = 1 / (2 C_i) of squared hinge (0 for hinge). g is the gradient y_i f(x_i) - 1 + D_ii alpha_i, b is
the intercept, and S = sum_i alpha_i y_i.
"""

from typing import NamedTuple

from numba import njit

from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array

__all__ = ["DualPoint", "DualTerms", "dual_value", "gap_term"]

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


class DualTerms(NamedTuple):
    """Constants of a run."""

    rows: FlatRows
    constants: Array
    """y_i, C_i, D_ii and |x_i|^2 + D_ii of each row, in adjacent memory: reading a random row costs one cache miss."""
    bias_feature: float
    """The constant feature of a regularised bias; 0 if there is no bias."""


class DualPoint(NamedTuple):
    """The variables that a step changes."""

    alpha: Array
    w: Array
    """sum_i alpha_i y_i x_i; the last entry is bias_feature * S."""
    balance: Array
    """[b, S]; see proximal_bias.py."""


@njit(cache=True, nogil=True, fastmath=_SUM)
def dual_value(alpha: Array, constants: Array, w: Array) -> float:
    """Return the dual objective sum_i (alpha_i - 1/2 D_ii alpha_i^2) - 1/2 |w|^2."""
    total = 0.0
    for i in range(alpha.size):
        total += alpha[i] * (1.0 - 0.5 * constants[i, 2] * alpha[i])
    for j in range(w.size):
        total -= 0.5 * w[j] * w[j]
    return total


@njit(cache=True, nogil=True)
def gap_term(margin: float, g: float, a: float, C: float, D: float) -> float:
    """Return a row's term of the duality gap, C xi^p + conj(alpha) - alpha (1 - margin), as a sum of terms >= 0."""
    if D > 0.0:
        return g * g * C if margin < 1.0 else a * (0.5 * D * a + margin - 1.0)
    return (C - a) * (1.0 - margin) if margin < 1.0 else a * (margin - 1.0)
