"""Code that the estimators share: parameters, training, fitted attributes and bounds on scores."""

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hyperplane._estimators.local import train_here
from hyperplane._estimators.prediction_sets import FoldModels, fold_models
from hyperplane._estimators.problems import Problem, Solution
from hyperplane._estimators.remote import sets_from, train_there
from hyperplane._estimators.score_error import error_bounds

__all__ = ["LinearSVMBase", "has_folds"]

LARGEST_SEED = 2**31 - 1


def has_folds(estimator: "LinearSVMBase") -> bool:
    """Whether it was fitted with fold models, or will be if it is not fitted yet. Raises AttributeError: it was not."""
    if getattr(estimator, "_n_folds", estimator.cross_validation) is None:
        raise AttributeError("predict_set needs fold models; set cross_validation=10, or another number, and fit again")
    return True


class LinearSVMBase(BaseEstimator):
    """Base class of the estimators. Subclasses list their parameters in `__init__`, as scikit-learn requires."""

    tol: float
    C: float
    fit_intercept: bool
    intercept_scaling: float
    bias: str | None
    solver: str
    random_state: Any
    max_iter: int
    cross_validation: int | None
    remote: Any
    remote_model: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read(self, X: Any, y: Any, *, numbers: bool) -> tuple[Any, Any]:
        """Check rows and labels; remember the number and the names of the features."""
        read: tuple[Any, Any] = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            accept_large_sparse=False,
            y_numeric=numbers,
        )
        return read

    def _read_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, order="C", accept_large_sparse=False, reset=False
        )

    def _train(
        self, X: Any, y: Any, sample_weight: Any, parameters: Mapping[str, Any], *, groups: Any = None
    ) -> Solution:
        """Train here or on the service, and set the attributes that all estimators have."""
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        shared = {"C": self.C, "bias": self._bias(), "bias_scale": float(self.intercept_scaling)}
        problem = Problem(
            X,
            y,
            weight,
            groups,
            parameters={**shared, **parameters},
            solver=self.solver,
            tol=self.tol,
            max_passes=self.max_iter,
            seed=self._seed(),
        )
        folds = self._fold_count()
        self._sets: FoldModels | None = None
        if self.remote is not None:
            solution = train_there(problem, self.remote, self.remote_model, folds)
        else:
            solution = train_here(problem)
            self._sets = fold_models(problem, folds, train_here) if folds else None
        self._n_folds = folds
        if not solution.converged:
            gap = solution.certificate.relative_gap
            message = f"max_iter={self.max_iter} passes ended at a relative gap of {gap}; tol is {self.tol}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        self.certificate_ = solution.certificate
        self.solver_ = solution.solver
        self.model_id_ = solution.model_id
        self.n_iter_ = max(1, solution.passes)
        self._gaps = solution.gaps
        return solution

    def _set_of_each_row(self, X: Any, coverage: float) -> Any:
        """Return the prediction sets: of classes whether each is in it, of numbers both ends of the interval."""
        X = self._read_rows(X)
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage={coverage!r} must be above 0 and below 1")
        classes = getattr(self, "classes_", None)
        if self._sets is not None:
            return self._sets.intervals(X, coverage) if classes is None else self._sets.labels(X, coverage)
        assert self.model_id_ is not None
        return sets_from(self.remote, self.model_id_, X, coverage, None if classes is None else len(classes))

    def score_error_bound(self, X: Any) -> Any:
        """Return a proven bound on the distance of each score from that of the exact optimum, rounding included.

        In the shape of the scores. Infinite with a free bias, about which the certificate proves nothing.
        """
        X = self._read_rows(X)
        bias = self._bias()
        beta = {"none": 0.0, "regularized": float(self.intercept_scaling)}.get(bias, np.inf)
        coef = np.atleast_2d(self.coef_)
        bounds = error_bounds(X, coef, np.atleast_1d(self.intercept_), self._gaps, beta)
        return bounds[:, 0] if coef.shape[0] == 1 else bounds

    def _bias(self) -> str:
        """Return how the intercept is treated: `bias` if it is given, else what `fit_intercept` says."""
        if self.bias is not None:
            return self.bias
        return "regularized" if self.fit_intercept else "none"

    def _fold_count(self) -> int | None:
        if self.cross_validation is None:
            return None
        if not isinstance(self.cross_validation, Integral) or self.cross_validation < 2:
            raise ValueError(f"cross_validation={self.cross_validation!r} must be a whole number from 2, or None")
        return int(self.cross_validation)

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(LARGEST_SEED))
