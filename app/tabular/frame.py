"""Rows before preprocessing: numbers, category codes and texts. Imports neither web nor database.

`X` has a column for every feature of any kind, and NaN for missing values:

    numeric, boolean   the number; 0 or 1
    date               seconds since 1970-01-01 UTC
    categorical        the number of its level in `Column.levels`
    text               its length in characters; the text itself is in `texts`
"""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from app.tabular.cell_format import PLAIN, CellFormat
from app.tabular.types import Array

LET_GO_BYTES = 2 << 20
"""Bytes of mapped rows per call that releases their pages. Larger: fewer system calls, more memory. Set by hand; no
measurement is recorded."""

Kind = Literal["numeric", "boolean", "date", "categorical", "text"]


@dataclass(frozen=True)
class Strings:
    """UTF-8 texts in one buffer: text i is `bytes[starts[i]:ends[i]]`. Selecting rows copies no text."""

    bytes: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Strings":
        encoded = [text.encode() for text in texts]
        ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
        starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1]])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), starts, ends)

    @classmethod
    def stored(cls, text_bytes: Array, offsets: Array) -> "Strings":
        """Build from the arrays on disk. `offsets` has one more entry than there are texts."""
        return cls(text_bytes, offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> str:
        return self.bytes[self.starts[number] : self.ends[number]].tobytes().decode()

    def take(self, rows: Array | slice) -> "Strings":
        return Strings(self.bytes, self.starts[rows], self.ends[rows])

    def to_list(self) -> list[str]:
        return [self[number] for number in range(len(self))]


@dataclass(frozen=True)
class Column:
    """A feature of the uploaded file."""

    name: str
    kind: Kind = "numeric"
    levels: Strings | None = None
    """Values of a categorical column, by code; None for other columns."""
    format: CellFormat = PLAIN
    """How numbers and dates are written in the file."""


@dataclass(frozen=True)
class Frame:
    """Rows of features. Without `columns` all features are numeric and have no names (libsvm, npz)."""

    X: Any
    """Dense (n_rows x n_features), or CSR if all columns are numeric."""
    columns: Sequence[Column] = ()
    texts: Mapping[int, Strings] = field(default_factory=dict)
    """Texts of each text column, by feature number. A missing text is empty here and NaN in `X`."""

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def is_empty(self, column: int) -> bool:
        """Return whether the column has no value in any row."""
        return bool(np.isnan(self.X[:, column]).all())

    def rows(self, chosen: Array | slice) -> "Frame":
        return Frame(self.X[chosen], self.columns, {j: texts.take(chosen) for j, texts in self.texts.items()})


class Beside:
    """Two dense tables side by side, joined only for the rows or the column that are read."""

    def __init__(self, left: Array, right: Array) -> None:
        self._left, self._right = left, right
        self.shape = left.shape[0], left.shape[1] + right.shape[1]
        self.size = self.shape[0] * self.shape[1]

    def __getitem__(self, chosen: Any) -> Array:
        """Return rows, or one or several columns as `[rows, columns]`."""
        if not isinstance(chosen, tuple):
            return np.column_stack([self._left[chosen], self._right[chosen]])
        rows, columns = chosen
        width = self._left.shape[1]
        if np.ndim(columns) == 0:
            return self._left[rows, columns] if columns < width else self._right[rows, columns - width]
        parts = [self._left[rows, j] if j < width else self._right[rows, j - width] for j in columns.tolist()]
        return np.column_stack(parts)


def blocks_of(X: Array, rows: int) -> Iterator[tuple[int, Array]]:
    """Yield blocks of a dense table, each with the number of its first row. The pages of mapped rows are released after
    each block."""
    plain, behind = np.asarray(X), 0  # slicing a memory-mapped array costs more than slicing a plain one
    for start in range(0, X.shape[0], rows):
        yield start, plain[start : start + rows]
        if (start - behind) * X.strides[0] >= LET_GO_BYTES:
            let_go(X[behind:start])
            behind = start
    let_go(X[behind:])


def let_go(rows: Any) -> None:
    """Release the memory pages of mapped rows. They are loaded again if the rows are read again."""
    mapped = getattr(rows, "_mmap", None)  # numpy's attribute; plain arrays and copies do not have it
    if mapped is not None and rows.flags.c_contiguous:
        first = rows.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
        first, past = (place // mmap.PAGESIZE * mmap.PAGESIZE for place in (first, first + rows.nbytes))
        if first < past:
            mapped.madvise(mmap.MADV_DONTNEED, first, past - first)
