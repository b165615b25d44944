"""Prediction sets by CV+: sets of labels and intervals that contain the truth with a stated probability.

A training with K folds keeps its K fold models and the score of every training row under the model that did not see it.
A new row gets the K scores of the fold models. A candidate answer is left out of the set if it is stranger than most
held-out rows. Each held-out row is compared under the fold model that did not see it (Barber, Candes, Ramdas and
Tibshirani 2021; for labels Romano, Sesia and Candes 2020).

- Numbers: strangeness is the distance from the predicted number, and the set is an interval.
- Labels: strangeness of a label is how far the best other score exceeds its own (hinge). A label is compared with the
  held-out rows of that label only, because folds are drawn by class. So the coverage holds for each class.

With alpha = 1 - requested, and n rows (of a class) in K folds, the coverage is at least

    1 - 2 alpha - 2 (1 - 1/K) / (n/K + 1)

for rows that are exchangeable (within a class). Proof: in fold k with m_k rows, p_k = (1 + number of its rows at least
as strange as the candidate) / (m_k + 1) is a p-value of the true answer. An answer that is left out has at most n -
rank such rows in all folds, so the mean of the p_k, weighted by m_k + 1, is at most (alpha (n + 1) + K - 1) / (n + K).
A weighted mean of p-values is at most e with a probability of at most 2 e (Rueschendorf 1982). If all folds have n/K
rows, the coverage is also at least 1 - 2 alpha - (1 - K/n) / (K + 1) (Barber et al. 2021, theorem 4).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from app.errors import CorruptModel
from app.models import file
from app.models.file import ModelFile
from app.tabular.types import Array

MOST_FOLDS = 50
"""Maximum fold models of a model: the limit of `cross_validation.folds`. Larger: larger files, slower predictions of
sets."""
BISECTIONS = 200
"""Maximum bisection steps to find one end of a set. 64-bit floats need fewer steps, so the limit is not reached."""


@dataclass(frozen=True)
class PredictionSets:
    """The fold models of a model, and the strangeness of its held-out rows."""

    folds: list[ModelFile]
    strangeness: list[list[Array]]
    """By class (regression: one entry), then by fold: the strangeness of the rows of the fold, ascending."""
    reason: str | None
    """Why the coverage is not guaranteed; None: it is."""

    @classmethod
    def of(cls, model: ModelFile) -> "PredictionSets | None":
        """Read the sets of a model; None: it has none. Raises CorruptModel."""
        described = model.header.sets
        if described is None:
            return None
        count, arrays = described.get("folds"), model.set_arrays
        groups = max(1, len(model.header.classes))
        if not isinstance(count, int) or not 2 <= count <= MOST_FOLDS or model.header.task == "ordinal":
            raise CorruptModel("the number of fold models is not valid")
        scores, counts = arrays.get("sets.scores"), arrays.get("sets.counts")
        names = {f"sets.{number}" for number in range(count)} | {"sets.scores", "sets.counts"}
        if scores is None or counts is None or set(arrays) != names:
            raise CorruptModel("an array of the prediction sets is missing")
        if counts.shape != (groups, count) or counts.dtype.kind != "i" or (counts < 0).any() or scores.ndim != 1:
            raise CorruptModel("the counts of the prediction sets have the wrong shape")
        if counts.sum() != len(scores) or scores.dtype.kind != "f":
            raise CorruptModel("the prediction sets need one score for each row")
        parts = np.split(scores, np.cumsum(counts.ravel())[:-1])
        if any((np.diff(part) < 0).any() for part in parts):
            raise CorruptModel("the scores of the prediction sets are not in order")
        grouped = [parts[place : place + count] for place in range(0, len(parts), count)]
        folds = [_fold(model, arrays[f"sets.{number}"]) for number in range(count)]
        return cls(folds, grouped, described.get("reason"))

    def coverage(self, requested: float) -> dict[str, Any]:
        """Return the requested, the nominal and the proven coverage. With several classes, the figures are those of the
        worst class."""
        nominal, guaranteed = 1.0, 1.0
        for parts in self.strangeness:
            sizes = [len(part) for part in parts if len(part)]
            n = sum(sizes)
            if (rank := _rank(requested, n)) > n:
                continue  # the answer is never left out
            nominal = min(nominal, rank / (n + 1))
            guaranteed = min(guaranteed, max(0.0, 1.0 - 2.0 * (1.0 - requested) - excess(sizes)))
        proven = guaranteed if self.reason is None else None
        return {"requested": requested, "nominal": nominal, "guaranteed": proven, "reason": self.reason}

    def labels(self, scores: Sequence[Array], classes: Sequence[Any], requested: float) -> list[list[Any]]:
        """Return the labels of each row's set. `scores`: those of each fold model."""
        strange = [strangeness(one) for one in scores]
        kept = np.ones(strange[0].shape, dtype=bool)
        for place, parts in enumerate(self.strangeness):
            less = np.zeros(len(kept), dtype=np.int64)
            for part, candidate in zip(parts, strange, strict=True):
                less += np.where(np.isfinite(candidate[:, place]), np.searchsorted(part, candidate[:, place]), 0)
            kept[:, place] = less < _rank(requested, sum(map(len, parts)))
        return [[label for label, is_kept in zip(classes, row, strict=True) if is_kept] for row in kept.tolist()]

    def intervals(self, scores: Sequence[Array], requested: float) -> list[dict[str, float | None]]:
        """Return {low, high} of each row; None: there is no bound on this side."""
        (parts,) = self.strangeness
        rank = _rank(requested, sum(map(len, parts)))
        high = _ranked(parts, np.array(scores), rank)
        low = -_ranked(parts, -np.array(scores), rank)
        ends = zip(np.minimum(low, high).tolist(), np.maximum(low, high).tolist(), strict=True)
        return [{"low": _bound(one), "high": _bound(other)} for one, other in ends]


def strangeness(scores: Array) -> Array:
    """Return how far the best other score exceeds that of each class: one column for each class."""
    if scores.ndim == 1:
        return np.column_stack([scores, -scores])
    strange = np.empty(scores.shape)
    for place in range(scores.shape[1]):
        strange[:, place] = np.delete(scores, place, axis=1).max(axis=1) - scores[:, place]
    return strange


def excess(sizes: Sequence[int]) -> float:
    """Return what the proof subtracts from 1 - 2 alpha, for folds of these sizes."""
    n, count = sum(sizes), len(sizes)
    of_any_sizes = 2.0 * (1.0 - 1.0 / count) / (n / count + 1.0)
    return min(of_any_sizes, (1.0 - count / n) / (count + 1.0)) if len(set(sizes)) == 1 else of_any_sizes


def _rank(requested: float, n: int) -> int:
    """Return the number of held-out rows, from the least strange, that a candidate may be as strange as."""
    return math.ceil(Fraction(repr(requested)) * (n + 1))


def _ranked(parts: Sequence[Array], centres: Array, rank: int) -> Array:
    """Return, for each row, the value of this rank among all sums centre + distance, rounded up; infinity: there are
    fewer sums.

    `parts`: ascending distances by fold. `centres`: one row for each fold.
    """
    n_rows = centres.shape[1]
    if rank > sum(map(len, parts)):
        return np.full(n_rows, np.inf)
    filled = [(part, centre) for part, centre in zip(parts, centres, strict=True) if len(part)]
    low = np.min([centre + part[0] for part, centre in filled], axis=0)
    high = np.max([centre + part[-1] for part, centre in filled], axis=0)
    low = np.nextafter(low, -np.inf)
    is_known = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(is_known, low, 0.0), np.where(is_known, high, 0.0)
    for _ in range(BISECTIONS):
        middle = low + 0.5 * (high - low)
        if not ((low < middle) & (middle < high)).any():
            break
        counts = sum(np.searchsorted(part, middle - centre, side="right") for part, centre in filled)
        enough = np.asarray(counts) >= rank
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(is_known, high, np.inf)


def _bound(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _fold(model: ModelFile, content: Array) -> ModelFile:
    if content.ndim != 1 or content.dtype != np.uint8:
        raise CorruptModel("a fold model has the wrong type")
    fold = file.decode(np.ascontiguousarray(content).data)
    header, own = model.header, fold.header
    if (own.task, own.classes, own.sets) != (header.task, header.classes, None):
        raise CorruptModel("a fold model has another task or other classes than the model")
    is_raw = header.preprocess is None
    if (own.preprocess is None) != is_raw or (is_raw and own.n_features != header.n_features):
        raise CorruptModel("a fold model has other preprocessing than the model")
    return fold
