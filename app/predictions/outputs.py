"""Converts scores to outputs by task: labels, ranks, probabilities, error bounds, contributions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

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


class Products(NamedTuple):
    """Contributions of the rows that share a vector of weights."""

    numbers: Array
    """Numbers of the rows."""
    weights: Array
    added: Matrix


@dataclass
class Scored:
    """Rows with their scores. Outputs are computed on demand."""

    model: ModelFile
    features: Features
    matrix: Matrix
    scores: Array
    warnings: Sequence[Mapping[str, str]] = ()

    def columns(self, wanted: Sequence[str]) -> dict[str, Sequence[Any] | Array]:
        """Return one value per row for each requested output. Contributions include what is to be added to them."""
        columns: dict[str, Sequence[Any] | Array] = {}
        for name in wanted:
            columns[name] = getattr(self, name if name != "scores" else "all_scores")
            if name == "contributions":
                columns["intercept"] = self.intercept
                if self.base_score is not None:
                    columns["base_score"] = self.base_score
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
        """Return the contribution of each column, relative to the training mean if it is known. Added in this order,
        and then the intercept, they give the score."""
        names = self.features.names
        if not names and not linear.is_sparse(self.matrix):
            return [values.tolist() for _, values in self._entries(self._products)]
        shown = []
        for indices, values in self._entries(self._products):
            if names:
                shown.append({names[j]: value for j, value in zip(indices.tolist(), values.tolist(), strict=True)})
            else:
                shown.append({"indices": indices.tolist(), "values": values.tolist()})
        return shown

    @property
    def intercept(self) -> Array:
        """Return what is added to the contributions of each row: the intercept of the model; relative to the training
        mean, the rest of the score, which is `base_score` and what the row leaves out of a sparse model."""
        if self.model.means is None:
            return self._of_class(self.model.intercept)
        sums = np.empty(len(self.scores))
        for numbers, _, products in self._products:
            sums[numbers] = linear.row_sums(products)
        return self.score - sums

    @cached_property
    def base_score(self) -> Array | None:
        """Return the score of the training mean, for the class of each row; None: the mean is not known."""
        model = self.model
        if model.means is None:
            return None
        found = linear.scores(model.means[None], model.coef, model.intercept, self.features.column_of)[0]
        return self._of_class(found)

    @cached_property
    def _products(self) -> list["Products"]:
        return self.products(self.features.column_of)

    def products(self, column_of: Array | None = None) -> list["Products"]:
        """Return the contributions of the features, or columns: of the rows of each predicted class."""
        found, means = [], self.model.means
        best = self.best if self.scores.ndim == 2 else np.zeros(len(self.scores), dtype=np.int64)
        for k in np.unique(best):
            weights = self.model.coef if self.scores.ndim == 1 else self.model.coef[k]
            numbers = np.flatnonzero(best == k)
            if means is None:
                added = linear.contributions(self.matrix[numbers], weights, column_of)
            else:
                added = linear.centred(self.matrix[numbers], weights, means, column_of)
            found.append(Products(numbers, weights, added))
        return found

    def _entries(self, parts: list["Products"]) -> list[tuple[Array, Array]]:
        """Return the features (or columns) of each row, ascending, and their contributions."""
        found: list[tuple[Array, Array]] = [(_NONE, _NONE)] * len(self.scores)
        for numbers, _, products in parts:
            for position, number in enumerate(numbers.tolist()):
                found[number] = linear.entries(products, position)
        return found

    def _of_class(self, values: float | Array) -> Array:
        """Return the value of the model, or of the predicted class, for each row."""
        if self.scores.ndim == 1:
            return np.full(len(self.scores), values)
        return np.asarray(values)[self.best]

    def _of_best(self, values: Array) -> Array:
        return np.take_along_axis(values, self.best[:, None], axis=1)[:, 0]


_NONE = np.empty(0)
