"""The weights of a model for clients: all, the strongest with the names of their columns, or as one array."""

import io
from typing import Any

import numpy as np

from app.errors import invalid_field
from app.models.file import ModelFile
from app.models.schemas import ClassWeights, NamedWeight, StrongestWeights, Weights
from app.preprocess.features import Feature
from app.preprocess.pipeline_document import from_document
from app.tabular.types import Array

MAX_JSON_NUMBERS = 1_000_000
"""Maximum weights of a JSON response. Larger: more memory and time per request. Set by hand; no measurement is
recorded."""


def all_weights(model_id: str, stored: ModelFile) -> Weights:
    if stored.coef.size > MAX_JSON_NUMBERS:
        detail = (
            f"{stored.coef.size:,} weights are too many for JSON (limit {MAX_JSON_NUMBERS:,}); use `top` for "
            "the strongest, or `format=npy` for all"
        )
        raise invalid_field("format", "too_many_weights", detail)
    return Weights(
        model=model_id,
        task=stored.header.task,
        coef=stored.coef.tolist(),
        intercept=stored.intercept if isinstance(stored.intercept, float) else stored.intercept.tolist(),
        thresholds=None if stored.thresholds is None else stored.thresholds.tolist(),
        classes=stored.header.classes,
        feature_names=stored.header.feature_names,
    )


def npy_weights(stored: ModelFile) -> bytes:
    """Return an array with a row per class (one for other tasks) and the intercept in the last column."""
    coef = np.atleast_2d(stored.coef)
    table = np.hstack([coef, np.broadcast_to(stored.intercept, len(coef))[:, None]])
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=False)
    return buffer.getvalue()


def strongest_weights(model_id: str, stored: ModelFile, top: int) -> StrongestWeights:
    header = stored.header
    pipeline = None if header.preprocess is None else from_document(header.preprocess, stored.extra)
    coef = np.atleast_2d(stored.coef)
    strength = coef if pipeline is None else pipeline.strength(coef)
    labels: list[Any] = [None]
    if header.task in ("binary", "multiclass"):
        labels = header.classes if header.task == "multiclass" else header.classes[1:]

    def feature(number: int) -> Feature:
        if pipeline is not None:
            return pipeline.feature(number)
        name = header.feature_names[number] if header.feature_names else str(number)
        return Feature(name, name)

    classes = []
    for label, weights, strengths in zip(labels, coef, strength, strict=True):
        named = [
            NamedWeight(
                feature=found.name,
                column=found.column,
                level=found.level,
                word=found.word,
                weight=float(weights[number]),
                unit=found.unit,
                strength=float(strengths[number]),
            )
            for number in _largest(strengths, top)
            if (found := feature(number))
        ]
        classes.append(ClassWeights(label=label, weights=named))
    return StrongestWeights(model=model_id, task=header.task, n_features=header.n_features, classes=classes)


def _largest(values: Array, top: int) -> list[int]:
    """Return the positions of the largest absolute values, descending, without zeros; ties in the original order."""
    sizes = np.abs(values)
    if top < len(sizes):
        border = np.partition(sizes, len(sizes) - top)[len(sizes) - top]
        places = np.flatnonzero(sizes >= border)
    else:
        places = np.arange(len(sizes))
    places = places[np.argsort(-sizes[places], kind="stable")][:top]
    found: list[int] = places[sizes[places] > 0].tolist()
    return found
