"""Folds: every row is held out once a repeat, classes and groups as asked, and mistakes name the argument."""

import numpy as np
import pytest

from solvers import InvalidProblem
from solvers.problem.labels import read_labels
from solvers.tuning.folds import read_folds

Y = np.array([0] * 30 + [1] * 12)


def drawn(folds=5, y=Y, groups=None, repeats=1, seed=0):
    return read_folds(folds, read_labels(y, "auto"), groups=groups, repeats=repeats, seed=seed, has_ranks=False)


def test_every_row_is_held_out_once_and_trained_on_otherwise():
    folds = drawn()
    assert np.array_equal(np.sort(np.concatenate([fold.held_out for fold in folds])), np.arange(Y.size))
    for fold in folds:
        assert np.array_equal(np.union1d(fold.training, fold.held_out), np.arange(Y.size))
        assert np.intersect1d(fold.training, fold.held_out).size == 0


def test_classes_are_spread_evenly():
    counts = np.array([np.bincount(Y[fold.held_out], minlength=2) for fold in drawn()])
    assert np.ptp(counts, axis=0).max() <= 1


def test_real_targets_are_dealt_plainly():
    sizes = [fold.held_out.size for fold in drawn(y=np.linspace(0.5, 3.7, 23))]
    assert max(sizes) - min(sizes) <= 1


def test_groups_stay_together():
    groups = np.arange(Y.size) // 3
    for fold in drawn(groups=groups):
        assert np.intersect1d(groups[fold.held_out], groups[fold.training]).size == 0


def test_repeats_draw_again():
    folds = drawn(3, repeats=2)
    assert [fold.number for fold in folds] == list(range(6))
    assert any(not np.array_equal(a.held_out, b.held_out) for a, b in zip(folds[:3], folds[3:], strict=True))


def test_a_seed_repeats_the_folds():
    assert all(np.array_equal(a.held_out, b.held_out) for a, b in zip(drawn(seed=7), drawn(seed=7), strict=True))


def test_a_column_says_which_fold_a_row_is_in():
    column = np.where(np.arange(Y.size) % 3 == 0, "a", np.where(np.arange(Y.size) % 3 == 1, "b", "c"))
    assert [fold.held_out.tolist()[:2] for fold in drawn(column)] == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"folds": 1}, "folds", "at least 2|from 2"),
        ({"folds": 2.5}, "folds", "whole number"),
        ({"folds": 43}, "folds", "there are 42 rows; use at most 42"),
        ({"groups": np.arange(42) // 21}, "folds", "there are 2 groups"),
        ({"groups": np.arange(41)}, "groups", "42 rows"),
        ({"folds": np.zeros(42)}, "folds", "has 1 values"),
        ({"folds": np.zeros(41)}, "folds", "42 rows"),
        ({"folds": Y}, "folds", "class '0' no row to train on when fold 1"),
        ({"folds": np.arange(42) % 3, "repeats": 2}, "repeats", "only used if folds is a number"),
        ({"folds": np.arange(42) % 3, "groups": np.arange(42)}, "groups", "only used if folds is a number"),
        ({"repeats": 0}, "repeats", "from 1 to 100"),
    ],
)
def test_mistakes_name_the_argument(arguments, argument, message):
    with pytest.raises(InvalidProblem, match=message) as refused:
        drawn(**arguments)
    assert refused.value.argument == argument
