"""What scores mean, by task: classes, ranks or numbers."""

from typing import Any

import numpy as np

from app.models.file import ModelFile

Array = np.ndarray[Any, Any]

OUTPUTS: dict[str, tuple[str, ...]] = {
    "binary": ("label", "score"),
    "multiclass": ("label", "score", "scores"),
    "ordinal": ("label", "rank", "score"),
    "regression": ("label", "score"),
}
EVERY_OUTPUT = ("label", "rank", "score", "scores")
DEFAULT_OUTPUTS = ("label", "score")


def offered(model: ModelFile) -> tuple[str, ...]:
    """What can be asked of a model."""
    if model.header.task == "ordinal" and model.thresholds is None:
        return ("score",)  # it orders rows by real-valued relevance; there are no ranks to name
    return OUTPUTS[model.header.task]


def answer(model: ModelFile, scores: Array, wanted: tuple[str, ...]) -> dict[str, list[Any]]:
    """For each wanted output a value a row, in the order of `wanted`."""
    columns: dict[str, list[Any]] = {}
    for name in wanted:
        if name == "score":
            columns[name] = (scores if scores.ndim == 1 else scores.max(axis=1)).tolist()
        elif name == "scores":
            columns[name] = scores.tolist()
        else:  # the label of an ordinal model is its rank
            columns[name] = _labels(model, scores)
    return columns


def _labels(model: ModelFile, scores: Array) -> list[Any]:
    classes = model.header.classes
    if model.header.task == "binary":
        return [classes[1] if score > 0 else classes[0] for score in scores.tolist()]
    if model.header.task == "multiclass":
        return [classes[number] for number in scores.argmax(axis=1).tolist()]
    if model.thresholds is not None:
        return [classes[number] for number in np.searchsorted(model.thresholds, scores, side="left").tolist()]
    numbers: list[Any] = scores.tolist()
    return numbers
