"""What the training rows say about each numeric column."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.tabular.types import Floats

BLOCK_CELLS = 1 << 15
"""Looked at together: what is made of them on the way stays in the processor's cache."""
TINY = 1e-150
"""A spread below it is none: to divide by it could overflow the weights."""

SINGLE_FROM_TOL, SINGLE_FROM_BYTES = 1e-5, 64 << 20
LARGEST_SINGLE = 1e30  # its square is no number in single precision, but nobody squares there
FAR_FROM_ZERO = 100.0
"""In deviations. Numbers farther away differ by less than single precision tells well."""


@dataclass(frozen=True)
class Figures:
    """One entry a column, of the values that are present (0 if none is). What CSR rows do not store is a zero."""

    missing: npt.NDArray[np.int64]
    first_missing: npt.NDArray[np.int64]
    """The first row without a value; -1: none."""
    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    """Of the population; 0 for columns that are constant up to rounding."""

    @property
    def largest(self) -> Floats:
        """The largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def fit_single(self, shift: Floats, scale: Floats) -> bool:
        """Whether the columns, moved and divided by these, can be rounded to single precision without harm."""
        with np.errstate(over="ignore"):
            near = np.abs(self.mean - shift) <= FAR_FROM_ZERO * self.std
            small = np.maximum(np.abs(self.low - shift), np.abs(self.high - shift)) < LARGEST_SINGLE * scale
        return not self.missing.any() and bool(((near | (self.std == 0)) & small).all())


def rows_in_single(n_rows: int, width: int, tol: float) -> bool:
    """Whether so many scaled numbers are kept in single precision, for a training that is to come so near its optimum.

    Rounding changes the objective by about 1e-10 of it and, whatever the rows, hardly by 1e-6. Rows that take little
    memory are not worth it.
    """
    return tol >= SINGLE_FROM_TOL and 8 * n_rows * width >= SINGLE_FROM_BYTES


def rows_at_once(width: int) -> int:
    return max(1, BLOCK_CELLS // max(1, width))
