"""The interface of column encoders, and functions on matrices of features that they share."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from app.tabular.frame import Kind
from app.tabular.types import Array, Floats

MISSING = "(missing)"
OTHER = "(other)"


class Feature(NamedTuple):
    """The description of a feature for clients."""

    name: str
    column: str
    level: str | None = None
    word: str | None = None
    unit: str = "1"
    """What one unit of the feature means: a unit of the column, or the presence of a category, a term or a missing
    value."""


class Counts(NamedTuple):
    """Counts of terms in texts, as a CSR matrix with ascending column indices."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: Floats


CountTerms = Callable[[Any, Any], Iterable[Counts]]
"""A function that counts the terms of texts. Takes the encoder of a text column and the texts; yields the counts of
consecutive blocks of texts."""


class Encoder(Protocol):
    """Converts the values of a column to features in raw units, by rules that were learnt from the training rows."""

    @property
    def column(self) -> int:
        """Return the number of the column that the encoder reads."""

    @property
    def kind(self) -> Kind:
        """Return the kind as which the encoder treats the values."""

    @property
    def stored(self) -> Kind:
        """Return the kind of the column in the training dataset."""

    @property
    def refuses_missing(self) -> bool: ...

    @property
    def width(self) -> int: ...

    def encode(self, values: Any, name: str, count: CountTerms) -> sp.csr_array: ...

    def solver_units(self) -> tuple[Floats, Floats]:
        """Return the shift and the scale of each feature. The solver was trained on (raw - shift) / scale."""

    def feature(self, number: int, name: str) -> Feature: ...

    def summary(self) -> dict[str, Any]:
        """Return the learnt rules as fields of the model's card."""


def csr(data: Floats, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Build a CSR matrix with 32-bit indices where possible. By itself, scipy would convert them to the type of 64-bit
    row pointers."""
    width = np.int32 if len(data) <= np.iinfo(np.int32).max else np.int64
    return sp.csr_array((data, indices.astype(width, copy=False), indptr.astype(width, copy=False)), shape=shape)


def one_entry_a_row(columns: Array, width: int) -> sp.csr_array:
    """Build a matrix with a 1 in the given column of each row. The column -1 gives an empty row."""
    used = columns >= 0
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(used)])
    return csr(np.ones(int(indptr[-1])), columns[used], indptr, (len(columns), width))


def is_sparse(matrix: Any) -> bool:
    """Return `scipy.sparse.issparse(matrix)`, without narrowing the type for the type checker."""
    return bool(sp.issparse(matrix))


def row_sums(matrix: Any) -> Floats:
    """Sum each row entry by entry, so that the rounding of a sum does not depend on other rows."""
    sums: Floats = np.asarray(matrix @ np.ones(matrix.shape[1]))
    return sums


def untouched(width: int) -> tuple[Floats, Floats]:
    return np.zeros(width), np.ones(width)


def side_by_side(blocks: list[Any], n_rows: int) -> sp.csr_array:
    """Join CSR blocks horizontally. Explicit zeros are kept."""
    joined: Any = blocks[0] if len(blocks) == 1 else sp.hstack(blocks or [sp.csr_array((n_rows, 0))], format="csr")
    return csr(joined.data, joined.indices, joined.indptr, joined.shape)


__all__ = [
    "MISSING",
    "OTHER",
    "CountTerms",
    "Counts",
    "Encoder",
    "Feature",
    "Floats",
    "csr",
    "is_sparse",
    "one_entry_a_row",
    "row_sums",
    "side_by_side",
    "untouched",
]
