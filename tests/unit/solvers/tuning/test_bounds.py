"""Two trainings, however inexact, bound the scores of every exact model between them."""

import numpy as np
import pytest

from solvers.data.rows import as_rows
from solvers.problem.labels import read_labels
from solvers.tuning.bounds import edges_of, score_bounds, score_bounds_at, spread_of
from solvers.tuning.folds import Fold
from solvers.tuning.path import FoldPath, Training
from solvers.tuning.source import Source
from tests.support.tuning_truth import random_case, true_scores

SEEDS = range(12)
KINDS = [("binary", "ovr"), ("multiclass", "ovr"), ("multiclass", "crammer_singer"), ("regression", "ovr")]


def path_of(case, fold=0, uses_differences=False):
    labels = read_labels(case.y, case.definition.get("task", "auto"))
    source = Source(as_rows(case.X), labels, case.sample_weight)
    rows = Fold(fold, np.flatnonzero(case.folds != fold), np.flatnonzero(case.folds == fold))
    training = Training(case.definition, "auto", 0, None, None)
    return FoldPath(training, source.rows_of(rows, 0), uses_differences=uses_differences)


def excess(scores, doubt, low, high, are_joint):
    """By how much the true scores leave their bounds for certain; jointly trained classes: by differences."""
    if not are_joint:
        return max((low - scores - doubt).max(), (scores - doubt - high).max())
    return max(
        (low[:, [m]] - high - (scores[:, [m]] - scores) - doubt[:, [m]] - doubt)[:, np.arange(low.shape[1]) != m].max()
        for m in range(low.shape[1])
    )


def between(case, low, high, tols, count=3):
    """Excess of the true scores at a few C from low to high, relative to the largest score."""
    path, are_joint = path_of(case), case.definition.get("strategy") == "crammer_singer"
    a, b = (path.solve(C, tol, with_ends=True).ends for C, tol in zip((low, high), tols, strict=True))
    edges = edges_of(low, high)
    boxes = score_bounds(a, b, spread_of(a, b, low, high), edges, path.held_out.judged, are_joint=are_joint)
    worst = -np.inf
    for C in np.random.default_rng(1).uniform(low, high, count):
        scores, doubt, _ = true_scores(case, 0, float(C))
        part = min(int(np.searchsorted(edges, C, side="right")) - 1, edges.size - 2)
        worst = max(worst, excess(scores, doubt, boxes[0][part], boxes[1][part], are_joint))
    return worst


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("task", "strategy"), KINDS)
def test_scores_between_two_trainings_stay_within_their_bounds(task, strategy, seed):
    case, random = random_case(seed, task=task, strategy=strategy), np.random.default_rng(seed)
    low = float(10.0 ** random.uniform(-2, 1))
    high = low * float(random.choice([1.01, 1.5, 10.0]))
    tols = random.choice([0.5, 1e-1, 1e-2, 1e-6], size=2)
    assert between(case, low, high, tols.tolist()) <= 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_at_one_training_stay_within_their_bounds(seed):
    case, tol = random_case(seed), [0.5, 1e-2, 1e-5][seed % 3]
    path, C = path_of(case), [0.05, 1.0, 20.0][seed % 3]
    low, high = score_bounds_at(path.solve(C, tol, with_ends=True).ends, path.held_out.judged, are_joint=False)
    scores, doubt, _ = true_scores(case, 0, C)
    assert (low[0] <= scores + doubt).all()
    assert (scores - doubt <= high[0]).all()


def test_bounds_are_tight_where_trainings_are_close():
    """A bound that is true because it is wide proves nothing: near-exact trainings a hundredth apart fix the scores."""
    case = random_case(3)
    path = path_of(case)
    low, high = 1.0, 1.01
    a, b = (path.solve(C, 1e-10, with_ends=True).ends for C in (low, high))
    boxes = score_bounds(a, b, spread_of(a, b, low, high), edges_of(low, high), path.held_out.judged, are_joint=False)
    assert (boxes[1] - boxes[0]).max() < 0.05 * np.abs(a.middle).max()


def test_without_the_spread_or_the_gaps_bounds_would_be_false(monkeypatch):
    """What each term is for: exact trainings far apart need H, inexact ones their gaps."""
    from solvers.tuning import bounds

    def worst(tols, ratio):
        return max(between(random_case(seed), 0.3, 0.3 * ratio, tols) for seed in range(6))

    assert max(worst((1e-9, 1e-9), 10.0), worst((0.5, 0.5), 1.01)) <= 1e-9
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "spread_of", lambda a, b, low, high: np.zeros(a.gaps.size))
        assert worst((1e-9, 1e-9), 10.0) > 1e-3
    whole = bounds._largest_radii
    monkeypatch.setattr(bounds, "_largest_radii", lambda t, spread, a, b: whole(t, spread, 0.0 * a, 0.0 * b))
    assert worst((0.5, 0.5), 1.01) > 1e-3


def test_an_empty_row_without_bias_has_a_score_of_exactly_zero():
    case = random_case(1)
    case.definition["bias"], case.X = "none", np.array(case.X.toarray() if hasattr(case.X, "toarray") else case.X)
    row = int(np.flatnonzero(case.folds == 0)[0])
    case.X[row] = 0.0
    path = path_of(case)
    a, b = (path.solve(C, 1e-2, with_ends=True).ends for C in (1.0, 4.0))
    boxes = score_bounds(a, b, spread_of(a, b, 1.0, 4.0), edges_of(1.0, 4.0), path.held_out.judged, are_joint=False)
    assert not boxes[0][:, 0].any()
    assert not boxes[1][:, 0].any()


def test_a_bias_does_not_count_where_only_differences_do():
    case = random_case(5)
    case.definition |= {"bias": "regularized", "bias_scale": 50.0}
    plain, by_pairs = (path_of(case, uses_differences=one).held_out.judged for one in (False, True))
    assert (by_pairs.reach < plain.reach).all()
    table = case.X.toarray() if hasattr(case.X, "toarray") else case.X
    rows = table[case.folds == 0]
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert (apart <= by_pairs.reach[:, None] + by_pairs.reach[None]).all()
