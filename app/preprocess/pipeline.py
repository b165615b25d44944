"""The learnt preprocessing: converts raw rows to features, and describes the features."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from app.preprocess.features import Encoder, Feature, csr, is_sparse, side_by_side
from app.preprocess.inputs import Inputs
from app.preprocess.norms import row_norms
from app.preprocess.numeric import Numbers
from app.preprocess.preprocess_error import PreprocessError, called
from app.preprocess.terms import count_terms
from app.preprocess.values import given_numbers, given_values, missing_rows
from app.tabular.cell_format import PLAIN, CellFormat
from app.tabular.frame import Kind
from app.tabular.types import Array, Floats

Warning = dict[str, str]
MAX_NAMED = 5
"""Maximum number of columns that a message lists. Larger: longer messages. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Pipeline:
    """The learnt preprocessing. Features are in the order of their columns.

    `apply` and `fit.transform` return features in raw units. The solver is trained on scaled features
    (scaling.scaled_rows), and `fold` converts the weights of the solver to raw units.
    """

    names: tuple[str, ...] | None
    """Names of all columns, including ignored ones; None if the columns have no names. Columns without names are all
    numeric."""
    n_columns: int
    ignored: frozenset[int]
    numbers: Numbers
    encoders: tuple[Encoder, ...]
    sparse: bool
    """Whether features are stored as CSR."""
    single: bool = False
    """Whether the solver is trained on features in single precision, which need half the memory; see
    `column_figures.rows_in_single`."""
    formats: Mapping[int, CellFormat] = field(default_factory=dict)
    """How the training file writes the numbers and dates of a column, by column number, if not as 1234.5 and
    2024-05-31."""

    @cached_property
    def n_features(self) -> int:
        return self.numbers.width + sum(encoder.width for encoder in self.encoders)

    @cached_property
    def is_plain(self) -> bool:
        """Return whether the features are the raw columns in order, so that rows of numbers need no encoding."""
        return not self.encoders and self.numbers.width == len(self.numbers.columns) == self.n_columns

    @cached_property
    def inputs(self) -> Inputs:
        kinds: dict[int, Kind] = dict.fromkeys(self.numbers.columns[self.numbers.boolean].tolist(), "boolean")
        kinds |= {encoder.column: encoder.kind for encoder in self.encoders}
        return Inputs(self.names, self.n_columns, self.ignored, kinds)

    def name(self, column: int) -> str:
        return str(column) if self.names is None else self.names[column]

    def apply(self, columns: Mapping[str, Sequence[Any] | None], n_rows: int) -> tuple[Any, list[Warning]]:
        """Convert columns of raw values to features. Returns the features and warnings.

        A column is a sequence of Python values, in which None is missing, or a numpy or Arrow array. Columns that the
        model does not have are ignored. A column that is absent or None is missing in every row. Raises
        PreprocessError.
        """
        warnings = self._unexpected(columns)
        numbers = np.empty((n_rows, len(self.numbers.columns)))
        for place, column in enumerate(self.numbers.columns.tolist()):
            stored: Kind = "boolean" if self.numbers.boolean[place] else "numeric"
            name = self.name(column)
            form = self.formats.get(column, PLAIN)
            numbers[:, place] = given_numbers(columns.get(name), n_rows, name, stored, form)
        self.check_numbers(numbers)
        blocks = []
        for encoder in self.encoders:
            name = self.name(encoder.column)
            form = self.formats.get(encoder.column, PLAIN)
            values = given_values(columns.get(name), n_rows, name, encoder.stored, encoder.kind, form)
            self.check_missing(encoder, values)
            blocks.append(encoder.encode(values, name, count_terms))
        return self.joined(self.numbers.encode(numbers), blocks), warnings

    def joined(self, numbers: Any, blocks: list[sp.csr_array]) -> Any:
        """Join the features of the numeric columns and of each encoder, dense or CSR."""
        if not blocks:
            return numbers
        encoded = iter(blocks)
        parts: list[Any] = []
        for encoder, first, past in self._parts:
            if encoder is not None:
                parts.append(next(encoded) if self.sparse else next(encoded).toarray())
            else:
                parts.append(self._as_csr(numbers, first, past) if self.sparse else numbers[:, first:past])
        return side_by_side(parts, numbers.shape[0]) if self.sparse else np.hstack(parts)

    @cached_property
    def _parts(self) -> list[tuple[Encoder | None, int, int]]:
        """List the parts of a row of features in column order. A part is an encoder, or a range of numeric features as
        (None, first, past)."""
        parts: list[tuple[Encoder | None, int, int]] = []
        first = 0
        for encoder in self.encoders:
            past = int(np.searchsorted(self.numbers.columns_of_features, encoder.column))
            parts += [(None, first, past)] if past > first else []
            parts.append((encoder, 0, encoder.width))
            first = past
        return [*parts, (None, first, self.numbers.width)] if self.numbers.width > first else parts

    def _as_csr(self, numbers: Array, first: int, past: int) -> sp.csr_array:
        """Convert to CSR. Zeros of features that are shifted for the solver are stored, so that every entry can be
        shifted."""
        values = np.asarray(numbers[:, first:past], dtype=np.float64)
        stored = (values != 0) | (self.numbers.solver_units()[0][first:past] != 0)
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(stored.sum(axis=1))])
        indices = np.broadcast_to(np.arange(past - first, dtype=np.int32), values.shape)[stored]
        return csr(values[stored], indices, indptr, (len(values), past - first))

    def check_numbers(self, X: Array) -> None:
        """Raise PreprocessError for missing numbers in columns whose `missing` is `error`."""
        for place in np.flatnonzero(self.numbers.refuses_missing).tolist():
            _refuse_missing(np.isnan(X[:, place]), self.name(int(self.numbers.columns[place])))

    def check_missing(self, encoder: Encoder, values: Any) -> None:
        if encoder.refuses_missing:
            _refuse_missing(missing_rows(values), self.name(encoder.column))

    @cached_property
    def solver_units(self) -> tuple[Floats, Floats]:
        """Return the shift and the scale of each feature. The solver was trained on (feature - shift) / scale."""
        numbers = self.numbers.solver_units()
        shifts, scales = [np.zeros(0)], [np.zeros(0)]
        for encoder, first, past in self._parts:
            shift, scale = numbers if encoder is None else encoder.solver_units()
            shifts.append(shift[first:past])
            scales.append(scale[first:past])
        return np.concatenate(shifts), np.concatenate(scales)

    @np.errstate(over="ignore")
    def solver_norms(self, features: Any) -> Floats:
        """Return the norm of each row in the units of the solver, without the bias feature."""
        shift, scale = self.solver_units
        if not is_sparse(features):
            return row_norms((features - shift) / scale)
        shifted = np.flatnonzero(shift)
        data = np.where(shift[features.indices] == 0, features.data / scale[features.indices], 0.0)
        still = sp.csr_array((data, features.indices, features.indptr), shape=features.shape)
        # a zero is nonzero after the shift, and sparse rows of clients do not store zeros
        moved = (features[:, shifted].toarray() - shift[shifted]) / scale[shifted]
        return np.hypot(row_norms(still), row_norms(moved))

    def fold(self, coef: Floats, intercept: Any) -> tuple[Floats, Any]:
        """Convert the solver's weights to raw units. With several classes, there is one row of weights and one
        intercept per class."""
        shift, scale = self.solver_units
        folded = coef / scale
        return folded, intercept - folded @ shift

    def is_fold_of(self, folded: Floats, folded_intercept: Any, coef: Floats, intercept: Any) -> bool:
        """Return whether `folded` is the result of `fold`, up to rounding by another order of summation on another
        machine."""
        expected, constant = self.fold(coef, intercept)
        shift = np.abs(self.solver_units[0])
        size = np.abs(expected) @ shift + np.abs(constant)
        allowed = 4.0 * (np.count_nonzero(shift) + 2) * 2.0**-53 * size  # rounding error of two sums with these terms
        return np.array_equal(folded, expected) and bool((np.abs(folded_intercept - constant) <= allowed).all())

    def unfold(self, coef: Floats, intercept: Any) -> tuple[Floats, Any]:
        """Convert weights in raw units to the units of the solver."""
        shift, scale = self.solver_units
        return coef * scale, intercept + coef @ shift

    def strength(self, coef: Floats) -> Floats:
        """Return the weights in the solver's units, which are comparable between features."""
        strengths: Floats = coef * self.solver_units[1]
        return strengths

    def feature(self, number: int) -> Feature:
        """Return the description of a feature."""
        name = self.name(int(self.column_of_features[number]))
        for encoder, first, past in self._parts:
            if number < past - first:
                found = self.numbers if encoder is None else encoder
                return found.feature(first + number, name)
            number -= past - first
        raise IndexError(number)

    @cached_property
    def column_of_features(self) -> npt.NDArray[np.int64]:
        """Return the column of each feature, in ascending order."""
        parts = [self.numbers.columns_of_features]
        parts += [np.full(encoder.width, encoder.column, dtype=np.int64) for encoder in self.encoders]
        return np.sort(np.concatenate(parts), kind="stable")

    def _unexpected(self, columns: Collection[str]) -> list[Warning]:
        if self.names is None:
            raise PreprocessError("unnamed_columns", "the columns of the model have no names; send rows as lists")
        known, warnings = self._known_names, []
        if unknown := [name for name in columns if name not in known]:
            warnings.append(
                {
                    "code": "unknown_columns",
                    "detail": f"columns that the model does not have were ignored: {_some(unknown)}",
                }
            )
        if absent := [name for name in self._used_names if name not in columns]:
            warnings.append(
                {"code": "missing_columns", "detail": f"absent columns count as missing in every row: {_some(absent)}"}
            )
        return warnings

    @cached_property
    def _known_names(self) -> frozenset[str]:
        return frozenset(self.names or ())

    @cached_property
    def _used_names(self) -> list[str]:
        return [self.name(column) for column in range(self.n_columns) if column not in self.ignored]


def _refuse_missing(missing: npt.NDArray[np.bool_], name: str) -> None:
    if missing.any():
        row, count = int(missing.argmax()), int(missing.sum())
        values = "a value is" if count == 1 else f"{count} values are"
        message = f"row {row}, column {called(name)}: {values} missing, which the model does not allow"
        raise PreprocessError("missing_value", message, name, row)


def _some(names: list[str]) -> str:
    shown = ", ".join(called(name) for name in names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"
