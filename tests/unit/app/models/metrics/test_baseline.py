"""The constant model beside scikit-learn's dummies, and the headline metric of a list."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference
from sklearn.dummy import DummyClassifier, DummyRegressor

from app.models import metrics
from app.models.metrics.headline import headline_of, is_imbalanced, is_worse


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_the_most_frequent_class_is_judged_as_by_scikit_learn(k: int, weighted: bool) -> None:
    random = np.random.default_rng(k)
    labels = ["a", "b", "c", "d"][:k]
    trained, codes = random.integers(0, k, 90) % k, random.integers(0, k, 60)
    trained[:30] = 1
    weight = random.exponential(size=60) if weighted else None
    usual = metrics.most_frequent(trained)
    dummy = DummyClassifier(strategy="most_frequent").fit(np.zeros((90, 1)), trained)
    predicted = dummy.predict(np.zeros((60, 1)))
    assert usual == predicted[0]
    found = metrics.class_baseline(labels, codes, usual, weight, metrics.Decision(0) if k == 2 else None)
    sample = {"sample_weight": weight}
    assert found["prediction"] == labels[usual]
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(codes, predicted, **sample))
    assert found["balanced_accuracy"] == pytest.approx(1 / k)
    assert found["matthews"] == 0.0
    assert found["roc_auc"] == 0.5
    if k == 2:
        assert found["pr_auc"] == pytest.approx(reference.average_precision_score(codes == 0, np.zeros(60), **sample))
        assert found["recall"] == reference.recall_score(codes == 0, predicted == 0, **sample)
    else:
        each = [reference.average_precision_score(codes == code, np.zeros(60), **sample) for code in range(k)]
        assert found["pr_auc"] == pytest.approx(np.mean(each))
        assert found["recall"] == pytest.approx(reference.recall_score(codes, predicted, average="macro", **sample))


def test_the_mean_is_judged_as_by_scikit_learn() -> None:
    random = np.random.default_rng(1)
    trained, y = random.normal(3, 1, 50), random.normal(3.5, 2, 40)
    dummy = DummyRegressor().fit(np.zeros((50, 1)), trained)
    found = metrics.number_baseline(y, float(trained.mean()))
    predicted = dummy.predict(np.zeros((40, 1)))
    assert found["prediction"] == pytest.approx(predicted[0])
    assert found["r2"] == pytest.approx(reference.r2_score(y, predicted))
    assert found["r2"] < 0
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(y, predicted))


def test_equal_scores_order_nothing() -> None:
    found = metrics.rank_baseline(np.array([1.0, 1.0, 2.0, 3.0]), 1.0)
    assert (found["swapped_pairs"], found["kendall_tau"], found["accuracy"], found["mae"]) == (0.5, None, 0.5, 0.75)
    assert metrics.rank_baseline(np.array([1.0, 2.5]), None)["accuracy"] is None


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([24, 76], True), ([25, 75], False), ([4, 48, 48], True), ([17, 41, 42], False), ([10], False), ([1, 9], True)],
)
def test_classes_are_imbalanced_below_half_of_an_equal_share(counts: list[int], expected: bool) -> None:
    assert is_imbalanced(np.array(counts)) is expected


def test_the_headline_is_balanced_where_accuracy_says_little() -> None:
    test: dict[str, Any] = {"accuracy": 0.97, "balanced_accuracy": 0.5}
    train = {"accuracy": 0.98, "balanced_accuracy": 0.6}
    both = {"train": train, "test": test}
    assert headline_of("binary", both, imbalanced=False) == {"name": "accuracy", "value": 0.97, "rows": "test"}
    assert headline_of("binary", both, imbalanced=True) == {"name": "balanced_accuracy", "value": 0.5, "rows": "test"}
    folds = {"train": train, "folds": {"balanced_accuracy": 0.55}}
    assert headline_of("binary", folds, imbalanced=True) == {
        "name": "balanced_accuracy",
        "value": 0.55,
        "rows": "folds",
    }
    assert headline_of("regression", {"train": {"r2": None}}, imbalanced=False) is None


def test_worse_is_not_equal() -> None:
    assert is_worse("accuracy", 0.5, 0.6)
    assert not is_worse("accuracy", 0.6, 0.6 + 1e-16)
    assert is_worse("swapped_pairs", 0.6, 0.5)
    assert not is_worse("r2", 0.1, -0.1)
