"""What the training rows say about each numeric column."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BLOCK_CELLS = 1 << 15
"""Looked at together: what is made of them on the way stays in the processor's cache."""
TINY = 1e-150
"""A spread below it is none: to divide by it could overflow the weights."""


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


def rows_at_once(width: int) -> int:
    return max(1, BLOCK_CELLS // max(1, width))
