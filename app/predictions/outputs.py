"""What scores mean, by task: classes, ranks or numbers, probabilities, and how certain they are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from app.errors import invalid_field
from app.models import linear
from app.models.calibration import Calibration
from app.models.file import Header, ModelFile
from app.models.linear import Matrix, class_positions
from app.predictions.model_features import Features
from app.predictions.score_error import Certainty, RowErrors, row_errors
from app.tabular.types import Array

EVERY_OUTPUT = (
    *("label", "rank", "score", "probability", "probabilities", "scores"),
    *("score_error_bound", "label_certain", "contributions"),
)
DEFAULT_OUTPUTS = ("label", "score")
NEED_CLASSES = frozenset({"probabilities", "scores"})  # the answer has to say in which order


def offered(header: Header) -> tuple[str, ...]:
    """What can be asked of a model."""
    has_ranks = header.task == "ordinal" and bool(header.classes)
    missing = set()
    if header.task == "ordinal" and not has_ranks:
        missing |= {"label"}  # it orders rows by real-valued relevance; there are no ranks to name
    if not has_ranks:
        missing |= {"rank"}
    if header.task != "multiclass":
        missing |= {"scores"}
    if header.task not in ("binary", "multiclass"):
        missing |= {"label_certain"}
    if header.calibration is None:
        missing |= {"probability", "probabilities"}
    return tuple(name for name in EVERY_OUTPUT if name not in missing)


def chosen(outputs: tuple[str, ...], wanted: Sequence[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    """In one order, however they were asked for."""
    if wanted is None:
        return _usual(outputs, default)
    if not wanted or not set(outputs).issuperset(wanted):
        raise invalid_field("return", "unknown_output", f"this model returns: {', '.join(outputs)}")
    return tuple(name for name in outputs if name in wanted)


@cache
def _usual(outputs: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in outputs if name in default)


@dataclass
class Scored:
    """Rows with their scores; every output is computed when it is asked for."""

    model: ModelFile
    features: Features
    matrix: Matrix
    scores: Array
    warnings: Sequence[Mapping[str, str]] = ()

    def columns(self, wanted: Sequence[str]) -> dict[str, Sequence[Any] | Array]:
        """For each wanted output a value a row. Contributions come with their intercept."""
        columns: dict[str, Sequence[Any] | Array] = {}
        for name in wanted:
            columns[name] = getattr(self, name if name != "scores" else "all_scores")
            if name == "contributions":
                columns["intercept"] = self.intercept
        return columns

    @cached_property
    def best(self) -> Array:
        """Of several classes: the number of the one with the largest score, the first of equal ones."""
        return class_positions(self.scores)

    @property
    def label(self) -> Sequence[Any] | Array:
        classes = self.model.header.classes
        if not classes or self.model.header.task == "regression":
            return self.scores
        positions = self.best if self.scores.ndim == 2 else class_positions(self.scores, self.model.thresholds)
        return [classes[position] for position in positions.tolist()]

    @property
    def rank(self) -> Sequence[Any] | Array:
        return self.label

    @property
    def score(self) -> Array:
        return self.scores if self.scores.ndim == 1 else self._of_best(self.scores)

    @property
    def all_scores(self) -> Array:
        return self.scores

    @cached_property
    def probabilities(self) -> Array:
        calibration = Calibration.of(self.model)
        assert calibration is not None, "offered only to calibrated models"
        return calibration.probabilities(self.scores)

    @property
    def probability(self) -> Array:
        """Of the second of two classes; of several: of the label."""
        return self.probabilities[:, 1] if self.scores.ndim == 1 else self._of_best(self.probabilities)

    @property
    def score_error_bound(self) -> Sequence[Any] | Array:
        certainty = Certainty.of(self.model.header)
        if certainty is None:
            return [None] * len(self.scores)
        bounds = certainty.bounds(self._row_errors)
        bounds = bounds if bounds.ndim == 1 else self._of_best(bounds)
        if np.isfinite(bounds).all():
            return bounds
        return [bound if math.isfinite(bound) else None for bound in bounds.tolist()]

    @property
    def label_certain(self) -> Sequence[Any] | Array:
        certainty = Certainty.of(self.model.header)
        if certainty is None:
            return [None] * len(self.scores)
        return certainty.is_label_certain(self._row_errors, self.scores)

    @cached_property
    def _row_errors(self) -> RowErrors:
        return row_errors(self.matrix, self.model, self.features)

    @property
    def contributions(self) -> Sequence[Any]:
        """By column, what each adds to `score`; in this order, and then the intercept, they sum exactly to it."""
        names = self.features.names
        if not names and not linear.is_sparse(self.matrix):
            return [values.tolist() for _, values in self.parts(self.features.column_of)]
        shown = []
        for indices, values in self.parts(self.features.column_of):
            if names:
                shown.append({names[j]: value for j, value in zip(indices.tolist(), values.tolist(), strict=True)})
            else:
                shown.append({"indices": indices.tolist(), "values": values.tolist()})
        return shown

    @property
    def intercept(self) -> Array:
        """Of the score."""
        if self.scores.ndim == 1:
            return np.full(len(self.scores), self.model.intercept)
        return np.asarray(self.model.intercept)[self.best]

    def parts(self, column_of: Array | None = None) -> list[tuple[Array, Array]]:
        """Of each row: the features (or columns) that it has, ascending, and what they add to its score."""
        found: list[tuple[Array, Array]] = [(_NONE, _NONE)] * len(self.scores)
        best = self.best if self.scores.ndim == 2 else np.zeros(len(self.scores), dtype=np.int64)
        for k in np.unique(best):
            weights = self.model.coef if self.scores.ndim == 1 else self.model.coef[k]
            numbers = np.flatnonzero(best == k)
            products = linear.contributions(self.matrix[numbers], weights, column_of)
            for position, number in enumerate(numbers.tolist()):
                found[number] = linear.entries(products, position)
        return found

    def _of_best(self, values: Array) -> Array:
        return np.take_along_axis(values, self.best[:, None], axis=1)[:, 0]


_NONE = np.empty(0)
