"""Our metrics beside scikit-learn's, on random labels and scores with many ties."""

import numpy as np
import pytest
from sklearn import metrics as reference

from app.models.metrics import binary_metrics

TOLERANCE = 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_they_are_scikit_learns(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(2, 300))
    codes = (random.random(rows) < random.choice([0.1, 0.5, 0.9])).astype(np.int64)
    codes[:2] = [0, 1]
    scores = random.integers(-3, 4, rows) / 2.0 if seed % 2 else random.normal(size=rows)
    predicted = (scores > 0).astype(np.int64)
    ours = binary_metrics(["no", "yes"], codes, scores)
    assert ours["rows"] == rows
    assert ours["confusion"]["labels"] == ["no", "yes"]
    assert ours["confusion"]["matrix"] == reference.confusion_matrix(codes, predicted, labels=[0, 1]).tolist()
    expected = {
        "accuracy": reference.accuracy_score(codes, predicted),
        "error": 1 - reference.accuracy_score(codes, predicted),
        "precision": reference.precision_score(codes, predicted, zero_division=np.nan),
        "recall": reference.recall_score(codes, predicted),
        "f1": reference.f1_score(codes, predicted),
        "roc_auc": reference.roc_auc_score(codes, scores),
    }
    for name, value in expected.items():
        if np.isnan(value):
            assert ours[name] is None
        else:
            assert ours[name] == pytest.approx(value, abs=TOLERANCE), name


def test_what_cannot_be_said_is_null_not_a_number() -> None:
    nothing_predicted = binary_metrics([0, 1], np.array([1, 0]), np.array([-1.0, -2.0]))
    assert nothing_predicted["precision"] is None
    assert (nothing_predicted["recall"], nothing_predicted["f1"], nothing_predicted["roc_auc"]) == (0.0, 0.0, 1.0)
    one_class = binary_metrics([0, 1], np.array([0, 0]), np.array([-1.0, -2.0]))
    assert one_class["roc_auc"] is None
    assert (one_class["accuracy"], one_class["recall"], one_class["f1"]) == (1.0, None, None)


def test_a_score_of_zero_predicts_the_first_class() -> None:
    assert binary_metrics([0, 1], np.array([0, 1]), np.array([0.0, 1e-300]))["accuracy"] == 1.0


def test_equal_scores_order_no_pair() -> None:
    assert binary_metrics([0, 1], np.array([0, 1, 0, 1]), np.full(4, 0.5))["roc_auc"] == 0.5


def test_every_value_is_plain_json() -> None:
    measured = binary_metrics([0, 1], np.array([0, 1, 1]), np.array([0.5, 1.0, -1.0]))
    assert {type(value) for value in measured.values()} <= {int, float, dict, type(None)}
    assert {type(count) for row in measured["confusion"]["matrix"] for count in row} == {int}
