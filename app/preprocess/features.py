"""The interface of column encoders, and the names of features."""

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
    """What the weight is multiplied by: a unit of the column, or the presence of something."""


class Counts(NamedTuple):
    """Counts of terms in texts, as CSR with ascending columns."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: Floats


CountTerms = Callable[[Any, Any], Iterable[Counts]]
"""Counts the terms of texts: (encoder of a text column, texts) > counts of consecutive blocks of the texts."""


class Encoder(Protocol):
    """Converts the values of a column to features in raw units, as learnt from the training rows."""

    @property
    def column(self) -> int:
        """Number of the column that it reads."""

    @property
    def kind(self) -> Kind:
        """Kind that the values are treated as."""

    @property
    def stored(self) -> Kind:
        """Kind as which the values were stored for training."""

    @property
    def refuses_missing(self) -> bool: ...

    @property
    def width(self) -> int: ...

    def encode(self, values: Any, name: str, count: CountTerms) -> sp.csr_array: ...

    def solver_units(self) -> tuple[Floats, Floats]:
        """Return (shift, scale) of each feature: the solver saw (raw - shift) / scale."""

    def feature(self, number: int, name: str) -> Feature: ...

    def summary(self) -> dict[str, Any]:
        """Return what was learnt, for the model's card."""


def csr(data: Floats, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Build a CSR matrix with 32-bit indices where possible: scipy would widen them to match 64-bit row pointers."""
    width = np.int32 if len(data) <= np.iinfo(np.int32).max else np.int64
    return sp.csr_array((data, indices.astype(width, copy=False), indptr.astype(width, copy=False)), shape=shape)


def one_entry_a_row(columns: Array, width: int) -> sp.csr_array:
    """Build a matrix with a 1 in the given column of each row; -1: an empty row."""
    used = columns >= 0
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(used)])
    return csr(np.ones(int(indptr[-1])), columns[used], indptr, (len(columns), width))


def is_sparse(matrix: Any) -> bool:
    """Like `scipy.sparse.issparse`, without narrowing the type for the type checker."""
    return bool(sp.issparse(matrix))


def row_sums(matrix: Any) -> Floats:
    """Sum rows entry by entry, so that the sum of a row does not depend on other rows."""
    sums: Floats = np.asarray(matrix @ np.ones(matrix.shape[1]))
    return sums


def untouched(width: int) -> tuple[Floats, Floats]:
    return np.zeros(width), np.ones(width)


def side_by_side(blocks: list[Any], n_rows: int) -> sp.csr_array:
    """Join CSR blocks horizontally. Stored zeros are kept."""
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
