"""What every encoder of a column offers, and how its features are called."""

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
    """One feature in the client's own words."""

    name: str
    column: str
    level: str | None = None
    word: str | None = None
    unit: str = "1"
    """What a weight of it is paid for: one unit of the column, or the presence of something."""


class Counts(NamedTuple):
    """How often each term occurs in some texts, as CSR; the columns of a row ascend."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: Floats


CountTerms = Callable[[Any, Any], Iterable[Counts]]
"""(the encoder of a text column, texts) > counts of consecutive blocks of the texts."""


class Encoder(Protocol):
    """Turns the values of one column into features in raw units, learnt from the training rows."""

    @property
    def column(self) -> int:
        """Which of the pipeline's columns it reads."""

    @property
    def kind(self) -> Kind:
        """What the values are taken for."""

    @property
    def stored(self) -> Kind:
        """How they were read for training."""

    @property
    def refuses_missing(self) -> bool: ...

    @property
    def width(self) -> int: ...

    def encode(self, values: Any, name: str, count: CountTerms) -> sp.csr_array: ...

    def solver_units(self) -> tuple[Floats, Floats]:
        """(shift, scale) of each feature: the solver saw (raw - shift) / scale."""

    def feature(self, number: int, name: str) -> Feature: ...

    def summary(self) -> dict[str, Any]:
        """What was learnt, for the model's card."""


def csr(data: Floats, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """A matrix with 32 bits a column number, if that will do: scipy would widen them to match wider starts."""
    width = np.int32 if len(data) <= np.iinfo(np.int32).max else np.int64
    return sp.csr_array((data, indices.astype(width, copy=False), indptr.astype(width, copy=False)), shape=shape)


def one_entry_a_row(columns: Array, width: int) -> sp.csr_array:
    """A matrix with a 1 in the given column of each row; -1: an empty row."""
    used = columns >= 0
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(used)])
    return csr(np.ones(int(indptr[-1])), columns[used], indptr, (len(columns), width))


def is_sparse(matrix: Any) -> bool:
    """As scipy says it, but without the type checker believing less of the matrix than is known."""
    return bool(sp.issparse(matrix))


def row_sums(matrix: Any) -> Floats:
    """Entry after entry, so that the sum of a row is the same among any other rows."""
    sums: Floats = np.asarray(matrix @ np.ones(matrix.shape[1]))
    return sums


def untouched(width: int) -> tuple[Floats, Floats]:
    return np.zeros(width), np.ones(width)


def side_by_side(blocks: list[Any], n_rows: int) -> sp.csr_array:
    """CSR blocks as one CSR matrix; entries that are stored zeros stay."""
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
