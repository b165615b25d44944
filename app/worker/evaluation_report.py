"""Evaluates a stored model on labelled rows: metrics, curves and a histogram of the scores."""

from typing import Any

import numpy as np

from app.datasets.arrays import DatasetArrays
from app.datasets.schemas import Label
from app.jobs.validation.positive_class import place_of
from app.models import metrics
from app.models.calibration import Calibration
from app.models.file import ModelFile
from app.models.linear import class_positions
from app.tabular.types import Array
from app.worker.failures import PermanentFailure

HISTOGRAM_BINS = 20
"""Number of bins of the score histogram. Larger: a finer histogram, larger reports. Set by hand; no measurement is
recorded."""


def judge(model: ModelFile, rows: DatasetArrays, scores: Array, positive: Label | None = None) -> dict[str, Any]:
    """Return `metrics` and `curves` as in a model's card, and a `histogram` of the scores. `positive`: the positive
    class; None: that of the model."""
    header = model.header
    if header.task == "regression":
        figures = metrics.regression_metrics(rows.y, scores, rows.weight)
        return {"metrics": figures, "curves": None, "histogram": histogram(scores, None, [])}
    if header.task == "ordinal":
        predicted = None
        if model.thresholds is not None:
            predicted = np.array(header.classes, dtype=np.float64)[class_positions(scores, model.thresholds)]
        figures = metrics.ordinal_metrics(rows.y, scores, predicted, rows.group, rows.weight)
        return {"metrics": figures, "curves": None, "histogram": histogram(scores, None, [])}
    codes = _codes(model, rows)
    ranking = None
    if header.task == "binary":
        decision = _decision(model, positive)
        ranking = metrics.Ranking.of_class(decision.positive, codes, scores, rows.weight)
        figures = metrics.binary_metrics(header.classes, codes, scores, rows.weight, decision, ranking)
    else:
        figures = metrics.multiclass_metrics(header.classes, codes, scores, rows.weight)
    if (calibration := Calibration.of(model)) is not None:
        figures |= metrics.probability_metrics(codes, calibration.probabilities(scores), rows.weight)
    if ranking is not None:
        drawn = histogram(scores, codes, header.classes)
        return {"metrics": figures, "curves": ranking.curves(), "histogram": drawn}
    return {"metrics": figures, "curves": None, "histogram": histogram(scores.max(axis=1), None, [])}


def _decision(model: ModelFile, positive: Label | None) -> metrics.Decision:
    """Return the decision of a binary model. One without a positive class was trained before there was a choice, or
    imported: its own metrics are those of the second class."""
    wanted = positive if positive is not None else (model.header.card.get("params") or {}).get("positive_class")
    place = None if wanted is None else place_of(wanted, model.header.classes)
    threshold = 0.0 if model.thresholds is None else float(model.thresholds[0])
    return metrics.Decision(1 if place is None else place, threshold)


def histogram(scores: Array, codes: Array | None, classes: list[Any]) -> dict[str, Any] | None:
    """Return a histogram with equal-width bins; for two classes also one per class."""
    if not len(scores):
        return None
    counts, edges = np.histogram(scores, HISTOGRAM_BINS)
    counted: dict[str, Any] = {"edges": edges.tolist(), "counts": counts.tolist()}
    if codes is not None:
        counted["per_class"] = [
            {"label": label, "counts": np.histogram(scores[codes == code], edges)[0].tolist()}
            for code, label in enumerate(classes)
        ]
    return counted


def _codes(model: ModelFile, rows: DatasetArrays) -> Array:
    try:
        return rows.codes(model.header.classes)
    except KeyError as error:
        message = f"the dataset has a label that the model lacks: {error.args[0]!r:.60}; remove its rows"
        raise PermanentFailure("unknown_class", message, "dataset_id") from None
