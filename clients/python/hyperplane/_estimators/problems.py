"""A training problem, and its solution, in the form that local and remote training share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperplane._shared.types import Certificate

__all__ = ["Problem", "Solution", "gaps_of"]

Array = Any


@dataclass(frozen=True)
class Problem:
    """Rows, labels and what to train. Labels of classes are 0, 1, 2 and so on."""

    X: Any
    y: Array
    weight: Array | None
    groups: Array | None
    parameters: Mapping[str, Any]
    """Parameters of the problem, under the names of `solvers.train` and of a training job."""
    solver: str
    tol: float
    max_passes: int | None
    seed: int


@dataclass(frozen=True)
class Solution:
    """Weights with their certificate."""

    coef: Array
    """One weight for each feature; several classes: one row for each class."""
    intercept: Array
    thresholds: Array | None
    certificate: Certificate
    gaps: Array
    """Proven bound of objective - optimum: one number, or one for each class of a one-vs-rest model. NaN: none."""
    solver: str
    converged: bool
    passes: int
    model_id: str | None = None
    """Id of the model on the service; None: trained here."""


def gaps_of(certificate: Mapping[str, Any]) -> Array:
    """Return the gap of each part of a certificate."""
    parts = certificate.get("per_class") or [certificate]
    return np.array([np.nan if part["gap"] is None else part["gap"] for part in parts], dtype=np.float64)
