"""Converts scores to outputs by task: labels, ranks, probabilities, error bounds, contributions."""

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

SET = "set"
"""The output that needs the fold models of a model; app/predictions/set_outputs.py computes it."""
EVERY_OUTPUT = (
    *("label", "rank", "score", "probability", "probabilities", "scores"),
    *("score_error_bound", "label_certain", "contributions", SET),
)
DEFAULT_OUTPUTS = ("label", "score")
NEED_CLASSES = frozenset({"probabilities", "scores"})
"""Outputs whose order of values is that of the classes, so the response must list the classes."""


def offered(header: Header) -> tuple[str, ...]:
    """Return the outputs that a model offers."""
    has_ranks = header.task == "ordinal" and bool(header.classes)
    missing = set()
    if header.task == "ordinal" and not has_ranks:
        missing |= {"label"}  # it orders rows by real-valued relevance and has no ranks
    if not has_ranks:
        missing |= {"rank"}
    if header.task != "multiclass":
        missing |= {"scores"}
    if header.task not in ("binary", "multiclass"):
        missing |= {"label_certain"}
    if header.calibration is None:
        missing |= {"probability", "probabilities"}
    if header.sets is None:
        missing |= {SET}
    return tuple(name for name in EVERY_OUTPUT if name not in missing)


def chosen(outputs: tuple[str, ...], wanted: Sequence[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requested outputs in a fixed order."""
    if wanted is None:
        return _usual(outputs, default)
    if SET in wanted and SET not in outputs:
        detail = "this model has no fold models for prediction sets; train it with cross_validation (see `sets` of it)"
        raise invalid_field("return", "no_sets", detail)
    if not wanted or not set(outputs).issuperset(wanted):
        raise invalid_field("return", "unknown_output", f"this model offers {', '.join(outputs)}")
    return tuple(name for name in outputs if name in wanted)


@cache
def _usual(outputs: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in outputs if name in default)


@dataclass
class Scored:
    """Rows with their scores. Outputs are computed on demand."""

    model: ModelFile
    features: Features
    matrix: Matrix
    scores: Array
    warnings: Sequence[Mapping[str, str]] = ()

    def columns(self, wanted: Sequence[str]) -> dict[str, Sequence[Any] | Array]:
        """Return one value per row for each requested output. Contributions include the intercept."""
        columns: dict[str, Sequence[Any] | Array] = {}
        for name in wanted:
            columns[name] = getattr(self, name if name != "scores" else "all_scores")
            if name == "contributions":
                columns["intercept"] = self.intercept
        return columns

    @cached_property
    def best(self) -> Array:
        """Return the class with the largest score in each row; of equal ones the first."""
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
        """Return the probability of the second of two classes, or of the predicted class."""
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
        threshold = 0.0 if self.model.thresholds is None else float(self.model.thresholds[0])
        return certainty.is_label_certain(self._row_errors, self.scores, threshold)

    @cached_property
    def _row_errors(self) -> RowErrors:
        return row_errors(self.matrix, self.model, self.features)

    @property
    def contributions(self) -> Sequence[Any]:
        """Return the contribution of each column. Added in this order, and then the intercept, they give the score."""
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
        """Return the intercept of the score in each row."""
        if self.scores.ndim == 1:
            return np.full(len(self.scores), self.model.intercept)
        return np.asarray(self.model.intercept)[self.best]

    def parts(self, column_of: Array | None = None) -> list[tuple[Array, Array]]:
        """Yield the features (or columns) of each row, ascending, and their contributions."""
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
