"""Leave-one-out bounds hold against exact trainings without each row."""

import numpy as np
import pytest

import solvers
from solvers import InvalidOptions
from tests.support.tuning_truth import random_case, true_scores

KINDS = [("binary", "ovr", 8), ("multiclass", "ovr", 2), ("multiclass", "crammer_singer", 2), ("regression", "ovr", 3)]


def case_of(seed, task="binary", strategy="ovr"):
    """A problem in which the costs of other rows stay when one leaves, of few rows."""
    case = random_case(seed, task=task, strategy=strategy)
    case.definition["c_scale"] = "sum"
    case.definition.pop("class_weight", None)
    return case


def bounds_of(case, C, **more):
    return solvers.leave_one_out(case.X, case.y, C=C, sample_weight=case.sample_weight, **case.definition, **more)


@pytest.mark.parametrize(("task", "strategy", "seed"), [(*kind[:2], seed) for kind in KINDS for seed in range(kind[2])])
def test_scores_without_the_row_stay_within_their_bounds(task, strategy, seed):
    case, C = case_of(seed, task, strategy), [0.05, 1.0, 20.0][seed % 3]
    found = bounds_of(case, C, tol=[1e-8, 1e-2][seed % 2])
    low, high = found.low, found.high
    for row in np.random.default_rng(seed).choice(case.y.size, 6, replace=False):
        case.folds = (np.arange(case.y.size) == row).astype(int)
        scores, doubt, _ = true_scores(case, 1, C)
        if strategy == "crammer_singer":
            for m in range(low.shape[1]):
                apart, known = scores[0, m] - scores[0], low[row, m] - high[row]
                others = np.arange(low.shape[1]) != m
                assert (known <= apart + doubt[0, m] + doubt[0])[others].all()
            continue
        assert np.all(low[row] <= scores[0] + doubt[0])
        assert np.all(scores[0] - doubt[0] <= high[row])


def test_bounds_of_an_exact_training_are_those_of_the_rows_own_multiplier():
    case = case_of(4)
    case.sample_weight, case.X = None, case.X.toarray() if hasattr(case.X, "toarray") else case.X
    case.definition |= {"loss": "squared_hinge"}
    found = bounds_of(case, 1.0, tol=1e-12)
    model = solvers.train(case.X, case.y, C=1.0, tol=1e-12, **case.definition)
    signs = np.where(case.y == 1, 1.0, -1.0)
    margins = signs * model.decision_function(case.X)
    pull = 2.0 * np.maximum(1.0 - margins, 0.0) * case.h_lengths**2
    low, high = np.sort([signs * found.low, signs * found.high], axis=0)
    scale = 1e-4 * max(1.0, float(np.abs(margins).max()))
    assert np.abs(high - margins).max() < scale
    assert np.abs(low - (margins - pull)).max() < scale


def test_refits_decide_the_rest():
    case = case_of(2)
    bounds, exact = bounds_of(case, 1.0), bounds_of(case, 1.0, refits=1000)
    assert bounds.undecided.size > 0
    assert bounds.refits == 0
    assert exact.refits == bounds.undecided.size
    assert bounds.lower <= exact.lower <= exact.upper <= bounds.upper
    wrong = 0
    for row in range(case.y.size):
        others = np.delete(np.arange(case.y.size), row)
        wrong += case.train(others, 1.0).predict(case.X[[row]])[0] != case.y[row]
    assert exact.undecided.size == 0
    assert exact.lower == exact.upper == pytest.approx(wrong / case.y.size)


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"bias": "free"}, "free bias"), ({"c_scale": "mean"}, "c_scale"), ({"class_weight": "balanced"}, "balanced")],
)
def test_there_is_a_reason_where_nothing_can_be_proved(changed, why):
    case = case_of(0)
    case.definition |= changed
    found = bounds_of(case, 1.0)
    assert found.lower is None
    assert why in found.reason


def test_refits_are_a_number():
    with pytest.raises(InvalidOptions, match="refits"):
        solvers.leave_one_out(np.eye(4), [0, 1, 0, 1], refits=-1)
