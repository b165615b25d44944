"""Metrics of scores agree with scikit-learn, and their bounds hold for every score within the bounds of scores."""

import numpy as np
import pytest
from sklearn import metrics

from solvers import InvalidProblem
from solvers.tuning.curve import METRICS, read_metric


def scores_and_truth(seed, classes=2, n=40):
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, n)
    truth[:classes] = np.arange(classes)
    scores = random.standard_normal((n, classes) if classes > 2 else n)
    return np.round(scores, 1), truth  # rounded: with ties


OF_SCORES = {
    "roc_auc": metrics.roc_auc_score,
    "pr_auc": metrics.average_precision_score,
    "mae": metrics.mean_absolute_error,
    "mse": metrics.mean_squared_error,
    "rmse": metrics.root_mean_squared_error,
    "r2": metrics.r2_score,
}
OF_CLASSES = {"accuracy": metrics.accuracy_score, "balanced_accuracy": metrics.balanced_accuracy_score}


def by_sklearn(name, scores, truth):
    if name in OF_SCORES:
        return OF_SCORES[name](truth, scores)
    predicted = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    if name == "f1":
        return metrics.f1_score(truth, predicted, average="binary" if scores.ndim == 1 else "macro")
    if name in OF_CLASSES:
        return OF_CLASSES[name](truth, predicted)
    return 1.0 - OF_CLASSES["balanced_accuracy" if name == "balanced_error" else "accuracy"](truth, predicted)


CASES = [(name, classes) for name in METRICS for classes in (2, 4) if name not in OF_SCORES or classes == 2]
BOUNDED = [(name, classes) for name, classes in CASES if METRICS[name].has_bounds]


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_values_are_those_of_scikit_learn(name, classes):
    for seed in range(10):
        scores, truth = scores_and_truth(seed, classes)
        assert METRICS[name].value(scores, truth) == pytest.approx(by_sklearn(name, scores, truth), abs=1e-12)


@pytest.mark.parametrize(("name", "classes"), BOUNDED)
def test_bounds_hold_for_all_scores_within_theirs(name, classes):
    random, widest = np.random.default_rng(0), 0.0
    for seed in range(20):
        scores, truth = scores_and_truth(seed, classes)
        half = random.choice([0.0, 0.05, 0.5], size=scores.shape)
        low, high = METRICS[name].bounds((scores - half)[None], (scores + half)[None], truth)
        widest = max(widest, float(high[0] - low[0]))
        for _ in range(20):
            within = scores + half * random.choice([-1.0, 0.0, 1.0], size=scores.shape)
            assert low[0] - 1e-9 <= METRICS[name].value(within, truth) <= high[0] + 1e-9
    assert widest > 0.0


@pytest.mark.parametrize(("name", "classes"), [case for case in BOUNDED if case[0] != "roc_auc"])
def test_exact_scores_have_exact_bounds(name, classes):
    scores, truth = scores_and_truth(3, classes)
    low, high = METRICS[name].bounds(scores[None], scores[None], truth)
    assert low[0] == pytest.approx(high[0], rel=1e-9)


def test_rows_are_decided_if_one_class_is_possible_everywhere():
    low, high = np.array([[-1.0, 0.5, -0.5], [-1.0, 0.1, 0.5]]), np.array([[-0.5, 1.0, -0.2], [0.0, 1.0, 0.7]])
    assert METRICS["error"].decided_rows(low, high) == 2
    assert METRICS["mae"].decided_rows(low, high) is None


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("precision", "binary", "one of error"),
        ("mae", "binary", "does not fit task binary; use error or accuracy or balanced_error"),
        ("error", "regression", "use mae or mse"),
        ("roc_auc", "multiclass", "does not fit"),
        (None, "ordinal", "give a Scorer"),
        ("error", "ordinal", "give a Scorer"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused(name, task, message):
    with pytest.raises(InvalidProblem, match=message) as refused:
        read_metric(name, task)
    assert refused.value.argument == "metric"


def test_bounds_of_r2_survive_targets_far_from_zero():
    random = np.random.default_rng(0)
    truth = 1e8 + random.integers(0, 2, 50)
    scores = truth + random.standard_normal(50)
    low, high = METRICS["r2"].bounds(scores[None], scores[None], truth)
    assert low[0] <= metrics.r2_score(truth, scores) <= high[0]


@pytest.mark.parametrize("name", ["pr_auc", "r2"])
def test_a_fold_that_has_no_figure_is_found(name):
    assert METRICS[name].missing(np.zeros(4), 2) is not None
    assert METRICS[name].missing(np.arange(4.0), 2) is None
