"""`predict_set`: the sets contain the truth as often as asked, and say what is missing if there are none."""

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hyperplane.sklearn import LinearSVMClassifier, LinearSVMRanker, LinearSVMRegressor
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def made(rows: int, seed: int) -> tuple[Any, Any]:
    """Rows and a number with noise."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    return X, X @ np.array([1.0, -1.0, 0.5]) + random.standard_t(3, size=rows)


def test_intervals_contain_the_truth_as_often_as_asked() -> None:
    X, y = made(200, 0)
    fitted = LinearSVMRegressor(cross_validation=5).fit(X, y)
    new, truth = made(4000, 1)
    shares = []
    for coverage in (0.5, 0.9):
        low, high = fitted.predict_set(new, coverage).T
        shares.append(float(((low <= truth) & (truth <= high)).mean()))
    assert abs(shares[0] - 0.5) < 0.08  # two deviations of a share of 200 rows
    assert abs(shares[1] - 0.9) < 0.045


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_of_labels_contain_the_truth_in_each_class(n_classes: int) -> None:
    cuts = [0.8] if n_classes == 2 else [-1.0, 1.0]
    words = np.array(["high", "low", "middle"])
    X, y = made(400, 2)
    fitted = LinearSVMClassifier(cross_validation=8).fit(X, words[np.digitize(y, cuts)])
    new, number = made(4000, 3)
    truth = words[np.digitize(number, cuts)]
    kept = fitted.predict_set(new, 0.9)
    assert kept.shape == (4000, n_classes)
    assert 0.0 < kept.mean() < 1.0
    for place, word in enumerate(fitted.classes_):
        assert abs(kept[truth == word, place].mean() - 0.9) < 0.07


def test_more_coverage_gives_larger_sets_and_too_few_rows_no_bound() -> None:
    X, y = made(20, 4)
    fitted = LinearSVMRegressor(cross_validation=2).fit(X, y)
    narrow, wide = fitted.predict_set(X, 0.5), fitted.predict_set(X, 0.9)
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (wide[:, 1] >= narrow[:, 1]).all()
    assert np.isinf(fitted.predict_set(X, 0.99)).all()


def test_sparse_rows_pickles_clones_and_pipelines_have_sets() -> None:
    X, y = made(80, 5)
    labels = y > 0
    fitted = LinearSVMClassifier(cross_validation=4).fit(X, labels)
    sets = fitted.predict_set(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_set(X), sets)
    np.testing.assert_array_equal(clone(fitted).fit(X, labels).predict_set(X), sets)
    sparse = clone(fitted).set_params(tol=1e-8).fit(scipy.sparse.csr_matrix(X), labels)
    dense = clone(fitted).set_params(tol=1e-8).fit(X, labels)
    np.testing.assert_array_equal(sparse.predict_set(scipy.sparse.csr_matrix(X)), dense.predict_set(X))
    pipeline = make_pipeline(StandardScaler(), LinearSVMRegressor(cross_validation=4)).fit(X, y)
    assert pipeline[-1].predict_set(pipeline[:-1].transform(X)).shape == (80, 2)


def test_without_folds_there_are_no_sets_and_the_message_names_the_cure() -> None:
    X, y = made(40, 6)
    assert not hasattr(LinearSVMRanker(), "predict_set")
    for fitted in (LinearSVMRegressor().fit(X, y), LinearSVMClassifier().fit(X, y > 0)):
        assert not hasattr(fitted, "predict_set")
        fitted.set_params(cross_validation=5)
        with pytest.raises(AttributeError, match="predict_set") as caught:
            fitted.predict_set(X)
        assert "set cross_validation=10" in str(caught.value.__cause__)
        with pytest.raises(NotFittedError):
            clone(fitted).predict_set(X)


@pytest.mark.parametrize(("given", "message"), [(1, "whole number from 2"), (2.5, "whole number"), (30, "which is 20")])
def test_folds_that_cannot_be_drawn_are_refused(given: Any, message: str) -> None:
    X, y = made(40, 7)
    with pytest.raises(ValueError, match=message):
        LinearSVMClassifier(cross_validation=given).fit(X, np.arange(40) % 2)
    with pytest.raises(ValueError, match="above 0 and below 1"):
        LinearSVMRegressor(cross_validation=2).fit(X, y).predict_set(X, 1.0)
