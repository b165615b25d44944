"""What is exported: one version of a model, and what every format says about it."""

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
"""Under this name formats that can hold a text of our own hold `describe`, as JSON."""


@dataclass(frozen=True)
class Subject:
    id: str
    name: str
    version: int
    file: ModelFile
    proof: Path | None = None
    """Where the weights and the dual point of its certificate are; None: they are not stored."""

    @property
    def arrays(self) -> dict[str, Array]:
        """Everything that the model file holds beside its header, by the same names."""
        named = {"coef": self.file.coef, "intercept": np.atleast_1d(np.asarray(self.file.intercept))}
        if self.file.thresholds is not None:
            named["thresholds"] = self.file.thresholds
        return {**named, **self.file.extra}

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """How raw columns become the features that the weights are of; None: they are the features."""
        document = self.file.header.preprocess
        return None if document is None else from_document(document, self.file.extra)

    @property
    def rows_of_weights(self) -> tuple[Array, Array]:
        """(coef, intercept) with a row a score, whatever the task."""
        return np.atleast_2d(self.file.coef), np.atleast_1d(np.asarray(self.file.intercept))


def describe(subject: Subject, difference: float | None) -> dict[str, Any]:
    """Everything but the arrays. `difference` is None while it is not yet known."""
    return {
        **subject.file.header.model_dump(exclude={"arrays"}),
        "model": {"id": subject.id, "name": subject.name, "version": subject.version},
        "max_score_difference": difference,
    }


def not_in(format_name: str, why: str, instead: str) -> Invalid:
    """The refusal of a model that a format cannot express."""
    return Invalid(f"{format_name} cannot hold this model: {why}; {instead}.", code="not_exportable")
