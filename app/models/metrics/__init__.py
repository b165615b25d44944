"""How good a model is on labelled rows, by task.

Every figure is a plain JSON value; what cannot be said (a class that no row has, no pair to compare) is None.
A row of weight 2 counts as the row twice; NDCG alone, which asks for places in a list, does not know weights.
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
