"""Metrics of classes and numbers beside scikit-learn's, on random labels and scores with many ties."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from app.models.metrics import Decision, Ranking, binary_metrics, multiclass_metrics, regression_metrics
from app.models.metrics.curves import CURVE_POINTS

TOLERANCE = 1e-12
Array = np.ndarray[Any, Any]


def assert_equal(ours: Any, expected: Any, name: str = "") -> None:
    """A figure that scikit-learn calls NaN is null here."""
    if np.isnan(expected):
        assert ours is None, name
    else:
        assert ours == pytest.approx(expected, abs=TOLERANCE), name


def drawn_weight(random: np.random.Generator, rows: int, seed: int) -> Array | None:
    """None, whole numbers with zeros among them, or any numbers."""
    choices = (None, random.integers(0, 4, rows).astype(float), random.exponential(size=rows))
    weight = choices[seed % 3]
    if weight is not None:
        weight[:4] = 1.0  # each class keeps a row that counts
    return weight


@pytest.mark.parametrize("seed", range(30))
def test_two_classes_are_judged_as_by_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(2, 300))
    codes = (random.random(rows) < random.choice([0.1, 0.5, 0.9])).astype(np.int64)
    codes[:2] = [0, 1]
    scores = random.integers(-3, 4, rows) / 2.0 if seed % 2 else random.normal(size=rows)
    predicted = (scores > 0).astype(np.int64)
    weight = drawn_weight(random, rows, seed)
    weighted = {"sample_weight": weight}
    ours = binary_metrics(["no", "yes"], codes, scores, weight)
    assert (ours["positive_class"], ours["threshold"]) == ("yes", 0.0)
    assert ours["rows"] == rows
    assert ours["confusion"]["labels"] == ["no", "yes"]
    confusion = reference.confusion_matrix(codes, predicted, labels=[0, 1], **weighted)
    np.testing.assert_allclose(ours["confusion"]["matrix"], confusion, rtol=TOLERANCE)
    undefined = {"zero_division": np.nan, **weighted}
    expected = {
        "accuracy": reference.accuracy_score(codes, predicted, **weighted),
        "error": 1 - reference.accuracy_score(codes, predicted, **weighted),
        "precision": reference.precision_score(codes, predicted, **undefined),
        "recall": reference.recall_score(codes, predicted, **weighted),
        "f1": reference.f1_score(codes, predicted, **weighted),
        "balanced_accuracy": reference.balanced_accuracy_score(codes, predicted, **weighted),
        "matthews": reference.matthews_corrcoef(codes, predicted, **weighted),
        "roc_auc": reference.roc_auc_score(codes, scores, **weighted),
        "pr_auc": reference.average_precision_score(codes, scores, **weighted),
    }
    for name, value in expected.items():
        assert_equal(ours[name], value, name)
    single = reference.precision_recall_fscore_support(codes, predicted, average=None, labels=[0, 1], **undefined)
    for name, values in zip(("precision", "recall", "f1"), single, strict=False):
        for code in (0, 1):
            assert_equal(ours["per_class"][code][name], values[code], f"{name} of class {code}")
        assert_equal(ours["macro"][name], np.nanmean(values), f"macro {name}")


@pytest.mark.parametrize("seed", range(30))
def test_the_first_class_can_be_the_positive_one_at_any_threshold(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(4, 200))
    codes = (random.random(rows) < 0.8).astype(np.int64)
    codes[:2] = [0, 1]
    scores = random.integers(-3, 4, rows) / 2.0 if seed % 2 else random.normal(size=rows)
    threshold = float(random.choice([-0.5, 0.25, 1.0]))
    weight = drawn_weight(random, rows, seed)
    weighted = {"sample_weight": weight}
    ours = binary_metrics(["no", "yes"], codes, scores, weight, Decision(0, threshold))
    assert (ours["positive_class"], ours["threshold"]) == ("no", threshold)
    truth, predicted = codes == 0, scores <= threshold
    expected = {
        "accuracy": reference.accuracy_score(truth, predicted, **weighted),
        "precision": reference.precision_score(truth, predicted, zero_division=np.nan, **weighted),
        "recall": reference.recall_score(truth, predicted, **weighted),
        "f1": reference.f1_score(truth, predicted, **weighted),
        "balanced_accuracy": reference.balanced_accuracy_score(truth, predicted, **weighted),
        "matthews": reference.matthews_corrcoef(truth, predicted, **weighted),
        "roc_auc": reference.roc_auc_score(truth, -scores, **weighted),
        "pr_auc": reference.average_precision_score(truth, -scores, **weighted),
    }
    for name, value in expected.items():
        assert_equal(ours[name], value, name)
    curve = Ranking.of_class(0, codes, scores, weight).pr_curve()
    for precision, recall, limit in zip(*(curve[name] for name in ("precision", "recall", "threshold")), strict=True):
        chosen = scores <= limit  # thresholds of the curve are scores
        counted = np.ones(rows) if weight is None else weight
        assert recall == pytest.approx(counted[chosen & truth].sum() / counted[truth].sum())
        if counted[chosen].sum() > 0:
            assert precision == pytest.approx(counted[chosen & truth].sum() / counted[chosen].sum())


@pytest.mark.parametrize("seed", range(30))
def test_many_classes_are_judged_as_by_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    k, rows = int(random.integers(2, 7)), int(random.integers(8, 300))
    classes = [f"c{code}" for code in range(k)]
    codes = random.integers(0, k, rows)
    codes[: min(k, 4)] = np.arange(min(k, 4))
    scores = random.integers(-2, 3, (rows, k)) / 2.0 if seed % 2 else random.normal(size=(rows, k))
    weight = drawn_weight(random, rows, seed)
    weighted = {"sample_weight": weight}
    predicted = scores.argmax(axis=1)
    ours = multiclass_metrics(classes, codes, scores, weight)
    matrix = reference.confusion_matrix(codes, predicted, labels=range(k), **weighted)
    np.testing.assert_allclose(ours["confusion"]["matrix"], matrix, rtol=TOLERANCE)
    assert_equal(ours["accuracy"], reference.accuracy_score(codes, predicted, **weighted))
    single = reference.precision_recall_fscore_support(
        codes, predicted, average=None, labels=range(k), zero_division=np.nan, **weighted
    )
    for name, values in zip(("precision", "recall", "f1"), single, strict=False):
        for code in range(k):
            assert_equal(ours["per_class"][code][name], values[code], f"{name} of class {code}")
        assert_equal(ours[name], np.nanmean(values), name)
        assert ours["macro"][name] == ours[name]
    counts = np.bincount(codes, weight, minlength=k)
    present = [code for code in range(k) if 0 < counts[code] < counts.sum()]
    areas = [reference.roc_auc_score(codes == code, scores[:, code], **weighted) for code in present]
    assert_equal(ours["roc_auc"], np.mean(areas))
    precise = [reference.average_precision_score(codes == code, scores[:, code], **weighted) for code in present]
    assert_equal(ours["pr_auc"], np.mean(precise))


@pytest.mark.parametrize("seed", range(12))
def test_numbers_are_judged_as_by_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(4, 200))
    y, predicted = random.normal(size=rows) * 10.0**seed, random.normal(size=rows) * 10.0**seed
    weight = drawn_weight(random, rows, seed)
    ours = regression_metrics(y, predicted, weight)
    assert ours["rows"] == rows
    expected = {
        "mae": reference.mean_absolute_error(y, predicted, sample_weight=weight),
        "rmse": reference.root_mean_squared_error(y, predicted, sample_weight=weight),
        "r2": reference.r2_score(y, predicted, sample_weight=weight),
    }
    for name, value in expected.items():
        assert ours[name] == pytest.approx(value, rel=1e-10), name


def test_numbers_without_spread_or_beyond_all_bounds_are_null() -> None:
    constant = regression_metrics(np.ones(3), np.array([1.0, 2.0, 0.0]))
    assert (constant["mae"], constant["r2"]) == (pytest.approx(2 / 3), None)
    huge = regression_metrics(np.array([1e308, -1e308]), np.array([-1e308, 1e308]))
    assert (huge["mae"], huge["rmse"], huge["r2"]) == (None, None, None)
    weightless = regression_metrics(np.ones(2), np.zeros(2), np.zeros(2))
    assert (weightless["mae"], weightless["rmse"], weightless["r2"]) == (None, None, None)


def test_what_cannot_be_said_is_null_not_a_number() -> None:
    nothing_predicted = binary_metrics([0, 1], np.array([1, 0]), np.array([-1.0, -2.0]))
    assert nothing_predicted["precision"] is None
    assert (nothing_predicted["recall"], nothing_predicted["f1"], nothing_predicted["roc_auc"]) == (0.0, 0.0, 1.0)
    one_class = binary_metrics([0, 1], np.array([0, 0]), np.array([-1.0, -2.0]))
    assert one_class["roc_auc"] is None
    assert (one_class["pr_auc"], one_class["prbep"]) == (None, None)
    assert (one_class["accuracy"], one_class["recall"], one_class["f1"]) == (1.0, None, None)
    weightless = binary_metrics([0, 1], np.array([0, 1]), np.array([-1.0, -2.0]), np.zeros(2))
    assert (weightless["accuracy"], weightless["error"], weightless["f1"]) == (None, None, None)
    missing = multiclass_metrics([0, 1, 2], np.array([0, 1]), np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    assert missing["per_class"][2]["recall"] is None
    assert missing["per_class"][2]["roc_auc"] is None
    assert (missing["recall"], missing["roc_auc"]) == (1.0, 1.0)


def test_a_score_of_zero_predicts_the_first_class() -> None:
    assert binary_metrics([0, 1], np.array([0, 1]), np.array([0.0, 1e-300]))["accuracy"] == 1.0


def test_equal_scores_order_no_pair() -> None:
    assert binary_metrics([0, 1], np.array([0, 1, 0, 1]), np.full(4, 0.5))["roc_auc"] == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_break_even_is_the_precision_of_as_many_rows_as_are_positive(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(2, 60))
    positive = random.random(rows) < 0.4
    positive[0] = True
    scores = random.normal(size=rows)
    taken = np.argsort(-scores)[: int(positive.sum())]
    assert Ranking.of(positive, scores).break_even() == pytest.approx(positive[taken].mean(), abs=TOLERANCE)


def test_break_even_takes_its_part_of_a_tie() -> None:
    # Two positive rows: the best row is one of them, the second place is shared by one positive and three others.
    positive, scores = np.array([1, 1, 0, 0, 0], dtype=bool), np.array([2.0, 1, 1, 1, 1])
    assert Ranking.of(positive, scores).break_even() == pytest.approx((1 + 1 / 4) / 2)


@pytest.mark.parametrize("ties", [False, True])
def test_short_curves_are_scikit_learns_in_full(ties: bool) -> None:
    random = np.random.default_rng(3)
    positive = random.random(120) < 0.3
    scores = random.integers(0, 30, 120) / 3.0 if ties else random.normal(size=120)
    curves = Ranking.of(positive, scores).curves()
    assert curves is not None
    fpr, tpr, threshold = reference.roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(curves["roc"]["fpr"], fpr, atol=TOLERANCE)
    np.testing.assert_allclose(curves["roc"]["tpr"], tpr, atol=TOLERANCE)
    assert curves["roc"]["threshold"] == [None, *threshold[1:]]
    precision, recall, threshold = reference.precision_recall_curve(positive, scores)
    # scikit-learn goes from the lowest threshold up and adds a last point that no threshold has
    np.testing.assert_allclose(curves["pr"]["precision"][::-1], precision[:-1], atol=TOLERANCE)
    np.testing.assert_allclose(curves["pr"]["recall"][::-1], recall[:-1], atol=TOLERANCE)
    np.testing.assert_array_equal(curves["pr"]["threshold"][::-1], threshold)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.99])
def test_long_curves_are_thinned_and_keep_their_area(share: float) -> None:
    random = np.random.default_rng(4)
    positive = random.random(20_000) < share
    scores = random.normal(size=20_000) + positive
    weight = random.exponential(size=20_000)
    curves = Ranking.of(positive, scores, weight).curves()
    assert curves is not None
    roc, pr = curves["roc"], curves["pr"]
    assert 10 < len(roc["fpr"]) == len(roc["tpr"]) == len(roc["threshold"]) <= CURVE_POINTS
    assert 10 < len(pr["recall"]) == len(pr["precision"]) == len(pr["threshold"]) <= CURVE_POINTS
    assert (roc["fpr"][0], roc["tpr"][0]) == (0.0, 0.0)
    assert (roc["fpr"][-1], roc["tpr"][-1], pr["recall"][-1]) == (1.0, 1.0, 1.0)
    area = reference.roc_auc_score(positive, scores, sample_weight=weight)
    assert np.trapezoid(roc["tpr"], roc["fpr"]) == pytest.approx(area, abs=0.01)
    known = reference.roc_curve(positive, scores, sample_weight=weight, drop_intermediate=False)
    places = {threshold: (fpr, tpr) for fpr, tpr, threshold in zip(*known, strict=True)}
    for fpr, tpr, threshold in zip(roc["fpr"][1:], roc["tpr"][1:], roc["threshold"][1:], strict=True):
        assert places[threshold] == pytest.approx((fpr, tpr), abs=1e-9)


def test_there_is_no_curve_of_one_class() -> None:
    assert Ranking.of(np.ones(3, dtype=bool), np.arange(3.0)).curves() is None


def test_of_very_many_classes_only_means_are_told() -> None:
    random = np.random.default_rng(5)
    codes, scores = random.integers(0, 101, 2000), random.normal(size=(2000, 101))
    ours = multiclass_metrics(list(range(101)), codes, scores)
    assert (ours["per_class"], ours["confusion"], ours["roc_auc"]) == (None, None, None)
    assert_equal(ours["f1"], reference.f1_score(codes, scores.argmax(axis=1), average="macro"))


def test_every_value_is_plain_json() -> None:
    codes, scores = np.array([0, 1, 1]), np.array([0.5, 1.0, -1.0])
    weight = np.array([1.0, 2.0, 0.5])
    for measured in (
        binary_metrics([0, 1], codes, scores),
        binary_metrics([0, 1], codes, scores, weight),
        multiclass_metrics([0, 1, 2], codes, np.column_stack([scores, -scores, scores])),
        regression_metrics(scores, codes, weight),
        Ranking.of(codes == 1, scores).curves(),
    ):
        assert json.loads(json.dumps(measured, allow_nan=False)) == measured
    counts = binary_metrics([0, 1], codes, scores)["confusion"]["matrix"]
    assert {type(count) for row in counts for count in row} == {int}
