"""Rows in several parts, for example memory-mapped files, that are read one part after the other.

Products over all rows work as on one table. Methods that access single rows, or have their own kernels for a pass, need
X as one array. Methods that take blocks set `Method.reads_in_passes`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from solvers.data.rows import Rows, as_rows
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array, Floats

__all__ = ["RowBlocks"]


class RowBlocks(Rows):
    """Parts of one table, in the order of their rows."""

    def __init__(self, parts: Sequence[Any]) -> None:
        """Make views of the parts, each of any type that `as_rows` accepts. All parts must have the same number of
        columns."""
        if not parts:
            raise InvalidProblem("X", "has no parts; at least one block of rows is needed")
        self.blocks = [as_rows(part) for part in parts]
        widths = sorted({part.n_features for part in self.blocks})
        if len(widths) > 1:
            raise InvalidProblem("X", f"has parts of {' and '.join(map(str, widths))} columns; they must be equal")
        self.n_rows = sum(part.n_rows for part in self.blocks)
        self.n_features = widths[0]
        self.stored_entries = sum(part.stored_entries for part in self.blocks)
        self.sparse = all(part.sparse for part in self.blocks)

    def flat(self) -> FlatRows:
        raise UnsupportedProblem(
            "X", "comes in blocks of rows, but this operation needs one array; pass X as one table"
        )

    def margins(self, w: Floats, out: Floats) -> None:
        for part, rows in self._placed():
            part.margins(w, out[rows])

    def add_weighted_column_sums(self, v: Floats, out: Floats) -> None:
        for part, rows in self._placed():
            part.add_weighted_column_sums(v[rows], out)

    def margins_and_column_sums(self, w: Floats, v: Floats, margins: Floats, sums: Floats) -> None:
        for part, rows in self._placed():
            part.margins_and_column_sums(w, v[rows], margins[rows], sums)

    def compensated_margins(self, w: Floats, high: Floats, low: Floats, size: Floats) -> None:
        for part, rows in self._placed():
            part.compensated_margins(w, high[rows], low[rows], size[rows])

    def add_compensated_column_sums(self, v: Floats, high: Floats, low: Floats, size: Floats) -> None:
        for part, rows in self._placed():
            part.add_compensated_column_sums(v[rows], high, low, size)

    @property
    def longest_row(self) -> int:
        return max(part.longest_row for part in self.blocks)

    def lengths(self) -> Floats:
        return np.concatenate([part.lengths() for part in self.blocks])

    def taken(self, rows: Array) -> Rows:
        raise UnsupportedProblem("X", "comes in blocks of rows, which are only read in order; pass X as one table")

    def squared_norms(self) -> Floats:
        return np.concatenate([part.squared_norms() for part in self.blocks])

    def class_scores(self, W: Floats, constant: float, out: Floats) -> None:
        for part, rows in self._placed():
            part.class_scores(W, constant, out[rows])

    def add_pair_sums(self, v: Floats, plus: Array, minus: Array, constant: float, out: Floats) -> None:
        for part, rows in self._placed():
            part.add_pair_sums(v[rows], plus[rows], minus[rows], constant, out)

    def mean_squared_norm(self) -> float:
        return sum(block.mean_squared_norm() * block.n_rows for block in self.blocks) / self.n_rows

    def add_gram(self, v: Floats, constant: float, out: Floats) -> None:
        for part, rows in self._placed():
            part.add_gram(v[rows], constant, out)

    def _first_nonfinite(self) -> tuple[int, int]:
        return -1, -1  # the constructor has checked each part

    def _placed(self) -> Iterator[tuple[Rows, slice]]:
        first = 0
        for part in self.blocks:
            yield part, slice(first, first + part.n_rows)
            first += part.n_rows
