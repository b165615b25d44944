"""`LinearSVMRegressor`: numbers, a drop-in for scikit-learn's LinearSVR."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from hyperplane._estimators.base import LinearSVMBase, has_folds

__all__ = ["LinearSVMRegressor"]

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class LinearSVMRegressor(RegressorMixin, LinearSVMBase):
    """Linear regression by support vectors, with a proven distance from the optimum.

    The parameters of LinearSVR mean the same, except that `tol` is the proven relative gap and `max_iter` counts passes
    over the rows; `dual` and `verbose` have no effect. Further parameters: see `LinearSVMClassifier`.
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-4,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: Any = "auto",
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        bias: str | None = None,
        cross_validation: int | None = None,
        remote: Any = None,
        remote_model: str = "regressor",
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.bias = bias
        self.cross_validation = cross_validation
        self.remote = remote
        self.remote_model = remote_model

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LinearSVMRegressor":
        """Train on rows X with numbers y."""
        X, y = self._read(X, y, numbers=True)
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r} is unknown; use one of {', '.join(LOSSES)}")
        parameters = {"task": "regression", "loss": self.loss, "epsilon": self.epsilon}
        solution = self._train(X, y.astype(np.float64), sample_weight, parameters)
        self.coef_ = np.asarray(solution.coef)
        self.intercept_ = np.atleast_1d(solution.intercept)
        return self

    def predict(self, X: Any) -> Any:
        """Return the number for each row."""
        X = self._read_rows(X)
        return np.asarray(X @ self.coef_) + self.intercept_

    @available_if(has_folds)
    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Return an interval for each row, its lower and its upper end; infinite: there is no bound on this side.

        It contains the true number with about the probability `coverage`.
        """
        return self._set_of_each_row(X, coverage)
