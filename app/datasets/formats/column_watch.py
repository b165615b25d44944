"""Watches the numbers of features block by block, to find columns that number the rows and identifiers."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from app.tabular.types import Array

__all__ = ["ColumnWatch", "is_identifier_name", "is_index_name"]

HEAD_ROWS = 64
"""Rows of a block that are checked first. Most columns fail there, so that the other rows need no check. Larger: more
time for columns that fail. Set by hand; no measurement is recorded."""
MAX_IDS = 1 << 22
"""Maximum number of values that are collected to find identifiers among columns with such a name. Larger: identifiers
of longer files are found, with 8 bytes of memory per value."""
IDENTIFIER = re.compile(r"(?:^|.*[_. -])(?:id|uuid|guid|rowid|row_id|index)$", re.IGNORECASE)

Numbers = npt.NDArray[np.int64]


def is_identifier_name(name: str) -> bool:
    """Return whether a name says that the column has identifiers, such as `id` or `customer_id`."""
    return len(name) <= 100 and (IDENTIFIER.fullmatch(name) is not None or bool(re.search(r"[a-z]I[dD]$", name)))


def is_index_name(name: str) -> bool:
    """Return whether a name is that of an index without a name, as pandas writes it."""
    return re.fullmatch(r"Unnamed: [0-9]{1,6}(_level_[0-9])?", name) is not None


class ColumnWatch:
    """Columns that have numbered the rows so far, and the values of columns that are named as identifiers."""

    def __init__(self, id_columns: Sequence[int] = ()) -> None:
        self._id_columns = id_columns
        self._first: Array | None = None
        self._sequence: Numbers = np.zeros(0, dtype=np.int64)
        self._n_rows = 0
        self._ids: dict[int, list[Array]] = {j: [] for j in id_columns}

    def add(self, X: Array) -> None:
        if not len(X):
            return
        if self._first is None:
            self._first = X[0].astype(np.float64)
            self._sequence = np.flatnonzero(np.isfinite(self._first))
        for rows in (X[:HEAD_ROWS], X[HEAD_ROWS:]):
            if len(rows) and len(self._sequence):
                steps = self._n_rows + np.arange(len(rows), dtype=np.float64)
                expected = self._first[self._sequence] + steps[:, None]
                self._sequence = self._sequence[(rows[:, self._sequence] == expected).all(axis=0)]
            self._n_rows += len(rows)
        for j, blocks in list(self._ids.items()):
            if self._n_rows * len(self._ids) > MAX_IDS:
                del self._ids[j]
            else:
                blocks.append(X[:, j].astype(np.float64))

    @property
    def sequence(self) -> set[int]:
        """Return the columns whose values are consecutive integers in the order of the rows."""
        first = self._first
        if first is None or self._n_rows < 2:
            return set()
        return {j for j in self._sequence.tolist() if float(first[j]).is_integer()}

    def starts(self, column: int) -> bool:
        """Return whether the first value of a column is 0 or 1."""
        return self._first is not None and float(self._first[column]) in (0.0, 1.0)

    @property
    def identifiers(self) -> set[int]:
        """Return the columns that are named as identifiers and have a different integer in every row."""
        found = set()
        for j, blocks in self._ids.items():
            values = np.concatenate(blocks) if blocks else np.zeros(0)
            whole = bool(np.isfinite(values).all()) and bool((values == np.trunc(values)).all())
            if whole and len(values) > 1 and len(np.unique(values)) == len(values):
                found.add(j)
        return found
