"""Parsed rows, common to all formats: matrices of numbers, lists of values, or values by name; and error places."""

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
"""Maximum rows of a request. Larger: a request can occupy a thread and its memory for longer; the response has an
object for each row. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Places:
    """How error messages refer to a row: `instances[3]`, or a line of a text."""

    name: str = "instances"
    line_of: Callable[[int], int] | None = None
    numbers: Sequence[int] | None = None
    """Numbers of the rows in the whole batch, if these rows are a part of it."""

    def refuse(self, row: int, code: str, detail: str, column: int | str | None = None) -> Invalid:
        """Build the error for a row. `column`: position from 0, or name of a column of the model."""
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
    """A matrix with one number per feature. NaN: missing."""

    matrix: Matrix
    places: Places = INSTANCES


class ListRows(NamedTuple):
    """Rows of values of any type, in the order of the columns."""

    rows: Sequence[Sequence[Any]]
    places: Places = INSTANCES


class NamedRows(NamedTuple):
    """Rows with names for their values."""

    rows: Sequence[Mapping[str, Any]]
    places: Places = INSTANCES


class Columns(NamedTuple):
    """Columns by name. Missing values are None or NaN.

    A column that is None has no value in any row, or is not a column of the model.
    """

    columns: Mapping[str, Sequence[Any] | None]
    n_rows: int
    places: Places = INSTANCES


class MixedRows(NamedTuple):
    """Rows of several kinds, in parts. The places of a part have its row numbers."""

    parts: Sequence["MatrixRows | ListRows | NamedRows"]


Rows = MatrixRows | ListRows | NamedRows | Columns | MixedRows


def check_count(n_rows: int, field: str) -> None:
    """Raise unless a batch has at least one row and at most MAX_ROWS."""
    if n_rows == 0:
        raise invalid_field(field, "empty", "must contain at least one row")
    if n_rows > MAX_ROWS:
        raise PayloadTooLarge(
            f"The request has {n_rows} rows; the limit is {MAX_ROWS}. Send several requests, or use a batch job."
        )


def check_bytes(needed: int, most: int) -> None:
    """Raise if the rows of a request would need more than `most` bytes as numbers."""
    if needed > most:
        raise PayloadTooLarge(
            f"The rows would take {needed} bytes as numbers; the limit is {most} (HYPERPLANE_MAX_PREDICT_BYTES). "
            "Send fewer rows per request, or use a batch job."
        )


def check_width(n_values: int, width: int, row: int, places: Places) -> None:
    if n_values != width:
        detail = f"has {n_values} values; the model has {width} features"
        raise places.refuse(row, "wrong_width", detail)


def duplicate_column(names: Sequence[str]) -> Invalid:
    """Build the error for a name that occurs more than once."""
    twice = next(name for name, count in Counter(names).items() if count > 1)
    return invalid_field("body", "duplicate_column", f"the column {twice[:64]!r} occurs twice")


def csr_of(values: Array, indices: Array, starts: Array, width: int, places: Places, base: int = 0) -> Matrix:
    """Build the matrix of sparse rows, with ascending indices. Raises Invalid for unknown or repeated indices.

    `base`: number of the first feature.
    """
    outside = (indices < 0) | (indices >= width)
    if outside.any():
        row = int(np.searchsorted(starts, np.argmax(outside), side="right")) - 1
        raise places.refuse(row, "unknown_feature", f"indices must be from {base} to {width - 1 + base}")
    matrix = sp.csr_array((values, indices, starts), shape=(len(starts) - 1, width))
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    repeated = np.diff(matrix.indices) == 0
    repeated[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(indices))] - 1] = (
        False  # pairs that belong to two rows
    )
    if repeated.any():
        row = int(np.searchsorted(starts, np.argmax(repeated), side="right")) - 1
        raise places.refuse(row, "duplicate_feature", "contains an index twice")
    return matrix
