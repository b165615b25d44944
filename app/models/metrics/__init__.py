"""Metrics of models on labelled rows, by task.

Every metric is a plain JSON value; None if it is not defined (a class without rows, no pair to compare). A row of
weight 2 counts as two rows. Only NDCG, which depends on positions in a list, ignores weights.
"""

from app.models.metrics.classification import binary_metrics, multiclass_metrics
from app.models.metrics.curves import Ranking
from app.models.metrics.probabilities import probability_metrics
from app.models.metrics.ranking import ordinal_metrics
from app.models.metrics.regression import regression_metrics

__all__ = [
    "Ranking",
    "binary_metrics",
    "multiclass_metrics",
    "ordinal_metrics",
    "probability_metrics",
    "regression_metrics",
]
