"""Statistics of the numeric columns of the training rows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.tabular.types import Floats

BLOCK_CELLS = 1 << 15
"""Cells per block. Larger: fewer calls, and temporary arrays that no longer fit into the processor's cache. Set by
hand; no measurement is recorded."""
TINY = 1e-150
"""Smallest standard deviation that counts as nonzero. Dividing by a smaller one could make the weights overflow.
Larger: more columns count as constant."""

SINGLE_FROM_TOL, SINGLE_FROM_BYTES = 1e-5, 64 << 20
LARGEST_SINGLE = 1e30
"""Largest absolute value that is stored in single precision. Values near the float32 limit of 3e38 must stay in double
precision. No code squares a value in single precision, which would overflow."""
FAR_FROM_ZERO = 100.0
"""Distance of a column's mean from zero, in standard deviations, beyond which the column stays in double precision.
Larger: more columns in single precision, with larger rounding errors. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Figures:
    """Statistics of each column over its values that are not missing; 0 if all are missing. Entries that CSR rows do
    not store count as zeros."""

    missing: npt.NDArray[np.int64]
    first_missing: npt.NDArray[np.int64]
    """First row of each column with a missing value; -1 if no value is missing."""
    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    """Population standard deviation of each column; 0 for a column that is constant up to rounding."""

    @property
    def largest(self) -> Floats:
        """Return the largest absolute value of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def fit_single(self, shift: Floats, scale: Floats) -> bool:
        """Return whether the shifted and scaled columns can be rounded to single precision without affecting the
        model."""
        with np.errstate(over="ignore"):
            near = np.abs(self.mean - shift) <= FAR_FROM_ZERO * self.std
            small = np.maximum(np.abs(self.low - shift), np.abs(self.high - shift)) < LARGEST_SINGLE * scale
        return not self.missing.any() and bool(((near | (self.std == 0)) & small).all())


def rows_in_single(n_rows: int, width: int, tol: float) -> bool:
    """Return whether to store n_rows x width scaled numbers in single precision, for training to the tolerance `tol`.

    Rounding usually changes the objective by about 1e-10 of its value, and hardly ever by 1e-6. Small tables stay in
    double precision, because single precision would save little memory.
    """
    return tol >= SINGLE_FROM_TOL and 8 * n_rows * width >= SINGLE_FROM_BYTES


def rows_at_once(width: int) -> int:
    return max(1, BLOCK_CELLS // max(1, width))
