"""The classifier against LinearSVC: the same optimum on ten sets, and the ideas of LinearSVC's own tests."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from hyperplane.sklearn import LinearSVMClassifier, LinearSVMRegressor
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
    make_hastie_10_2,
    make_sparse_uncorrelated,
)
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC, LinearSVR

import solvers

Array = Any
PRECISE: dict[str, Any] = {"tol": 1e-10, "max_iter": 100_000}


class Rows(NamedTuple):
    X: Array
    y: Array


def _sparse(n: int = 300, d: int = 400) -> Rows:
    random = np.random.default_rng(3)
    X = scipy.sparse.random(n, d, density=0.03, random_state=random, format="csr")
    return Rows(X, (X @ random.normal(size=d) + 0.1 * random.normal(size=n) > 0).astype(int))


def _words() -> Rows:
    X, y = load_iris(return_X_y=True)
    return Rows(scale(X[:100]), np.array(["setosa", "versicolor"])[y[:100]])


SETS: dict[str, Any] = {
    "iris": lambda: Rows(*load_iris(return_X_y=True)),
    "wine": lambda: Rows(scale(load_wine().data), load_wine().target),
    "breast cancer": lambda: Rows(scale(load_breast_cancer().data), load_breast_cancer().target),
    "digits": lambda: Rows(load_digits().data[:500] / 16.0, load_digits().target[:500]),
    "even digits": lambda: Rows(load_digits().data / 16.0, load_digits().target % 2),
    "noisy": lambda: Rows(*make_classification(400, 25, flip_y=0.2, random_state=0)),
    "wide": lambda: Rows(*make_classification(60, 300, n_informative=20, random_state=1)),
    "blobs": lambda: Rows(*make_blobs(200, 5, centers=4, random_state=2)),
    "hastie": lambda: Rows(*make_hastie_10_2(500, random_state=0)),
    "sparse": _sparse,
}


def certified_radius(rows: Rows, coef: Array, intercept: Array, **problem: Any) -> Array:
    """The largest possible distance of the weights of each class from the optimum: sqrt(2 gap), for any solver."""
    classes = np.unique(rows.y)
    found = []
    for number, (weights, bias) in enumerate(zip(coef, intercept, strict=True)):
        positive = classes[1] if len(coef) == 1 else classes[number]
        verdict = solvers.certify(rows.X, (rows.y == positive).astype(int), weights, float(bias), **problem)
        found.append(np.sqrt(2.0 * verdict.certificate.gap))
    return np.array(found)


@pytest.mark.parametrize("name", SETS)
def test_the_weights_are_those_of_linear_svc(name: str) -> None:
    """Both weights are within a proven distance of the optimum, so they are within the sum of each other."""
    rows: Rows = SETS[name]()
    ours = LinearSVMClassifier(tol=1e-10).fit(*rows)
    theirs = LinearSVC(dual=False, **PRECISE).fit(*rows)
    assert ours.certificate_.relative_gap <= 1e-10
    problem = {"loss": "squared_hinge", "C": 1.0}
    radius = certified_radius(rows, ours.coef_, ours.intercept_, **problem)
    radius += certified_radius(rows, theirs.coef_, theirs.intercept_, **problem)
    both = [np.column_stack([one.coef_, one.intercept_]) for one in (ours, theirs)]
    assert ours.coef_.shape == theirs.coef_.shape
    assert (np.linalg.norm(both[0] - both[1], axis=1) <= radius).all()
    np.testing.assert_allclose(both[0], both[1], atol=1e-4 * np.abs(both[1]).max())
    np.testing.assert_array_equal(ours.predict(rows.X), theirs.predict(rows.X))


@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_losses_and_c(loss: str, C: float) -> None:
    X, y = SETS["noisy"]()
    ours = LinearSVMClassifier(loss=loss, C=C, tol=1e-8, max_iter=100_000).fit(X, y)
    theirs = LinearSVC(loss=loss, C=C, dual=True, tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3 * np.abs(theirs.coef_).max())


@pytest.mark.parametrize("name", ["iris", "noisy"])
def test_crammer_singer(name: str) -> None:
    """For two classes LinearSVC folds the two rows of the joint problem into one; loss is ignored."""
    X, y = SETS[name]()
    ours = LinearSVMClassifier(multi_class="crammer_singer", tol=1e-8, max_iter=100_000).fit(X, y)
    theirs = LinearSVC(multi_class="crammer_singer", tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-2 * np.abs(theirs.coef_).max())
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99


@pytest.mark.parametrize("class_weight", ["balanced", {0: 10.0}, {0: 0.5, 1: 3.0, 2: 1.0}])
def test_class_weight(class_weight: Any) -> None:
    X, y = SETS["iris"]()
    kept = slice(25, 150)  # unequal classes
    ours = LinearSVMClassifier(class_weight=class_weight, tol=1e-10).fit(X[kept], y[kept])
    theirs = LinearSVC(class_weight=class_weight, dual=False, **PRECISE).fit(X[kept], y[kept])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4 * np.abs(theirs.coef_).max())


def test_class_weight_by_words_moves_the_border() -> None:
    X, y = _words()
    plain, heavy = (LinearSVMClassifier(class_weight=w, C=0.01).fit(X, y).intercept_ for w in (None, {"setosa": 50.0}))
    assert heavy < plain


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_sample_weight(class_weight: Any) -> None:
    X, y = SETS["noisy"]()
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    ours = LinearSVMClassifier(class_weight=class_weight, tol=1e-10).fit(X, y, sample_weight=weight)
    theirs = LinearSVC(class_weight=class_weight, dual=False, **PRECISE).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4 * np.abs(theirs.coef_).max())
    repeated = LinearSVMClassifier(tol=1e-10).fit(X.repeat(weight.astype(int), axis=0), y.repeat(weight.astype(int)))
    if class_weight is None:
        np.testing.assert_allclose(ours.coef_, repeated.coef_, atol=1e-4 * np.abs(theirs.coef_).max())


@pytest.mark.parametrize("scaling", [0.1, 1.0, 30.0])
def test_intercept_scaling(scaling: float) -> None:
    X, y = SETS["noisy"]()
    ours = LinearSVMClassifier(intercept_scaling=scaling, tol=1e-10).fit(X, y)
    theirs = LinearSVC(intercept_scaling=scaling, dual=False, **PRECISE).fit(X, y)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_no_intercept() -> None:
    X, y = SETS["noisy"]()
    ours = LinearSVMClassifier(fit_intercept=False, tol=1e-10).fit(X, y)
    theirs = LinearSVC(fit_intercept=False, dual=False, **PRECISE).fit(X, y)
    assert ours.intercept_.tolist() == [0.0]
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


def test_sparse_and_dense_rows_give_the_same_weights() -> None:
    X, y = SETS["sparse"]()
    ours, dense = (LinearSVMClassifier(tol=1e-10).fit(rows, y) for rows in (X, X.toarray()))
    np.testing.assert_allclose(ours.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), dense.decision_function(X.toarray()), atol=1e-6)


def test_the_penalty_l1_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="penalty='l1'"):
        LinearSVMClassifier(penalty="l1").fit(*SETS["iris"]())


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_the_regressor_is_linear_svr(loss: str) -> None:
    for X, y in (load_diabetes(return_X_y=True), make_sparse_uncorrelated(200, random_state=0)):
        y = scale(y)
        ours = LinearSVMRegressor(loss=loss, epsilon=0.1, tol=1e-8, max_iter=100_000).fit(X, y)
        theirs = LinearSVR(loss=loss, epsilon=0.1, tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, y)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3)
        assert ours.coef_.shape == theirs.coef_.shape
        assert ours.intercept_.shape == theirs.intercept_.shape
