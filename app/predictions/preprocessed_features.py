"""Features of a model with preprocessing: raw columns go through the pipeline that is stored with the weights."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from app.errors import Invalid, invalid_field
from app.models import linear
from app.models.file import Header, ModelFile
from app.models.linear import Matrix
from app.predictions.model_features import MOST_BYTES, NUMBER_BYTES, Features, Prepared, interleaved
from app.predictions.rows import Columns, ListRows, MatrixRows, MixedRows, NamedRows, Places, Rows, check_width
from app.preprocess.inputs import Inputs
from app.preprocess.pipeline import Pipeline
from app.preprocess.pipeline_document import from_document, read_inputs
from app.preprocess.preprocess_error import PreprocessError, called
from app.preprocess.values import EXPECTED
from app.tabular.types import Array


def features_of(model: ModelFile, most_bytes: int = MOST_BYTES) -> Features:
    """Return the features of a model. `most_bytes`: maximum bytes of the rows of a request. Raises CorruptModel."""
    if model.header.preprocess is None:
        names = tuple(model.header.feature_names or ())
        return Features(model.header.n_features, names, most_bytes=most_bytes)
    pipeline = from_document(model.header.preprocess, model.extra)
    column_of = None if pipeline.is_plain else pipeline.column_of_features
    return PreparedFeatures(pipeline.n_columns, pipeline.names or (), column_of, most_bytes, pipeline=pipeline)


def inputs_of(header: Header, arrays: Mapping[str, Array]) -> Inputs:
    """Return the columns that the model reads. `arrays`: those of its preprocessing. Raises CorruptModel."""
    if header.preprocess is None:
        return Inputs(tuple(header.feature_names or ()) or None, header.n_features)
    return read_inputs(header.preprocess, arrays)


@dataclass(frozen=True, kw_only=True)
class PreparedFeatures(Features):
    pipeline: Pipeline

    @cached_property
    def numeric(self) -> Collection[str]:
        numbers, formats = self.pipeline.numbers, self.pipeline.formats
        plain = (j for j in numbers.columns[~numbers.boolean].tolist() if j not in formats)
        return frozenset(self.pipeline.name(j) for j in plain)

    @cached_property
    def texts(self) -> Collection[str]:
        encoders = self.pipeline.encoders
        return frozenset(self.pipeline.name(encoder.column) for encoder in encoders if encoder.kind == "text")

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row: of its columns, or of its features if these are dense and need more."""
        return NUMBER_BYTES * max(self.width, 0 if self.pipeline.sparse else self.pipeline.n_features)

    def check_columns(self, names: Collection[str], places: Places) -> None:
        """Accept all names: unknown columns are ignored, and absent ones are missing."""
        self.check_named(places)

    def matrix(self, rows: Rows) -> Prepared:
        match rows:
            case MixedRows():
                parts = [(part.places.numbers or (), self.matrix(part)) for part in rows.parts]
                return interleaved(parts)
            case MatrixRows():
                check_width(rows.matrix.shape[1], self.width, 0, rows.places)
                return self._from_matrix(rows)
            case ListRows():
                for number, row in enumerate(rows.rows):
                    check_width(len(row), self.width, number, rows.places)
                if not self.names:
                    filled = [[math.nan if value is None else value for value in row] for row in rows.rows]
                    return self._from_matrix(MatrixRows(self.from_lists(filled, rows.places), rows.places))
                columns = zip(self.names, zip(*rows.rows, strict=True), strict=True)
                return self._apply(dict(columns), len(rows.rows), rows.places)
            case NamedRows():
                self.check_named(rows.places)
                names = dict.fromkeys(name for row in rows.rows for name in row)
                given = {
                    name: [row.get(name) for row in rows.rows] if name in self.index_of else None for name in names
                }
                return self._apply(given, len(rows.rows), rows.places)
            case Columns():
                self.check_named(rows.places)
                return self._apply(rows.columns, rows.n_rows, rows.places)

    @property
    def shift(self) -> Array:
        return self.pipeline.solver_units[0]

    def norms(self, matrix: Matrix) -> Array:
        return self.pipeline.solver_norms(matrix)

    def feature_name(self, number: int) -> str:
        return self.pipeline.feature(number).name

    def called(self, feature: int) -> int | str:
        return self.pipeline.feature(feature).column if self.names else feature

    def _from_matrix(self, rows: MatrixRows) -> Prepared:
        pipeline, matrix = self.pipeline, rows.matrix
        if pipeline.encoders:
            self.admit(matrix.shape[0], rows.places.name)  # the size check of sparse rows did not cover dense ones
            dense = matrix.toarray() if linear.is_sparse(matrix) else matrix
            columns = {name: dense[:, number] for number, name in enumerate(self.names)}
            return self._apply(columns, len(dense), rows.places)
        numbers = matrix if len(pipeline.numbers.columns) == self.width else matrix[:, pipeline.numbers.columns]
        self._check_truths(numbers, rows.places)
        if not linear.is_sparse(numbers):
            try:
                pipeline.check_numbers(numbers)
            except PreprocessError as error:
                raise _refusal(error, rows.places) from None
        return Prepared(pipeline.joined(pipeline.numbers.encode(numbers), []))

    def _check_truths(self, numbers: Matrix, places: Places) -> None:
        """Refuse numbers other than 0 and 1 in boolean columns."""
        truths = np.flatnonzero(self.pipeline.numbers.boolean)
        if not len(truths):
            return
        cells = numbers[:, truths].tocoo() if linear.is_sparse(numbers) else numbers[:, truths]
        values = cells.data if linear.is_sparse(numbers) else cells
        wrong = (values != 0.0) & (values != 1.0) & ~np.isnan(values)
        if wrong.any():
            where = cells.coords if linear.is_sparse(numbers) else np.indices(cells.shape)
            row, place = (int(axis[wrong][0]) for axis in where)
            column = int(self.pipeline.numbers.columns[truths[place]])
            raise places.refuse(row, "bad_value", f"must be {EXPECTED['boolean']}", self.pipeline.name(column))

    def _apply(self, columns: Mapping[str, Sequence[Any] | None], n_rows: int, places: Places) -> Prepared:
        try:
            matrix, warnings = self.pipeline.apply(columns, n_rows)
        except PreprocessError as error:
            raise _refusal(error, places) from None
        return Prepared(np.ascontiguousarray(matrix) if isinstance(matrix, np.ndarray) else matrix, warnings)


def _refusal(error: PreprocessError, places: Places) -> Invalid:
    if error.row is None:
        return invalid_field(error.column or "body", error.code, error.message)
    detail = error.message
    if error.column is not None:
        detail = detail.removeprefix(f"row {error.row}, column {called(error.column)}: ")
    return places.refuse(error.row, error.code, detail, error.column)
