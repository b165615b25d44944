"""`LinearSVMRanker`: an order of rows, learnt from pairs of rows with different relevance."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from hyperplane._estimators.base import LinearSVMBase

__all__ = ["LinearSVMRanker"]


class LinearSVMRanker(LinearSVMBase):
    """Linear ranking by pairs, with a proven distance from the optimum.

    `predict` returns scores: a larger score is a higher rank. There is no intercept, which would cancel out of every
    pair. `tol`, `max_iter` and further parameters: see `LinearSVMClassifier`.
    """

    fit_intercept = False
    intercept_scaling = 1.0
    bias = None
    cross_validation = None

    def __init__(
        self,
        *,
        tol: float = 1e-4,
        C: float = 1.0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        remote: Any = None,
        remote_model: str = "ranker",
    ) -> None:
        self.tol = tol
        self.C = C
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.remote = remote
        self.remote_model = remote_model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> "LinearSVMRanker":
        """Train on rows X with relevance y. Only rows of the same group are compared; None: all rows are one group."""
        X, y = self._read(X, y, numbers=True)
        if X.shape[0] < 2:
            raise ValueError(f"n_samples={X.shape[0]}: a ranking needs pairs of rows")
        parameters = {"task": "ordinal"}
        solution = self._train(X, y.astype(np.float64), None, parameters, groups=_read_groups(groups, X))
        self.coef_ = np.asarray(solution.coef)
        self.intercept_ = np.zeros(1)
        return self

    def predict(self, X: Any) -> Any:
        """Return the score of each row."""
        X = self._read_rows(X)
        return np.asarray(X @ self.coef_)

    def score(self, X: Any, y: Any, *, groups: Any = None) -> float:
        """Return the share of pairs of one group with different relevance that the scores order rightly.

        A pair with equal scores counts half. NaN: there is no pair.
        """
        scores = self.predict(X)
        relevance = column_or_1d(y)
        group = _read_groups(groups, X)
        right = pairs = 0.0
        for one in [None] if group is None else np.unique(group):
            rows = slice(None) if one is None else group == one
            ordered, total = _ordered_pairs(relevance[rows], scores[rows])
            right, pairs = right + ordered, pairs + total
        return right / pairs if pairs else float("nan")


def _read_groups(groups: Any, X: Any) -> Any:
    if groups is None:
        return None
    found = column_or_1d(groups)
    check_consistent_length(X, found)
    return np.unique(found, return_inverse=True)[1]


def _ordered_pairs(relevance: Any, scores: Any) -> tuple[float, float]:
    """Return (number of pairs in the right order, number of all pairs). For each level, counts the rows of lower
    relevance with a lower score by binary search."""
    right = pairs = 0.0
    for level in np.unique(relevance)[1:]:
        lower, own = np.sort(scores[relevance < level]), scores[relevance == level]
        below, not_above = np.searchsorted(lower, own, "left"), np.searchsorted(lower, own, "right")
        right += 0.5 * float(below.sum() + not_above.sum())
        pairs += float(len(lower) * len(own))
    return right, pairs
