"""Scores the rows of a stored dataset with a stored model, in blocks of bounded size."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from app.datasets.arrays import DatasetArrays
from app.models import linear
from app.models.file import ModelFile
from app.predictions.preprocessed_features import PreparedFeatures, features_of, inputs_of
from app.preprocess import fit
from app.preprocess.inputs import Inputs
from app.preprocess.pipeline import Pipeline
from app.preprocess.preprocess_error import PreprocessError, called
from app.tabular.frame import Frame, let_go
from app.tabular.types import Array
from app.worker.dense_sums import dense_sums
from app.worker.failures import PermanentFailure

BLOCK_ENTRIES = 1 << 21
"""Stored values of a block. Larger: more memory, fewer blocks. Set by hand; no measurement is recorded."""
BYTES_A_WORD = 6
"""Assumed bytes of a word with its space, to estimate the features of a text. Larger: larger blocks of text rows. Set
by hand; no measurement is recorded."""


class RowFailure(NamedTuple):
    row: int
    code: str
    detail: str


class Block(NamedTuple):
    """Consecutive rows of the dataset with their scores."""

    rows: Array
    """Numbers, from 0, of the rows that have a score."""
    matrix: Any
    scores: Array
    failures: list[RowFailure]

    def scores_of(self, rows: Array) -> Array:
        """Return the scores of these rows; NaN: the row has none."""
        found = np.full((len(rows), *self.scores.shape[1:]), np.nan)
        _, places, own = np.intersect1d(rows, self.rows, assume_unique=True, return_indices=True)
        found[places] = self.scores[own]
        return found


class DatasetScorer:
    """Scores the rows of a dataset with one model. Raises PermanentFailure if the dataset has other features."""

    def __init__(self, model: ModelFile, rows: DatasetArrays, target: str | None = None) -> None:
        """`target`: name of the dataset's target column. In a file without labels it is a feature of the model."""
        self._model = model
        features, inputs = features_of(model), inputs_of(model.header, model.extra)
        self._column_of = features.column_of
        self._pipeline = features.pipeline if isinstance(features, PreparedFeatures) else None
        self._frame, self._y = rows.frame, rows.y
        self._columns = list(rows.frame.columns)
        self._has_target = inputs.stands_for(target, self._columns, sparse=linear.is_sparse(rows.X))
        if self._has_target and target is not None:
            column, numbers = inputs.read_labels(target, rows.label_names)
            self._columns.append(column)
            self._y = rows.y if numbers is None else numbers[rows.y]
        self._places = self._find_places(inputs)

    @property
    def n_rows(self) -> int:
        return self._frame.n_rows

    def blocks(self) -> Iterator[Block]:
        entries = self._frame.X.nnz if linear.is_sparse(self._frame.X) else self._frame.X.size
        entries += sum(int((texts.ends - texts.starts).sum()) for texts in self._frame.texts.values()) // BYTES_A_WORD
        step = max(1, int(BLOCK_ENTRIES * self.n_rows / max(1, entries)))
        for first in range(0, self.n_rows, step):
            yield self._score(np.arange(first, min(first + step, self.n_rows)))
            let_go(self._frame.X[first : first + step])

    def _find_places(self, inputs: Inputs) -> Array | None:
        """Return the columns of the dataset that are the model's; None: all of them, in order."""
        width = self._frame.n_features + self._has_target

        def is_empty(place: int) -> bool:
            return place < self._frame.n_features and self._frame.is_empty(place)

        try:
            sparse = linear.is_sparse(self._frame.X)
            places = inputs.places(self._columns, width, sparse=sparse, is_empty=is_empty)
        except PreprocessError as error:
            raise _other_features(error.message) from error
        return None if sparse or np.array_equal(places, np.arange(width)) else places

    def _score(self, rows: Array) -> Block:
        failures: list[RowFailure] = []
        if self._pipeline is None:
            parts = [_Part(rows, self._matrix(rows))]
        else:
            parts, failures = self._transformed(self._pipeline, rows)
        if not parts:
            return Block(rows[:0], np.empty((0, 0)), np.empty(0), failures)
        rows, matrix = np.concatenate([part.rows for part in parts]), _stacked([part.matrix for part in parts])
        with np.errstate(over="ignore", invalid="ignore"):  # rows without a score are reported below
            scores = linear.scores(matrix, self._model.coef, self._model.intercept, self._column_of, dense_sums)
        finite = np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)
        if finite.all():
            return Block(rows, matrix, scores, failures)
        failures = [*failures, *(_why(int(rows[k]), matrix[[k]]) for k in np.flatnonzero(~finite))]
        return Block(rows[finite], matrix[finite], scores[finite], sorted(failures))

    def _rows(self, rows: Array) -> Frame:
        """Return consecutive rows without copying numbers."""
        part = self._frame.rows(slice(rows[0], rows[-1] + 1))
        if not self._has_target:
            return part
        return Frame(np.column_stack([part.X, self._y[rows]]), self._columns, part.texts)

    def _matrix(self, rows: Array) -> Any:
        """Return these rows as features of a model without preprocessing, in the model's order."""
        part = self._rows(rows).X
        if self._places is not None:
            part = part[:, self._places]
        if not linear.is_sparse(part):
            return np.asarray(part, dtype=np.float64)
        part = part.astype(np.float64)
        part.sort_indices()
        shape = (part.shape[0], self._model.header.n_features)  # a sparse file can lack the last features
        return sp.csr_array((part.data, part.indices, part.indptr), shape=shape)

    def _transformed(self, pipeline: Pipeline, rows: Array) -> tuple[list["_Part"], list[RowFailure]]:
        """Return the features of these rows. Rows that preprocessing refuses are found by bisection and skipped."""
        try:
            return [_Part(rows, fit.transform(pipeline, self._rows(rows)))], []
        except PreprocessError as error:
            if error.row is None:
                raise _other_features(error.message) from error
            if len(rows) == 1:
                column = "" if error.column is None else f"column {called(error.column)}: "
                return [], [RowFailure(int(rows[0]), error.code, column + error.code.replace("_", " "))]
        half = len(rows) // 2
        parts, failures = self._transformed(pipeline, rows[:half])
        more_parts, more_failures = self._transformed(pipeline, rows[half:])
        return parts + more_parts, failures + more_failures


class _Part(NamedTuple):
    rows: Array
    matrix: Any


def _stacked(matrices: list[Any]) -> Any:
    if len(matrices) == 1:
        return matrices[0]
    return sp.vstack(matrices, format="csr") if linear.is_sparse(matrices[0]) else np.vstack(matrices)


def _other_features(message: str) -> PermanentFailure:
    return PermanentFailure("feature_mismatch", f"the dataset does not match the model: {message}", "dataset_id")


def _why(row: int, matrix: Any) -> RowFailure:
    values = matrix.data if linear.is_sparse(matrix) else matrix
    if np.isnan(values).any():
        return RowFailure(row, "missing_value", "a value is missing")
    return RowFailure(row, "overflow", "the score exceeds the range of a 64-bit float")
