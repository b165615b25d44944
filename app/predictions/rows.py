"""What every body becomes, whatever its format: rows of numbers, or values by name, and how to name a place in them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from app.errors import ErrorItem, Invalid, PayloadTooLarge, invalid_field
from app.models.linear import Matrix
from app.tabular.types import Array

MAX_ROWS = 1_000_000
"""Rows of one request. Larger: a request can hold a thread and its memory longer. The answer has an object a row."""


@dataclass(frozen=True)
class Places:
    """How a refusal names a row: `instances[3]`, or the line of a text."""

    name: str = "instances"
    line_of: Callable[[int], int] | None = None
    numbers: Sequence[int] | None = None
    """Of rows that are a part of the batch: which ones."""

    def refuse(self, row: int, code: str, detail: str, column: int | str | None = None) -> Invalid:
        """`column` is a position from 0, or a name of the model's own."""
        number = row if self.numbers is None else self.numbers[row]
        if self.line_of is not None:
            line = self.line_of(number)
            place = f"line {line}"
            if column is not None:
                place += f", column {column + 1}" if isinstance(column, int) else f", column {column!r}"
            position = column + 1 if isinstance(column, int) else None
            field = column if isinstance(column, str) else None
            item = ErrorItem(field=field, line=line, column=position, code=code, detail=detail)
            return Invalid(f"{place}: {detail}", code=code, errors=[item])
        suffix = "" if column is None else f"[{column}]" if isinstance(column, int) else f".{column}"
        return invalid_field(f"{self.name}[{number}]{suffix}", code, detail)


INSTANCES = Places()


class MatrixRows(NamedTuple):
    """Numbers only, one a feature. NaN: missing."""

    matrix: Matrix
    places: Places = INSTANCES


class ListRows(NamedTuple):
    """Values of any type, in the order of the columns."""

    rows: Sequence[Sequence[Any]]
    places: Places = INSTANCES


class NamedRows(NamedTuple):
    """Each row says the names of its values."""

    rows: Sequence[Mapping[str, Any]]
    places: Places = INSTANCES


class Columns(NamedTuple):
    """All rows have the same names. Values are None (or NaN) where they are missing.

    A column that is None has no value in any row, or is none of the model's.
    """

    columns: Mapping[str, Sequence[Any] | None]
    n_rows: int
    places: Places = INSTANCES


class MixedRows(NamedTuple):
    """Parts of several kinds; the places of each say which rows it has."""

    parts: Sequence["MatrixRows | ListRows | NamedRows"]


Rows = MatrixRows | ListRows | NamedRows | Columns | MixedRows


def check_count(n_rows: int, field: str) -> None:
    """A batch has rows, and not more than can be answered at once."""
    if n_rows == 0:
        raise invalid_field(field, "empty", "give at least one row")
    if n_rows > MAX_ROWS:
        raise PayloadTooLarge(f"A request may have {MAX_ROWS} rows; this one has {n_rows}. Use a batch job.")


def check_bytes(needed: int, most: int) -> None:
    """Raise if numbers would take more bytes than the rows of one request may."""
    if needed > most:
        raise PayloadTooLarge(
            f"The rows would take {needed} bytes as numbers; the limit is {most} (HYPERPLANE_MAX_PREDICT_BYTES). "
            "Send fewer rows a request, or use a batch job."
        )


def check_width(n_values: int, width: int, row: int, places: Places) -> None:
    if n_values != width:
        detail = f"has {n_values} values, the model has {width} features"
        raise places.refuse(row, "wrong_width", detail)


def duplicate_column(names: Sequence[str]) -> Invalid:
    """Say which of the names is there more than once; at least one must be."""
    twice = next(name for name, count in Counter(names).items() if count > 1)
    return invalid_field("body", "duplicate_column", f"the column {twice[:64]!r} is there twice")


def csr_of(values: Array, indices: Array, starts: Array, width: int, places: Places, base: int = 0) -> Matrix:
    """The matrix of sparse rows, indices in ascending order. Raises Invalid for one that is unknown or there twice.

    `base` is what the client counts the first feature as.
    """
    outside = (indices < 0) | (indices >= width)
    if outside.any():
        row = int(np.searchsorted(starts, np.argmax(outside), side="right")) - 1
        raise places.refuse(row, "unknown_feature", f"indices must be from {base} to {width - 1 + base}")
    matrix = sp.csr_array((values, indices, starts), shape=(len(starts) - 1, width))
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    repeated = np.diff(matrix.indices) == 0
    repeated[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(indices))] - 1] = False  # across two rows
    if repeated.any():
        row = int(np.searchsorted(starts, np.argmax(repeated), side="right")) - 1
        raise places.refuse(row, "duplicate_feature", "an index is given twice")
    return matrix
