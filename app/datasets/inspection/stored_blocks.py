"""Reads a stored matrix in blocks of rows, so that computations over it need bounded memory.

Imports neither web nor database modules, because it runs in the child processes of parser_pool.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.storage import BlobStore
from app.tabular.frame import Strings
from app.tabular.types import Array, Floats

BLOCK_ENTRIES = 1 << 21
"""Numbers per block of a dense matrix, 8 bytes each. Larger: fewer blocks, more memory. Set by hand; no measurement is
recorded."""
MOST_BLOCK_ENTRIES = 1 << 23
"""Maximum entries per block of a sparse matrix with many columns. An entry takes 24 bytes, and 24 more while it is
used. Larger: fewer sums over all columns, more memory. Set by hand; no measurement is recorded."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ArrayFiles:
    """The array files of a dataset, as plain data that can be sent to a child process."""

    blob_root: Path
    arrays: dict[str, str]  # array name to SHA-256
    n_rows: int
    n_features: int

    @property
    def sparse(self) -> bool:
        return "indptr" in self.arrays

    def map(self, name: str) -> Array | None:
        sha256 = self.arrays.get(name)
        return None if sha256 is None else BlobStore(self.blob_root, create=False).map_array(sha256)

    def strings(self, name: str) -> Strings | None:
        """Return the category names (`levels.J`) or the texts (`text.J`) of feature J, or None if it has none."""
        if f"{name}.offsets" not in self.arrays:
            return None
        blobs = BlobStore(self.blob_root, create=False)
        read = blobs.load_array if name.startswith("levels.") else blobs.map_array
        return Strings.stored(*(read(self.arrays[f"{name}.{part}"]) for part in ("bytes", "offsets")))


@dataclass(frozen=True)
class DenseBlock:
    """Consecutive rows of a dense matrix, as float64."""

    rows: slice
    values: Floats


@dataclass(frozen=True)
class SparseBlock:
    """The nonzero entries of consecutive rows: their values, columns and row numbers. Row numbers count within the
    block."""

    rows: slice
    values: Floats
    columns: Integers
    row_numbers: Integers


@dataclass(frozen=True)
class Places:
    """The position of each column in arrays that have one element per column.

    If a sparse matrix has more columns than entries, only columns with an entry have a position. The cost then depends
    on the number of entries and not on the largest column number.
    """

    numbers: Integers
    """Numbers of the columns that have a position, ascending."""
    every: bool
    """Whether all columns have a position."""

    @classmethod
    def of(cls, files: ArrayFiles) -> "Places":
        if not files.sparse or files.n_features <= max(BLOCK_ENTRIES, _stored_entries(files)):
            return cls(np.arange(files.n_features), every=True)
        found = np.empty(0, dtype=np.int64)
        for block in sparse_blocks(files):
            found = np.union1d(found, block.columns)
        return cls(found, every=False)

    @property
    def count(self) -> int:
        return len(self.numbers)

    def of_columns(self, columns: Integers) -> Integers:
        """Return the positions of these columns, each of which must have one."""
        return columns if self.every else np.searchsorted(self.numbers, columns)


def _stored_entries(files: ArrayFiles) -> int:
    indptr = files.map("indptr")
    assert indptr is not None
    return int(indptr[-1])


def dense_blocks(files: ArrayFiles) -> Iterator[DenseBlock]:
    X = files.map("X")
    assert X is not None
    height = max(1, BLOCK_ENTRIES // max(1, files.n_features))
    for first in range(0, files.n_rows, height):
        rows = slice(first, min(first + height, files.n_rows))
        yield DenseBlock(rows, np.asarray(X[rows], dtype=np.float64))


def sparse_blocks(files: ArrayFiles) -> Iterator[SparseBlock]:
    """Yield the nonzero entries of a CSR matrix in blocks of rows. Explicit zeros are dropped."""
    data, indices, indptr = (files.map(name) for name in ("data", "indices", "indptr"))
    assert data is not None
    assert indices is not None
    assert indptr is not None
    # each block costs a sum over all columns, so a block should not have far fewer entries than columns
    size = max(BLOCK_ENTRIES, min(files.n_features, MOST_BLOCK_ENTRIES))
    first = 0
    while first < files.n_rows:
        past = int(np.searchsorted(indptr, indptr[first] + size, side="right")) - 1
        rows = slice(first, min(max(past, first + 1), files.n_rows))
        yield sparse_rows(data, indices, indptr, rows)
        first = rows.stop


def sparse_rows(data: Array, indices: Array, indptr: Array, rows: slice) -> SparseBlock:
    pointers = np.asarray(indptr[rows.start : rows.stop + 1], dtype=np.int64)
    entries = slice(int(pointers[0]), int(pointers[-1]))
    values = np.asarray(data[entries], dtype=np.float64)
    columns = np.asarray(indices[entries], dtype=np.int64)
    row_numbers = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    stored = values != 0
    if not stored.all():
        values, columns, row_numbers = values[stored], columns[stored], row_numbers[stored]
    return SparseBlock(rows, values, columns, row_numbers)
