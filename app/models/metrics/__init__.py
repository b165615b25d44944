"""Metrics of models on labelled rows, by task.

Every metric is a plain JSON value; None if it is not defined (a class without rows, no pair to compare). A row of
weight 2 counts as two rows. Only NDCG, which depends on positions in a list, ignores weights.
"""

from app.models.metrics.baseline import class_baseline, most_frequent, number_baseline, rank_baseline
from app.models.metrics.classification import BY_SIGN, Decision, binary_metrics, multiclass_metrics
from app.models.metrics.curves import Ranking
from app.models.metrics.probabilities import probability_metrics
from app.models.metrics.ranking import ordinal_metrics
from app.models.metrics.regression import regression_metrics

__all__ = [
    "BY_SIGN",
    "Decision",
    "Ranking",
    "binary_metrics",
    "class_baseline",
    "most_frequent",
    "multiclass_metrics",
    "number_baseline",
    "ordinal_metrics",
    "probability_metrics",
    "rank_baseline",
    "regression_metrics",
]
