"""How far a score can be from that of the exact optimum, by the model's certificate.

The objective is 1/2 |w|^2 + 1/2 (b / beta)^2 + a convex loss, whatever the scale of C, so weights whose objective is
`gap` above the optimum are within sqrt(2 gap) of the optimal ones, and a score f = w . x + b within

    |f - f*| <= sqrt(|x|^2 + beta^2) sqrt(2 gap)

with x as the solver saw it and beta = bias_scale, or 0 without a bias. Each class of a one-vs-rest model has a gap of
its own; classes that were trained jointly share one, and a difference of two of their scores is within
2 sqrt(|x|^2 + beta^2) sqrt(gap). A free bias is not in the objective: nothing is known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.models.file import Header
from app.models.linear import class_positions
from app.tabular.types import Array


@dataclass(frozen=True)
class Certainty:
    radius: float | Array
    """sqrt(2 gap): how far the weights can be from the optimal ones; one a class, if each has its own problem."""
    beta: float

    @classmethod
    def of(cls, header: Header) -> "Certainty | None":
        """None: the model's card proves nothing about single scores."""
        params, certificate = header.card.get("params") or {}, header.card.get("certificate") or {}
        if certificate.get("claimed"):
            return None  # it came with an imported model, and nothing here has recomputed it
        beta = _beta(header.task, params)
        is_one_vs_rest = header.task == "multiclass" and header.strategy == "ovr"
        parts = certificate.get("per_class") if is_one_vs_rest else [certificate]
        gaps = [part.get("gap") for part in parts or []]
        if beta is None or not gaps or any(gap is None for gap in gaps):
            return None
        radius = np.sqrt(2.0 * np.maximum(np.array(gaps, dtype=np.float64), 0.0))
        if is_one_vs_rest and len(radius) != len(header.classes):
            return None
        return cls(radius if is_one_vs_rest else float(radius[0]), beta)

    @np.errstate(over="ignore", invalid="ignore")
    def bounds(self, norms: Array) -> Array:
        """What each score can be off by: one a row, or one a row and class. Not finite: too large to be a number."""
        lengths = np.hypot(norms, self.beta)
        return lengths * self.radius if isinstance(self.radius, float) else lengths[:, None] * self.radius

    def is_label_certain(self, norms: Array, scores: Array) -> Array:
        """Whether the exact optimum would give each row the same class."""
        bounds = self.bounds(norms)
        if scores.ndim == 1:
            return np.abs(scores) > bounds
        best = class_positions(scores)[:, None]
        lead = np.take_along_axis(scores, best, axis=1) - scores
        if bounds.ndim == 1:  # trained jointly: of two scores' difference
            certain = lead > np.sqrt(2.0) * bounds[:, None]
        else:
            certain = lead > np.take_along_axis(bounds, best, axis=1) + bounds
        np.put_along_axis(certain, best, True, axis=1)
        every: Array = certain.all(axis=1)
        return every


def _beta(task: str, params: dict[str, Any]) -> float | None:
    if task == "ordinal":
        return 0.0  # a bias would cancel out, so there is none
    if params.get("bias") == "none":
        return 0.0
    scale = params.get("bias_scale")
    return float(scale) if params.get("bias") == "regularized" and isinstance(scale, int | float) else None
