"""The estimators in scikit-learn's machinery, and their proofs: bounds on scores hold."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hyperplane.sklearn import LinearSVMClassifier, LinearSVMRanker, LinearSVMRegressor
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    return make_classification(200, 10, flip_y=0.1, random_state=0)  # type: ignore[no-any-return]


def test_a_pipeline_is_searched_on_a_grid(rows: tuple[Any, Any]) -> None:
    pipeline = make_pipeline(StandardScaler(), LinearSVMClassifier()).set_output(transform="pandas")
    search = GridSearchCV(pipeline, {"linearsvmclassifier__C": [0.01, 1.0]}, cv=3).fit(*rows)
    assert search.best_score_ > 0.7
    best = search.best_estimator_[-1]
    assert best.certificate_.relative_gap <= best.tol
    assert list(best.feature_names_in_) == [f"x{j}" for j in range(10)]


def test_names_of_columns_are_kept_and_checked(rows: tuple[Any, Any]) -> None:
    X, y = rows
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(10)])
    fitted = LinearSVMClassifier().fit(frame, y)
    assert (fitted.n_features_in_, fitted.feature_names_in_[3]) == (10, "c3")
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"c0": "other"}))


@pytest.mark.parametrize("estimator", [LinearSVMClassifier(C=3.0), LinearSVMRegressor(C=3.0), LinearSVMRanker(C=3.0)])
def test_clones_and_pickles_predict_the_same(estimator: Any, rows: tuple[Any, Any]) -> None:
    X, y = rows
    fitted = clone(estimator).fit(X, y)
    assert fitted.get_params()["C"] == 3.0
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.certificate_ == fitted.certificate_
    np.testing.assert_array_equal(clone(fitted).fit(X, y).predict(X), fitted.predict(X))


def test_probabilities_are_there_with_logistic_loss_only(rows: tuple[Any, Any]) -> None:
    X, y = rows
    assert not hasattr(LinearSVMClassifier(), "predict_proba")
    fitted = LinearSVMClassifier(loss="logistic").fit(X, y)
    shares = fitted.predict_proba(X)
    np.testing.assert_allclose(shares[:, 1], 1.0 / (1.0 + np.exp(-fitted.decision_function(X))))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), shares)
    calibrated = CalibratedClassifierCV(LinearSVMClassifier(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (200, 2)


@pytest.mark.parametrize("strategy", ["ovr", "multinomial"])
def test_probabilities_of_several_classes_add_up_to_one(strategy: str) -> None:
    X, y = load_iris(return_X_y=True)
    fitted = LinearSVMClassifier(loss="logistic", multi_class=strategy).fit(X, y)
    shares = fitted.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (fitted.classes_[shares.argmax(axis=1)] == fitted.predict(X)).all()


@pytest.mark.parametrize("strategy", ["ovr", "crammer_singer"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_score_of_the_optimum_is_within_the_bound(strategy: str, classes: int) -> None:
    """A loose training is compared with one that is as precise as it can be."""
    X, y = make_classification(300, 8, n_informative=5, n_classes=classes, flip_y=0.2, random_state=1)
    loose, exact = (
        LinearSVMClassifier(multi_class=strategy, tol=tol, max_iter=100_000).fit(X, y) for tol in (1e-2, 1e-10)
    )
    error = np.abs(loose.decision_function(X) - exact.decision_function(X))
    bound = loose.score_error_bound(X)
    assert bound.shape == error.shape
    assert (error <= bound + exact.score_error_bound(X)).all()
    assert error.max() > 1e-9, "the loose training is not loose, so the bound is not tested"
    assert np.isfinite(bound).all()


def test_the_bound_of_a_regression_holds_and_a_free_bias_has_none() -> None:
    X, y = make_regression(200, 6, noise=5.0, random_state=0)
    loose, exact = (LinearSVMRegressor(tol=tol, max_iter=100_000).fit(X, y) for tol in (1e-2, 1e-10))
    error = np.abs(loose.predict(X) - exact.predict(X))
    assert (error <= loose.score_error_bound(X) + exact.score_error_bound(X)).all()
    free = LinearSVMClassifier(bias="free").fit(X, y > 0)
    assert np.isinf(free.score_error_bound(X)).all()


def test_a_limit_of_passes_warns_with_the_gap(rows: tuple[Any, Any]) -> None:
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        LinearSVMClassifier(solver="dcd", tol=1e-12, max_iter=1).fit(*rows)


def test_the_ranker_orders_rows_within_groups() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 4))
    groups = np.repeat(np.arange(12), 10)
    relevance = np.digitize(X @ [2.0, -1.0, 0.5, 0.0] + 10.0 * groups, [-1.0, 1.0, 5.0])
    relevance = relevance - relevance.min()
    fitted = LinearSVMRanker(C=1.0).fit(X, relevance, groups=groups)
    assert fitted.certificate_.relative_gap <= 1e-4
    share = fitted.score(X, relevance, groups=groups)
    right = pairs = 0.0
    scores = fitted.predict(X)
    for i in range(120):
        for j in range(120):
            if groups[i] == groups[j] and relevance[i] > relevance[j]:
                pairs += 1
                right += 1.0 if scores[i] > scores[j] else 0.5 * (scores[i] == scores[j])
    assert share == right / pairs
    with pytest.raises(ValueError, match="inconsistent numbers"):
        fitted.fit(X, relevance, groups=groups[:-1])


def test_cross_validation_of_the_ranker_uses_its_score(rows: tuple[Any, Any]) -> None:
    assert cross_val_score(LinearSVMRanker(), *rows, cv=3).min() > 0.7


def test_importing_the_client_needs_neither_scikit_learn_nor_the_solvers() -> None:
    code = "import sys, hyperplane; sys.exit(any(name in sys.modules for name in ('sklearn', 'solvers', 'numba')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
