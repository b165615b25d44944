"""A stored model on a stored dataset: its rows become features and scores, a bounded number at a time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from app.datasets.arrays import DatasetArrays
from app.frame import Frame
from app.models.file import ModelFile
from app.predictions import linear
from app.preprocess import training
from app.preprocess.document import from_document
from app.preprocess.errors import PreprocessError, called
from app.preprocess.pipeline import Pipeline
from app.worker.failures import PermanentFailure

Array = np.ndarray[Any, Any]

BLOCK_ENTRIES = 1 << 21


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

    def __init__(self, model: ModelFile, rows: DatasetArrays) -> None:
        self._model = model
        self._frame = rows.frame
        document = model.header.preprocess
        self._pipeline = None if document is None else from_document(document, model.extra)
        self._places = _places(model, rows.frame) if self._pipeline is None else None

    @property
    def n_rows(self) -> int:
        return self._frame.n_rows

    def blocks(self) -> Iterator[Block]:
        entries = self._frame.X.nnz if linear.is_sparse(self._frame.X) else self._frame.X.size
        step = max(1, int(BLOCK_ENTRIES * self.n_rows / max(1, entries)))
        for first in range(0, self.n_rows, step):
            yield self._score(np.arange(first, min(first + step, self.n_rows)))

    def _score(self, rows: Array) -> Block:
        failures: list[RowFailure] = []
        if self._pipeline is None:
            parts = [_Part(rows, self._matrix(slice(int(rows[0]), int(rows[-1]) + 1)))]
        else:
            parts, failures = _transformed(self._pipeline, self._frame, rows)
        if not parts:
            return Block(rows[:0], np.empty((0, 0)), np.empty(0), failures)
        rows, matrix = np.concatenate([part.rows for part in parts]), _stacked([part.matrix for part in parts])
        with np.errstate(over="ignore", invalid="ignore"):  # what has no score is told below
            scores = linear.scores(matrix, self._model.coef, self._model.intercept)
        finite = np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)
        if finite.all():
            return Block(rows, matrix, scores, failures)
        failures = [*failures, *(_why(int(rows[k]), matrix[[k]]) for k in np.flatnonzero(~finite))]
        return Block(rows[finite], matrix[finite], scores[finite], sorted(failures))

    def _matrix(self, chosen: slice) -> Any:
        """These rows as the model's features, in its order."""
        part: Any = self._frame.X[chosen]
        if self._places is not None:
            part = part[:, self._places]
        if not linear.is_sparse(part):
            return np.asarray(part, dtype=np.float64)
        part = part.astype(np.float64)
        part.sort_indices()
        shape = (part.shape[0], self._model.header.n_features)  # a sparse file may end before the last feature
        return sp.csr_array((part.data, part.indices, part.indptr), shape=shape)


class _Part(NamedTuple):
    rows: Array
    matrix: Any


def _transformed(pipeline: Pipeline, frame: Frame, rows: Array) -> tuple[list[_Part], list[RowFailure]]:
    """The features of these rows. A row that preprocessing refuses is found by halves, the others go on."""
    try:
        return [_Part(rows, training.transform(pipeline, frame.rows(rows)))], []
    except PreprocessError as error:
        if error.row is None:
            raise _other_features(error.message) from error
        if len(rows) == 1:
            column = "" if error.column is None else f"column {called(error.column)}: "
            return [], [RowFailure(int(rows[0]), error.code, column + error.code.replace("_", " "))]
    half = len(rows) // 2
    parts, failures = _transformed(pipeline, frame, rows[:half])
    more_parts, more_failures = _transformed(pipeline, frame, rows[half:])
    return parts + more_parts, failures + more_failures


def _stacked(matrices: list[Any]) -> Any:
    if len(matrices) == 1:
        return matrices[0]
    return sp.vstack(matrices, format="csr") if linear.is_sparse(matrices[0]) else np.vstack(matrices)


def _places(model: ModelFile, frame: Frame) -> Array | None:
    """Which columns of the dataset the model's features are; None: all of them, in order."""
    header, names = model.header, [column.name for column in frame.columns]
    unlike = [column.name for column in frame.columns if column.kind not in ("numeric", "boolean")]
    if header.feature_names and names:
        number_of = {name: number for number, name in enumerate(names)}
        missing = [name for name in header.feature_names if name not in number_of]
        if missing:
            raise _other_features(f"it has no column {missing[0]!r:.80}, which is a feature of the model")
        unlike = [name for name in unlike if name in header.feature_names]
        if not unlike:
            return None if names == header.feature_names else np.array([number_of[n] for n in header.feature_names])
    if unlike:
        raise _other_features(f"its column {unlike[0]!r:.80} does not hold numbers, and the model knows only those")
    width = frame.n_features
    if width > header.n_features or (width < header.n_features and not linear.is_sparse(frame.X)):
        raise _other_features(f"it has {width} features, the model {header.n_features}")
    return None


def _other_features(message: str) -> PermanentFailure:
    return PermanentFailure("feature_mismatch", f"the dataset does not fit the model: {message}", "dataset_id")


def _why(row: int, matrix: Any) -> RowFailure:
    values = matrix.data if linear.is_sparse(matrix) else matrix
    if np.isnan(values).any():
        return RowFailure(row, "missing_value", "a value is missing")
    return RowFailure(row, "overflow", "its score is too large to be a number")
