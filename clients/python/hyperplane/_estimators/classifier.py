"""`LinearSVMClassifier`: two or several classes, a drop-in for scikit-learn's LinearSVC."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from hyperplane._estimators.base import LinearSVMBase, has_folds

__all__ = ["LinearSVMClassifier"]

STRATEGIES = ("ovr", "crammer_singer", "multinomial")


def _has_probabilities(estimator: "LinearSVMClassifier") -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(
            "predict_proba needs loss='logistic'; for other losses use sklearn.calibration.CalibratedClassifierCV"
        )
    return True


class LinearSVMClassifier(ClassifierMixin, LinearSVMBase):
    """Linear classifier with a proven distance from the optimum.

    The parameters of LinearSVC mean the same, except that `tol` is the proven relative gap and `max_iter` counts passes
    over the rows; `penalty` must be l2, `dual` and `verbose` have no effect. Further parameters:

    loss: also `logistic` (with `predict_proba`) and `hinge_p` with the exponent `p`.
    multi_class: also `multinomial`, with logistic loss.
    solver: name of a solver, or `auto`.
    bias: `regularized`, `none` or `free` (not penalised); None: by `fit_intercept`.
    cross_validation: number of fold models to train besides, which `predict_set` needs; None: none.
    remote: URL of a service, or a `hyperplane.Client`; None: train in this process.
    remote_model: name of the model on the service.
    """

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: Any = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        bias: str | None = None,
        p: float | None = None,
        cross_validation: int | None = None,
        remote: Any = None,
        remote_model: str = "classifier",
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.bias = bias
        self.p = p
        self.cross_validation = cross_validation
        self.remote = remote
        self.remote_model = remote_model

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LinearSVMClassifier":
        """Train on rows X with labels y."""
        if self.penalty != "l2":
            raise ValueError(f"penalty={self.penalty!r} is not available; use penalty='l2'")
        if self.multi_class not in STRATEGIES:
            raise ValueError(f"multi_class={self.multi_class!r} is unknown; use one of {', '.join(STRATEGIES)}")
        X, y = self._read(X, y, numbers=False)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{self.classes_[0]!r}"
            )
        solution = self._train(X, codes, sample_weight, self._problem(y, sample_weight))
        self.coef_ = np.atleast_2d(solution.coef)
        self.intercept_ = np.atleast_1d(solution.intercept)
        return self

    def _problem(self, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Return the parameters of the problem. A joint problem of two classes is a binary one with twice the C."""
        joint = self.multi_class == "crammer_singer"
        loss = "hinge" if joint else self.loss  # as LinearSVC: the joint problem has a loss of its own
        if len(self.classes_) == 2:
            strategy = {"task": "binary", "C": 2.0 * self.C if joint else self.C}
        else:
            strategy = {"task": "multiclass", "strategy": self.multi_class}
        weights = None
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=sample_weight)
            weights = dict(enumerate(factors.tolist()))
        return {**strategy, "loss": loss, "p": self.p, "class_weight": weights}

    def decision_function(self, X: Any) -> Any:
        """Return the score of each row (two classes: positive means `classes_[1]`), or of each row and class."""
        X = self._read_rows(X)
        scores = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Any:
        """Return the label of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, which logistic loss implies."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        elif self.multi_class == "ovr":
            shares = np.exp(-np.logaddexp(0.0, -scores))
            return shares / shares.sum(axis=1, keepdims=True)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of each probability."""
        return np.log(self.predict_proba(X))

    @available_if(has_folds)
    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Return the labels that cannot be excluded: for each row, and each class of `classes_`, whether it is one.

        The set of a row contains its true label with about the probability `coverage`, in each class by itself.
        """
        return self._set_of_each_row(X, coverage)
