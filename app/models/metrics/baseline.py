"""The constant model that a trained model is compared with: the most frequent class, the mean, or the most frequent
rank."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.datasets.schemas import Label
from app.models.metrics.classification import MOST_LISTED_CLASSES, Counts, Decision, macro_means
from app.models.metrics.ranking import ordinal_metrics
from app.models.metrics.regression import regression_metrics
from app.tabular.types import Array


def most_frequent(values: Array, weight: Array | None = None) -> Any:
    """Return the value with the largest total weight; of equal ones the smallest. None: without rows."""
    found, place = np.unique(values, return_inverse=True)
    return found[np.bincount(place, weight).argmax()].item() if len(found) else None


def class_baseline(
    classes: Sequence[Label],
    codes: Array,
    constant: int,
    weight: Array | None = None,
    decision: Decision | None = None,
) -> dict[str, Any]:
    """Return the metrics of predicting the class at position `constant` for every row. `decision`: of a binary
    model."""
    counts = Counts(classes, codes, np.full(len(codes), constant), weight)
    per_class, prevalence = counts.per_class(), counts.prevalence()
    present = prevalence > 0
    has_areas = len(classes) <= MOST_LISTED_CLASSES
    means, area = macro_means(per_class), float(prevalence[present].mean()) if present.any() else None
    if decision is not None:
        means = {name: per_class[decision.positive][name] for name in means}
        area = float(prevalence[decision.positive]) if present[decision.positive] else None
    return {
        "prediction": classes[constant],
        **counts.shares(),
        **means,
        "roc_auc": 0.5 if has_areas and np.count_nonzero(present) > 1 else None,
        "pr_auc": area if has_areas else None,
    }


def number_baseline(y: Array, constant: float, weight: Array | None = None) -> dict[str, Any]:
    """Return the metrics of predicting `constant` for every row."""
    return {"prediction": constant, **regression_metrics(y, np.full(len(y), constant), weight)}


def rank_baseline(
    relevance: Array, constant: float | None, group: Array | None = None, weight: Array | None = None
) -> dict[str, Any]:
    """Return the metrics of equal scores and the same rank for every row. `constant`: None: there are no ranks."""
    ranks = None if constant is None else np.full(len(relevance), constant)
    figures = ordinal_metrics(relevance, np.zeros(len(relevance)), ranks, group, weight)
    return {"prediction": constant, **figures}
