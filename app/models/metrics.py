"""How good a model is on labelled rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.datasets.schemas import Label

Array = np.ndarray[Any, Any]


def binary_metrics(classes: Sequence[Label], codes: Array, scores: Array) -> dict[str, Any]:
    """Metrics of one test: `codes` are positions in `classes`, a score > 0 predicts the second class."""
    positive = codes == 1
    predicted = scores > 0
    confusion = np.zeros((2, 2), dtype=np.int64)
    np.add.at(confusion, (codes, predicted.astype(np.int64)), 1)
    hits, false_alarms, misses = int(confusion[1, 1]), int(confusion[0, 1]), int(confusion[1, 0])
    accuracy = float(np.mean(predicted == positive))
    return {
        "rows": len(codes),
        "accuracy": accuracy,
        "error": 1.0 - accuracy,
        "precision": _ratio(hits, hits + false_alarms),
        "recall": _ratio(hits, hits + misses),
        "f1": _ratio(2 * hits, 2 * hits + false_alarms + misses),
        "roc_auc": _roc_auc(positive, scores),
        "confusion": {"labels": list(classes), "matrix": confusion.tolist()},
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _roc_auc(positive: Array, scores: Array) -> float | None:
    """The share of (positive, negative) pairs in the right order, a tie counting half."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return None
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(count) - (count - 1) / 2
    rank_sum = float(mean_rank[place][positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)
