"""The metric of a search: a name that `solvers.tune` knows, or a function of scores and rows.

`solvers.tune` can bound the metrics that it knows, so it can prove a search by them. Metrics that need weights or
groups of rows are computed by app/models/metrics, without bounds.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

import solvers
from app.jobs.validation.task import CLASS_TASKS
from app.models import metrics
from app.models.metrics.ranking import count_pairs, ndcg
from app.tabular.types import Array
from app.worker.train.load import Work
from app.worker.train.result_metrics import decision_of

LOWER_IS_BETTER = frozenset({"error", "balanced_error", "mae", "mse", "rmse", "swapped_pairs"})
WITHOUT_BOUNDS = frozenset({"precision", "recall", "matthews"})
"""Class metrics that `solvers.tune` does not implement. app/models/metrics computes them, without bounds."""
NDCG_PLACES = 10
"""Number of top rows that NDCG counts. Larger: rows further down the list count. Set by hand; no measurement is
recorded."""

OF_POSITIVE = frozenset({"f1", "pr_auc"})
"""Metrics of two classes that `solvers.tune` implements for the second class only."""

Value = Callable[[Array, Array], float]
"""(scores, numbers of the held-out rows) -> the metric."""


def metric_for(name: str, work: Work) -> str | solvers.Scorer:
    """Return the metric in the form that `solvers.tune` takes."""
    if work.task == "ordinal":
        return solvers.Scorer(name, name not in LOWER_IS_BETTER, _of_ranks(name, work))
    is_known = name not in WITHOUT_BOUNDS and not (name in ("roc_auc", "pr_auc") and work.task == "multiclass")
    is_known = is_known and not (name in OF_POSITIVE and decision_of(work).positive == 0)
    if work.train.weight is None and is_known:
        return name
    value = _of_classes(name, work) if work.task in CLASS_TASKS else _of_numbers(name, work)
    return solvers.Scorer(name, name not in LOWER_IS_BETTER, value)


def _of_classes(name: str, work: Work) -> Value:
    values, codes = np.unique(work.train.y, return_inverse=True)
    labels = [work.train.label(value) for value in values]
    weight = work.train.weight
    figures = metrics.multiclass_metrics
    if len(labels) == 2:
        figures = partial(metrics.binary_metrics, decision=decision_of(work))

    def value(scores: Array, rows: Array) -> float:
        found = figures(labels, codes[rows], scores, None if weight is None else weight[rows])
        if name == "balanced_error":
            return 1.0 - _defined(found["balanced_accuracy"], name)
        return _defined(found[name], name)

    return value


def _of_numbers(name: str, work: Work) -> Value:
    y, weight = work.train.y, work.train.weight

    def value(scores: Array, rows: Array) -> float:
        found = metrics.regression_metrics(y[rows], scores, None if weight is None else weight[rows])
        if name == "mse":
            return _defined(found["rmse"], name) ** 2
        return _defined(found[name], name)

    return value


def _of_ranks(name: str, work: Work) -> Value:
    y, weight = work.train.y, work.train.weight
    group = np.zeros(len(y), dtype=np.int64) if work.train.group is None else work.train.group

    def value(scores: Array, rows: Array) -> float:
        if name == "ndcg":
            return _defined(ndcg(y[rows], scores, group[rows], NDCG_PLACES), name)
        pairs = count_pairs(y[rows], scores, group[rows], None if weight is None else weight[rows])
        if name == "kendall_tau":
            return _defined(pairs.kendall_tau(), name)
        return _defined((pairs.swapped + 0.5 * pairs.tied) / pairs.all if pairs.all > 0 else None, name)

    return value


def _defined(value: float | None, name: str) -> float:
    if value is None:
        raise solvers.InvalidProblem("folds", f"{name} is undefined on the held-out rows of a fold; use fewer folds")
    return value
