"""A stored model on a stored dataset: its rows become features and scores, a bounded number at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from app.datasets.arrays import DatasetArrays
from app.frame import Column, Frame, Strings, let_go
from app.models.file import ModelFile
from app.predictions import linear
from app.predictions.prepared import PreparedFeatures, features_of
from app.preprocess import training
from app.preprocess.errors import PreprocessError, called
from app.preprocess.pipeline import Pipeline
from app.worker.dense_sums import dense_sums
from app.worker.failures import PermanentFailure

Array = np.ndarray[Any, Any]

BLOCK_ENTRIES = 1 << 21
BYTES_A_WORD = 6  # with the space behind it, roughly: each word of a text may become a feature


class RowFailure(NamedTuple):
    row: int
    code: str
    detail: str


class Block(NamedTuple):
    """Some consecutive rows of the dataset."""

    rows: Array
    """The numbers, from 0, of those that have a score."""
    matrix: Any
    scores: Array
    failures: list[RowFailure]


class DatasetScorer:
    """Scores a dataset's rows with one model. Raises PermanentFailure if the dataset has other features."""

    def __init__(self, model: ModelFile, rows: DatasetArrays, target: str | None = None) -> None:
        """`target` is the name of the dataset's target: a file without labels has a feature in its place."""
        self._model = model
        features = features_of(model)
        self._column_of = features.column_of
        self._pipeline = features.pipeline if isinstance(features, PreparedFeatures) else None
        self._frame, self._y = rows.frame, rows.y
        self._target = self._feature_in_place_of(rows, target)
        self._places = None if self._pipeline else _places(model, rows.frame, self._columns)

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

    @property
    def _columns(self) -> list[Column]:
        return [*self._frame.columns, *([] if self._target is None else [self._target])]

    def _feature_in_place_of(self, rows: DatasetArrays, target: str | None) -> Column | None:
        """The target's column if the model knows it as a feature, and no other column has its name."""
        names = self._model.header.feature_names if self._pipeline is None else self._pipeline.names
        taken = {column.name for column in rows.frame.columns}
        if target is None or target not in (names or ()) or target in taken or linear.is_sparse(rows.frame.X):
            return None
        if rows.label_names is None:
            return Column(target)
        return Column(target, "categorical", Strings.of(rows.label_names))

    def _score(self, rows: Array) -> Block:
        failures: list[RowFailure] = []
        if self._pipeline is None:
            parts = [_Part(rows, self._matrix(rows))]
        else:
            parts, failures = self._transformed(self._pipeline, rows)
        if not parts:
            return Block(rows[:0], np.empty((0, 0)), np.empty(0), failures)
        rows, matrix = np.concatenate([part.rows for part in parts]), _stacked([part.matrix for part in parts])
        with np.errstate(over="ignore", invalid="ignore"):  # what has no score is told below
            scores = linear.scores(matrix, self._model.coef, self._model.intercept, self._column_of, dense_sums)
        finite = np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)
        if finite.all():
            return Block(rows, matrix, scores, failures)
        failures = [*failures, *(_why(int(rows[k]), matrix[[k]]) for k in np.flatnonzero(~finite))]
        return Block(rows[finite], matrix[finite], scores[finite], sorted(failures))

    def _rows(self, rows: Array) -> Frame:
        """Consecutive rows; numbers are not copied."""
        part = self._frame.rows(slice(rows[0], rows[-1] + 1))
        if self._target is None:
            return part
        return Frame(np.column_stack([part.X, self._y[rows]]), self._columns, part.texts)

    def _matrix(self, rows: Array) -> Any:
        """These rows as the features of a model without preprocessing, in its order."""
        part = self._rows(rows).X
        if self._places is not None:
            part = part[:, self._places]
        if not linear.is_sparse(part):
            return np.asarray(part, dtype=np.float64)
        part = part.astype(np.float64)
        part.sort_indices()
        shape = (part.shape[0], self._model.header.n_features)  # a sparse file may end before the last feature
        return sp.csr_array((part.data, part.indices, part.indptr), shape=shape)

    def _transformed(self, pipeline: Pipeline, rows: Array) -> tuple[list["_Part"], list[RowFailure]]:
        """The features of these rows. A row that preprocessing refuses is found by halves, the others go on."""
        try:
            return [_Part(rows, training.transform(pipeline, self._rows(rows)))], []
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


def _places(model: ModelFile, frame: Frame, columns: Sequence[Column]) -> Array | None:
    """Which columns of the dataset the model's features are; None: all of them, in order."""
    header, names = model.header, [column.name for column in columns]
    if header.feature_names and names:
        number_of = {name: number for number, name in enumerate(names)}
        if missing := [name for name in header.feature_names if name not in number_of]:
            raise _other_features(f"it has no column {called(missing[0])}, which is a feature of the model")
        places = np.array([number_of[name] for name in header.feature_names])
        _check_numeric([columns[place] for place in places])
        return None if names == header.feature_names else places
    _check_numeric(columns)
    width = frame.n_features
    if width > header.n_features or (width < header.n_features and not linear.is_sparse(frame.X)):
        raise _other_features(f"it has {width} features, the model {header.n_features}")
    return None


def _check_numeric(columns: Sequence[Column]) -> None:
    for column in columns:
        if column.kind not in ("numeric", "boolean"):
            message = f"its column {called(column.name)} holds no numbers, and the model knows only those"
            raise _other_features(message)


def _other_features(message: str) -> PermanentFailure:
    return PermanentFailure("feature_mismatch", f"the dataset does not fit the model: {message}", "dataset_id")


def _why(row: int, matrix: Any) -> RowFailure:
    values = matrix.data if linear.is_sparse(matrix) else matrix
    if np.isnan(values).any():
        return RowFailure(row, "missing_value", "a value is missing")
    return RowFailure(row, "overflow", "its score is too large to be a number")
