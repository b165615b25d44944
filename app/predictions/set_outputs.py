"""The output `set` of predictions: the scores of the fold models, and the sets from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.errors import invalid_field
from app.models import linear
from app.models.file import ModelFile
from app.models.linear import Matrix
from app.models.prediction_sets import PredictionSets
from app.predictions.model_features import MOST_BYTES, Features
from app.predictions.outputs import SET
from app.predictions.preprocessed_features import features_of
from app.predictions.rows import Rows
from app.tabular.types import Array

DEFAULT_COVERAGE = 0.9
"""Coverage of prediction sets if a request does not set `coverage`. Larger: larger sets. Set by hand."""


def asked_coverage(outputs: Sequence[str], coverage: float | None) -> float | None:
    """Return the coverage of the requested sets; None: no sets are requested. Raises Invalid."""
    if SET not in outputs:
        if coverage is not None:
            raise invalid_field("coverage", "unexpected", 'is only used with "return": ["set"]; add set, or omit it')
        return None
    if coverage is None:
        return DEFAULT_COVERAGE
    if not 0.0 < coverage < 1.0:
        raise invalid_field("coverage", "out_of_range", "must be above 0 and below 1")
    return coverage


@dataclass(frozen=True)
class ServedSets:
    """The prediction sets of a model, with the features of each fold model."""

    sets: PredictionSets
    features: Sequence[Features]
    classes: Sequence[Any]
    is_raw: bool
    """Whether the fold models have no preprocessing, so that all of them read the matrix of the model."""

    @classmethod
    def of(cls, model: ModelFile, most_bytes: int = MOST_BYTES) -> "ServedSets":
        """Open the fold models. Raises CorruptModel."""
        sets = PredictionSets.of(model)
        assert sets is not None, "offered only by models with fold models"
        features = [features_of(fold, most_bytes) for fold in sets.folds]
        return cls(sets, features, model.header.classes, model.header.preprocess is None)

    def answer(self, rows: Rows, matrix: Matrix, coverage: float) -> list[Any]:
        """Return the set of each row. `matrix`: the features of the rows for the model itself."""
        scores = []
        for fold, features in zip(self.sets.folds, self.features, strict=True):
            own = matrix if self.is_raw else features.matrix(rows).matrix
            with np.errstate(over="ignore", invalid="ignore"):  # a set has no bound where a score overflows
                scores.append(linear.scores(own, fold.coef, fold.intercept, features.column_of))
        return self.from_scores(scores, coverage)

    def from_scores(self, scores: Sequence[Array], coverage: float) -> list[Any]:
        """Return the set of each row from the scores of each fold model."""
        if self.classes:
            return self.sets.labels(scores, self.classes, coverage)
        return self.sets.intervals(scores, coverage)

    def coverage(self, requested: float) -> Mapping[str, Any]:
        return self.sets.coverage(requested)
