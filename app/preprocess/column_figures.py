"""Statistics of the numeric columns of the training rows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.tabular.types import Floats

BLOCK_CELLS = 1 << 15
"""Cells that are processed together. Temporary arrays of this size stay in the processor's cache. Larger: cache
misses."""
TINY = 1e-150
"""Smallest standard deviation that counts as nonzero: dividing by less could overflow the weights."""

SINGLE_FROM_TOL, SINGLE_FROM_BYTES = 1e-5, 64 << 20
LARGEST_SINGLE = 1e30
"""Largest absolute value that is stored in single precision. No code squares it in single precision, which would
overflow."""
FAR_FROM_ZERO = 100.0
"""Distance of the mean from zero, in standard deviations, beyond which single precision is too coarse."""


@dataclass(frozen=True)
class Figures:
    """Statistics per column over the present values (0 if there are none). Values that CSR rows omit are zeros."""

    missing: npt.NDArray[np.int64]
    first_missing: npt.NDArray[np.int64]
    """First row without a value; -1: none."""
    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    """Standard deviation of the population; 0 for columns that are constant up to rounding."""

    @property
    def largest(self) -> Floats:
        """Return the largest absolute value of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def fit_single(self, shift: Floats, scale: Floats) -> bool:
        """Whether the shifted and scaled columns can be rounded to single precision without harm."""
        with np.errstate(over="ignore"):
            near = np.abs(self.mean - shift) <= FAR_FROM_ZERO * self.std
            small = np.maximum(np.abs(self.low - shift), np.abs(self.high - shift)) < LARGEST_SINGLE * scale
        return not self.missing.any() and bool(((near | (self.std == 0)) & small).all())


def rows_in_single(n_rows: int, width: int, tol: float) -> bool:
    """Whether to store this many scaled numbers in single precision, for a training to this tolerance.

    Rounding usually changes the objective by about 1e-10 of its value, and hardly ever by 1e-6. Small tables stay in
    double precision, because they would save little memory.
    """
    return tol >= SINGLE_FROM_TOL and 8 * n_rows * width >= SINGLE_FROM_BYTES


def rows_at_once(width: int) -> int:
    return max(1, BLOCK_CELLS // max(1, width))
