"""Converts the rows of a request to the features of a model."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import scipy.sparse as sp

from app.errors import Invalid, invalid_field
from app.models import linear
from app.models.linear import Matrix
from app.predictions.rows import (
    Columns,
    ListRows,
    MatrixRows,
    MixedRows,
    NamedRows,
    Places,
    Rows,
    check_bytes,
    check_count,
    check_width,
)
from app.preprocess.norms import row_norms
from app.tabular.types import Array

NUMBERS = "biuf"
"""Numpy's kind codes of boolean, integer and float types."""
NUMBER_BYTES = 8
"""Bytes of a number in float64."""
ENTRY_BYTES = 16
"""Bytes of one stored value of sparse rows: number and index. Each row adds NUMBER_BYTES."""
TERM_SHARE = 4
"""Maximum bytes of the matrix per byte of text: a word with its space has at least 3 bytes, and its entry has 12."""
MOST_BYTES = 256 << 20
"""Default maximum bytes of the rows of a request as numbers; the setting `max_predict_bytes` overrides it. Larger: a
request can use more memory. Set by hand; no measurement is recorded."""


class Prepared(NamedTuple):
    """Rows of features, and warnings for the client."""

    matrix: Matrix
    warnings: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Features:
    """The features that a model without preprocessing expects: all as numbers, in order or by name."""

    width: int
    names: tuple[str, ...]
    """Names of the columns; empty: they have none."""
    column_of: Array | None = None
    """Column of each feature, if a column can have several; None: they are the same."""
    most_bytes: int = MOST_BYTES
    """Maximum bytes of the rows of a request as numbers."""

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @property
    def numeric(self) -> Collection[str]:
        """Columns that contain only plain numbers, and not numbers in a format such as 1.234,5."""
        return self.index_of

    @property
    def texts(self) -> Collection[str]:
        """Columns whose words are features."""
        return ()

    @property
    def row_bytes(self) -> int:
        """Bytes of a row as numbers."""
        return NUMBER_BYTES * self.width

    def admit(self, n_rows: int, field: str, text_bytes: int = 0) -> None:
        """Raise unless a batch has rows and is within the size limit. Every reader calls it before it parses rows.

        `text_bytes`: bytes of text columns, where they can exceed the size of the body.
        """
        check_count(n_rows, field)
        check_bytes(n_rows * self.row_bytes + TERM_SHARE * text_bytes, self.most_bytes)

    def admit_sparse(self, n_rows: int, n_entries: int, field: str) -> None:
        """Like `admit`, for sparse rows."""
        check_count(n_rows, field)
        check_bytes(n_rows * NUMBER_BYTES + n_entries * ENTRY_BYTES, self.most_bytes)

    def check_columns(self, names: Collection[str], places: Places) -> None:
        """Raise unless these are the names of all columns, in any order."""
        self.check_named(places)
        unknown = next((name for name in names if name not in self.index_of), None)
        if unknown is not None:
            raise invalid_field("columns", "unknown_feature", f"the model has no feature {unknown[:64]!r}")
        given = frozenset(names)
        missing = next((name for name in self.names if name not in given), None)
        if missing is not None:
            raise invalid_field("columns", "missing_feature", f"the feature {missing!r} is missing")

    def matrix(self, rows: Rows) -> Prepared:
        """Convert rows to features. Raises Invalid with the place of the error."""
        match rows:
            case MatrixRows():
                check_width(rows.matrix.shape[1], self.width, 0, rows.places)
                return Prepared(rows.matrix)
            case ListRows():
                return Prepared(self.from_lists(rows.rows, rows.places))
            case NamedRows():
                return Prepared(self._from_named(rows))
            case Columns():
                return Prepared(self._from_columns(rows))
            case MixedRows():
                return interleaved([(part.places.numbers or (), self.matrix(part)) for part in rows.parts])

    @property
    def shift(self) -> Array:
        """Return the shift of each feature in the solver's units; empty: none."""
        return _NOTHING

    def norms(self, matrix: Matrix) -> Array:
        """Return the Euclidean norm of each row in the solver's units."""
        return row_norms(matrix)

    def explain_not_finite(self, matrix: Matrix, row: int, places: Places) -> Invalid:
        """Build the error for a row without a finite score: a missing or infinite value, or an overflow."""
        values = matrix[[row]].toarray()[0] if linear.is_sparse(matrix) else matrix[row]
        if np.isfinite(values).all():
            return places.refuse(row, "overflow", "its score is too large to be a number")
        column = int(np.argmin(np.isfinite(values)))
        if np.isnan(values[column]):
            return places.refuse(row, "missing_value", "a value is missing", self.called(column))
        return places.refuse(row, "not_finite", "must be a finite number", self.called(column))

    def from_lists(self, rows: Sequence[Sequence[Any]], places: Places, *, by_name: bool = False) -> Array:
        """Convert rows of plain numbers."""
        for number, row in enumerate(rows):
            check_width(len(row), self.width, number, places)
        try:
            numbers = msgspec.convert(rows, list[list[float]])
            return stacked(numbers, self.width)
        except (msgspec.ValidationError, OverflowError):
            raise self._first_bad_value(rows, places, by_name=by_name) from None

    def _from_named(self, rows: NamedRows) -> Array:
        """Convert named rows. Every row must have all names, so that a misspelt name is an error and not a zero."""
        self.check_named(rows.places)
        try:
            if set(map(len, rows.rows)) == {self.width}:
                values = list(map(itemgetter(*self.names), rows.rows))
                return self.from_lists(values if self.width > 1 else [[v] for v in values], rows.places, by_name=True)
        except KeyError:
            pass
        for number, row in enumerate(rows.rows):
            if unknown := [name for name in row if name not in self.index_of]:
                detail = f"the model has no feature {unknown[0][:64]!r}"
                raise rows.places.refuse(number, "unknown_feature", detail)
            if missing := [name for name in self.names if name not in row]:
                raise rows.places.refuse(number, "missing_feature", f"the feature {missing[0]!r} is missing")
        raise AssertionError("named rows were refused for no reason")

    def _from_columns(self, rows: Columns) -> Array:
        self.check_columns(rows.columns, rows.places)
        matrix = np.empty((rows.n_rows, self.width))
        for number, name in enumerate(self.names):
            values = rows.columns[name]
            if values is None:
                raise rows.places.refuse(0, "missing_value", "a value is missing", name)
            if isinstance(values, np.ndarray) and values.dtype.kind in NUMBERS:
                matrix[:, number] = values
                continue
            try:
                matrix[:, number] = msgspec.convert(list(values), list[float])
            except (msgspec.ValidationError, OverflowError):
                raise _first_bad_cell(values, rows.places, name) from None
        return matrix

    def check_named(self, places: Places) -> None:
        if not self.names:
            detail = "the features of the model have no names; send rows as lists of all features in order"
            raise places.refuse(0, "unnamed_features", detail)

    def _first_bad_value(self, rows: Sequence[Sequence[Any]], places: Places, *, by_name: bool) -> Invalid:
        for number, row in enumerate(rows):
            for position, value in enumerate(row):
                if problem := _complaint(value):
                    return places.refuse(number, *problem, self.called(position) if by_name else position)
        raise AssertionError("a row was refused for no reason")

    def called(self, feature: int) -> int | str:
        """Return the name of a feature for an error message, or its number."""
        return self.names[feature] if self.names else feature

    def feature_name(self, number: int) -> str:
        """Return the name of a feature for an explanation."""
        return self.names[number] if self.names else str(number)


_NOTHING = np.empty(0)


def stacked(rows: Sequence[Sequence[float]], width: int) -> Array:
    """Stack rows of one width to a matrix in one call."""
    numbers = rows[0] if len(rows) == 1 else chain.from_iterable(rows)
    flat = np.fromiter(numbers, dtype=np.float64, count=len(rows) * width)
    return flat.reshape(len(rows), width)


def _first_bad_cell(values: Sequence[Any], places: Places, name: str) -> Invalid:
    for number, value in enumerate(values):
        if problem := _complaint(value):
            return places.refuse(number, *problem, name)
    raise AssertionError("a column was refused for no reason")


def _complaint(value: Any) -> tuple[str, str] | None:
    if value is None:
        return "missing_value", "a value is missing"
    if type(value) not in (int, float) or abs(value) > sys.float_info.max:
        return "not_a_number", "must be a finite number"
    return None


def interleaved(parts: Sequence[tuple[Sequence[int], Prepared]]) -> Prepared:
    """Join the parts in the order of their row numbers."""
    numbers = np.concatenate([numbers for numbers, _ in parts])
    stack = sp.vstack([sp.csr_array(part.matrix) for _, part in parts], format="csr")
    return Prepared(stack[np.argsort(numbers)], [warning for _, part in parts for warning in part.warnings])
