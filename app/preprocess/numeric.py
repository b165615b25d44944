"""Encodes numeric columns: fills missing values and learns scales. The scales are multiplied into the weights of the
model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from app.preprocess.column_figures import TINY, Figures, rows_at_once
from app.preprocess.features import MISSING, Feature, is_sparse, untouched
from app.tabular.frame import blocks_of
from app.tabular.types import Array, Floats

Flags = npt.NDArray[np.bool_]

WELL_SCALED = 10.0
"""Largest ratio of the columns' maxima, and largest maximum, at which `auto` does not scale. Larger: `auto` scales less
often. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Numbers:
    """Encodes all numeric and boolean columns. The feature of a column's value can be followed by its missing-value
    indicator."""

    columns: npt.NDArray[np.int64]
    """Numbers of the columns, ascending."""
    boolean: Flags
    refuses_missing: Flags
    indicates: Flags
    fill: Floats
    shift: Floats
    scale: Floats

    @property
    def width(self) -> int:
        return len(self.columns) + int(self.indicates.sum())

    @cached_property
    def columns_of_features(self) -> npt.NDArray[np.int64]:
        """Return the column of each feature. A column has a feature for its value and, if requested, one that indicates
        a missing value."""
        return np.repeat(self.columns, 1 + self.indicates)

    @cached_property
    def _places(self) -> npt.NDArray[np.int64]:
        """Return the position of each column's value among the features. Its missing-value indicator, if any, comes
        next."""
        return np.arange(len(self.columns)) + np.cumsum(self.indicates) - self.indicates

    def encode(self, X: Any) -> Any:
        """Convert a table of exactly these columns to features. Returns the table itself if nothing changes."""
        if is_sparse(X):
            return self._encode_sparse(X) if self.indicates.any() or np.isnan(X.data).any() else X
        if _without_missing(X) and not self.indicates.any():
            return X
        n_rows, n = X.shape
        out = np.empty((n_rows, self.width))
        rows = rows_at_once(n)
        for start in range(0, n_rows, rows):
            block, target = X[start : start + rows], out[start : start + rows]
            absent = np.isnan(block)
            target[:, self._places] = np.where(absent, self.fill, block)
            target[:, self._places[self.indicates] + 1] = absent[:, self.indicates]
        return out

    def _encode_sparse(self, X: Any) -> sp.csr_array:
        """Encode CSR rows. Entries that are not stored are zeros, not missing values. Missing values that the model
        refuses stay NaN."""
        absent = np.isnan(X.data)
        fill = np.where(self.refuses_missing, np.nan, self.fill)
        told = absent & self.indicates[X.indices]
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        places = self._places[X.indices]
        values = np.concatenate([np.where(absent, fill[X.indices], X.data), np.ones(told.sum())])
        cells = np.concatenate([rows, rows[told]]), np.concatenate([places, places[told] + 1])
        features = sp.csr_array((values, cells), shape=(X.shape[0], self.width))
        features.sort_indices()
        return features

    def solver_units(self) -> tuple[Floats, Floats]:
        shift, scale = untouched(self.width)
        shift[self._places], scale[self._places] = self.shift, self.scale
        return shift, scale

    def feature(self, number: int, name: str) -> Feature:
        place = int(np.searchsorted(self._places, number, side="right")) - 1
        if number > self._places[place]:
            return Feature(f"{name}={MISSING}", name, unit="level")
        return Feature(name, name, unit="true" if self.boolean[place] else "1")


def choose_scale(figures: Figures, sparse: bool) -> tuple[str, str]:
    """Return the scaling that `auto` chooses for columns with these statistics, and the reason."""
    reason = disparity(figures, sparse)
    if reason is None:
        return "none", "the columns have comparable scales"
    return ("maxabs", f"{reason}; zeros stay zeros") if sparse else ("standard", reason)


def disparity(figures: Figures, sparse: bool) -> str | None:
    """Describe scales that differ so much that training would be slow, or return None if they do not."""
    sizes = figures.largest[figures.std > 0]
    if not len(sizes):
        return None
    low, high = float(sizes.min()), float(sizes.max())
    # small values of normalized sparse rows are intended, because they are weights of terms
    if high > WELL_SCALED * low and not (sparse and high <= 1.0):
        return f"the largest values of the columns range from {low:.3g} to {high:.3g}"
    return f"values are as large as {high:.3g}" if high > WELL_SCALED else None


def units(scale: str, figures: Figures, sparse: bool) -> tuple[Floats, Floats]:
    """Return the shift and the scale of each column. Constant columns are only shifted. Sparse columns are not
    shifted."""
    width = len(figures.mean)
    shift, divisor = np.zeros(width), np.ones(width)
    if scale == "standard":
        shift, divisor = figures.mean, figures.std
    elif scale == "minmax":
        shift, divisor = figures.low, figures.high - figures.low
    elif scale == "maxabs":
        divisor = figures.largest
    divisor = np.where((divisor < TINY) | ~np.isfinite(divisor), 1.0, divisor)
    return np.zeros(width) if sparse else shift, divisor


def _without_missing(X: Array) -> bool:
    if X.dtype.kind != "f":
        return True
    return not any(np.isnan(block).any() for _, block in blocks_of(X, rows_at_once(X.shape[1])))
