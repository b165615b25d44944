"""The model version to export, and the description that all formats include."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import Invalid
from app.models.file import ModelFile
from app.preprocess.pipeline import Pipeline
from app.preprocess.pipeline_document import from_document
from app.tabular.types import Array

KEY = "hyperplane"
"""Key under which formats with custom metadata store `describe`, as JSON."""


@dataclass(frozen=True)
class Subject:
    id: str
    name: str
    version: int
    file: ModelFile
    proof: Path | None = None
    """Path of the proof (weights and dual point of its certificate); None: not stored."""

    @property
    def arrays(self) -> dict[str, Array]:
        """Return all arrays of the model file, by the same names."""
        named = {"coef": self.file.coef, "intercept": np.atleast_1d(np.asarray(self.file.intercept))}
        if self.file.thresholds is not None:
            named["thresholds"] = self.file.thresholds
        return {**named, **self.file.extra, **self.file.set_arrays}

    @property
    def threshold(self) -> float | None:
        """Return the tuned decision threshold of a binary model; None: it is 0, or the task has none."""
        limits = self.file.thresholds
        return float(limits[0]) if self.file.header.task == "binary" and limits is not None else None

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """Return the preprocessing; None: raw columns are the features."""
        document = self.file.header.preprocess
        return None if document is None else from_document(document, self.file.extra)

    @property
    def rows_of_weights(self) -> tuple[Array, Array]:
        """Return (coef, intercept) with one row per score, for any task."""
        return np.atleast_2d(self.file.coef), np.atleast_1d(np.asarray(self.file.intercept))


def describe(subject: Subject, difference: float | None) -> dict[str, Any]:
    """Return everything except the arrays. `difference`: measured score difference; None: not measured yet."""
    return {
        **subject.file.header.model_dump(exclude={"arrays"}),
        "model": {"id": subject.id, "name": subject.name, "version": subject.version},
        "max_score_difference": difference,
    }


def not_in(format_name: str, why: str, instead: str) -> Invalid:
    """Build the error for a model that a format cannot express."""
    return Invalid(f"The format {format_name} cannot express this model: {why}; {instead}.", code="not_exportable")
