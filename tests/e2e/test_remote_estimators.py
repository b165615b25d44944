"""The estimators with `remote=url`: the service trains, and the fitted estimator is the one that is trained here."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hyperplane import Client
from hyperplane.sklearn import LinearSVMClassifier, LinearSVMRanker, LinearSVMRegressor
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_regression

from tests.support.serving import Service

pytestmark = pytest.mark.slow

TIGHT: dict[str, Any] = {"tol": 1e-8, "max_iter": 100_000}


def both(estimator: Any, service: Service, *arguments: Any, **more: Any) -> tuple[Any, Any]:
    here = clone(estimator).fit(*arguments, **more)
    there = clone(estimator).set_params(remote=service.url, remote_model="remote-estimator").fit(*arguments, **more)
    assert here.model_id_ is None
    assert there.model_id_.startswith("mdl_")
    assert there.certificate_.relative_gap <= TIGHT["tol"]
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-4)
    np.testing.assert_allclose(there.intercept_, here.intercept_, atol=1e-4)
    assert (there.coef_.shape, there.n_features_in_) == (here.coef_.shape, here.n_features_in_)
    return here, there


def test_two_classes_named_by_words(sqlite_service: Service) -> None:
    X, y = make_classification(120, 6, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    words = np.array(["no", "yes"])[y]
    estimator = LinearSVMClassifier(class_weight={"yes": 2.0}, **TIGHT)
    here, there = both(estimator, sqlite_service, X, words, sample_weight=weight)
    np.testing.assert_array_equal(here.predict(X), there.predict(X))
    np.testing.assert_allclose(there.score_error_bound(X), here.score_error_bound(X), atol=1e-2)
    with Client(sqlite_service.url) as client:
        answer = client.models.predict(there.model_id_, X[:5], outputs=["score"])
    np.testing.assert_allclose([one.score for one in answer.predictions], there.decision_function(X[:5]), atol=1e-12)


def test_several_classes_of_sparse_rows(sqlite_service: Service) -> None:
    X, y = load_iris(return_X_y=True)
    here, there = both(LinearSVMClassifier(**TIGHT), sqlite_service, scipy.sparse.csr_matrix(X), y)
    assert len(there.certificate_["per_class"]) == 3
    np.testing.assert_array_equal(here.predict(X), there.predict(X))


def test_numbers_and_ranks(sqlite_service: Service) -> None:
    X, y = make_regression(100, 5, noise=2.0, random_state=0)
    both(LinearSVMRegressor(epsilon=0.1, **TIGHT), sqlite_service, X, y / y.std())
    ranks = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    both(LinearSVMRanker(**TIGHT), sqlite_service, X, ranks, groups=np.arange(100) // 20)


def test_a_client_can_be_given_instead_of_a_url(sqlite_service: Service) -> None:
    X, y = make_classification(60, 4, random_state=1)
    with Client(sqlite_service.url) as client:
        fitted = LinearSVMClassifier(remote=client, remote_model="by-client").fit(X, y)
        assert client.models.get("by-client").id == fitted.model_id_


def test_prediction_sets_are_those_of_the_service(sqlite_service: Service) -> None:
    """The service and this process draw the same folds, so their sets are the same."""
    X, y = make_regression(90, 4, noise=20.0, random_state=0)
    new = np.random.default_rng(1).normal(size=(300, 4))
    y = y / y.std()
    here, there = both(LinearSVMRegressor(cross_validation=4, random_state=3, **TIGHT), sqlite_service, X, y)
    for coverage in (0.5, 0.9):
        ends = here.predict_set(new, coverage)
        np.testing.assert_allclose(there.predict_set(new, coverage), ends, atol=1e-4)
        assert np.isfinite(ends).all()
    assert np.isinf(there.predict_set(new, 0.999)).all()
    words = np.array(["a", "b", "c"])
    for cuts in ([0.0], [-0.5, 0.5]):
        labels = words[np.digitize(y, cuts)]
        here, there = both(LinearSVMClassifier(cross_validation=4, **TIGHT), sqlite_service, X, labels)
        for coverage in (0.6, 0.9):
            sets = here.predict_set(new, coverage)
            np.testing.assert_array_equal(there.predict_set(new, coverage), sets)
            assert 0.0 < sets.mean() < 1.0
