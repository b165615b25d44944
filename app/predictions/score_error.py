"""Bounds the distance of a returned score from the score of the exact optimum, by certificate and rounding.

The guarantee. Let x be the row's features as this service has them in float64 (missing values filled, levels and
terms counted), and z = (x - shift) / scale in exact arithmetic, the row in the units of the solver. Let w*, b* be the
exact optimum of the training problem, whose rows are those that the solver saw. The score s in the answer satisfies

    |s - (w* . z + b*)| <= sqrt(|z|^2 + beta^2) sqrt(2 gap) + rounding

Proof. The objective is 1/2 |w|^2 + 1/2 (b / beta)^2 + a convex loss, whatever the scale of C, so the solver's weights
(w, b), whose objective is at most `gap` above the optimum, are within sqrt(2 gap) of the optimal ones, and by
Cauchy-Schwarz |w . z + b - (w* . z + b*)| is at most the first term, with beta = bias_scale, or 0 without a bias. Each
class of a one-vs-rest model has a gap of its own; classes that were trained jointly share one, and a difference of two
of their scores is within sqrt(2) times the first term. A free bias is not in the objective: nothing is known.

`rounding` bounds |s - (w . z + b)|. Let u = 2^-53. The served weights are w'_j = w_j / scale_j, with an error of at
most u |w'_j| + 2^-1074 each. The served intercept is b' = b - sum_j w'_j shift_j, with an error of at most
(r + 2) u (sum_j |w'_j shift_j| + |b'|) for r shifts that are not 0. So w' . x + b', in exact arithmetic, is within

    sum_j (u |w'_j| + 2^-1074) (|x_j| + |shift_j|) + (r + 2) u (sum_j |w'_j shift_j| + |b'|)

of w . z + b. The score is w' . x + b' summed in float64. Each of its m terms is rounded at most 2 m + 2 times (by
column, then over columns), which is an error of at most (2 m + 3) u (sum_j |w'_j x_j| + |b'|) (Higham 2002, section
3.1). The figures are rounded up: by a factor for their own rounding, and by SMALLEST for underflow.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from app.models import linear
from app.models.file import Header, ModelFile
from app.models.linear import Matrix, class_positions
from app.predictions.model_features import Features
from app.tabular.types import Array

UNIT = 2.0**-53
"""u, the largest relative error of one operation in float64."""
UP = 1.0 + 16 * UNIT
"""Factor on a computed bound. It covers the rounding errors of the few operations that compute the bound."""
SMALLEST = 2.0**-1000
"""Upper bound of the total error of 2^70 operations that underflow, 2^-1074 each."""
LOST_WEIGHT = 2.0**-1021
"""Bound of the error of a weight whose quotient underflowed, in multiples of u: u times this is 2^-1074."""


class RowErrors(NamedTuple):
    """Figures of rows that a bound needs. Both are rounded up, and infinite if they overflow."""

    norms: Array
    """|z|: Euclidean norm of each row in the units of the solver."""
    rounding: Array
    """Bound of the rounding error of each score, in the shape of the scores."""


@np.errstate(over="ignore", invalid="ignore")
def row_errors(matrix: Matrix, model: ModelFile, features: Features) -> RowErrors:
    """Compute the figures of rows of features in raw units."""
    matrix = matrix.astype(np.float64, copy=False)  # a stored table can have single precision
    coef, intercept = np.atleast_2d(model.coef), np.abs(np.atleast_1d(model.intercept))
    if linear.is_sparse(matrix):
        terms = np.diff(matrix.indptr)
        sizes = linear.row_sums(abs(matrix))
        products = np.stack([linear.row_sums(abs(linear.contributions(matrix, one))) for one in coef], axis=1)
    else:
        terms, absolute = np.full(len(matrix), matrix.shape[1]), np.abs(matrix)
        sizes = absolute.sum(axis=1)
        products = absolute @ np.abs(coef).T
    shifted = np.flatnonzero(features.shift)
    moved = np.abs(features.shift[shifted])
    of_shift = np.abs(coef[:, shifted]) @ moved + LOST_WEIGHT * moved.sum()
    of_score = products + LOST_WEIGHT * sizes[:, None] + intercept
    # Sums of m numbers have a relative error of at most m u: counted twice.
    loss_of_sums = 1.0 + 4.0 * UNIT * (terms + 8.0)
    rounding = 2.0 * UNIT * (terms + 4.0)[:, None] * of_score * loss_of_sums[:, None]
    rounding += UNIT * (len(shifted) + 8.0) * (of_shift + intercept) * (1.0 + 4.0 * UNIT * (len(shifted) + 8.0))
    rounding = rounding * UP + SMALLEST
    norms = features.norms(matrix) * (1.0 + 2.0 * UNIT * (matrix.shape[1] + 16.0)) + SMALLEST
    return RowErrors(norms, rounding if model.coef.ndim == 2 else rounding[:, 0])


@dataclass(frozen=True)
class Certainty:
    radius: float | Array
    """sqrt(2 gap): bound of the distance of the weights from the optimum; one per class of a one-vs-rest model."""
    beta: float

    @classmethod
    def of(cls, header: Header) -> "Certainty | None":
        """Read the certificate of a card; None: it proves nothing about single scores."""
        params, certificate = header.card.get("params") or {}, header.card.get("certificate") or {}
        if certificate.get("claimed"):
            return None  # imported with the model and not recomputed
        beta = _beta(header.task, params)
        is_one_vs_rest = header.task == "multiclass" and header.strategy == "ovr"
        parts = certificate.get("per_class") if is_one_vs_rest else [certificate]
        gaps = [part.get("gap") for part in parts or []]
        if beta is None or not gaps or not all(_is_size(gap) for gap in gaps):
            return None
        radius = np.sqrt(2.0 * np.array(gaps, dtype=np.float64)) * UP + SMALLEST
        if is_one_vs_rest and len(radius) != len(header.classes):
            return None
        return cls(radius if is_one_vs_rest else float(radius[0]), beta)

    @np.errstate(over="ignore", invalid="ignore")
    def bounds(self, errors: RowErrors) -> Array:
        """Return the error bound of each score, in the shape of the scores. Not finite: it overflows."""
        reach, rounding = self._reach(errors.norms), errors.rounding
        bounds: Array = (reach if reach.ndim == rounding.ndim else reach[:, None]) + rounding
        return bounds * UP

    @np.errstate(over="ignore", invalid="ignore")
    def is_label_certain(self, errors: RowErrors, scores: Array, threshold: float = 0.0) -> Array:
        """Whether the exact optimum, with the same decision threshold, provably predicts the same class for each row. A
        bound that overflows proves nothing: no score is above NaN or infinity."""
        bounds = self.bounds(errors)
        if scores.ndim == 1:
            rounded = UP if threshold else 1.0  # covers the rounding of the difference
            return np.abs(scores - threshold) > bounds * rounded
        best = class_positions(scores)[:, None]
        lead = np.take_along_axis(scores, best, axis=1) - scores
        if isinstance(self.radius, float):  # trained jointly: one ball for all classes
            rounding = np.take_along_axis(errors.rounding, best, axis=1) + errors.rounding
            least = (math.sqrt(2.0) * self._reach(errors.norms)[:, None] + rounding) * UP
        else:
            least = (np.take_along_axis(bounds, best, axis=1) + bounds) * UP
        certain = lead > least
        np.put_along_axis(certain, best, True, axis=1)
        every: Array = certain.all(axis=1)
        return every

    def _reach(self, norms: Array) -> Array:
        """Bound the distance of exact scores from those of the optimum: per row, or per row and class."""
        lengths = np.hypot(norms, self.beta) * UP
        return (lengths if isinstance(self.radius, float) else lengths[:, None]) * self.radius


def _beta(task: str, params: dict[str, Any]) -> float | None:
    if task == "ordinal":
        return 0.0  # a bias would cancel out, so there is none
    if params.get("bias") == "none":
        return 0.0
    scale: Any = params.get("bias_scale")
    return float(scale) if params.get("bias") == "regularized" and _is_size(scale) else None


def _is_size(value: Any) -> bool:
    """Whether the value is a finite number of at least 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value < math.inf
