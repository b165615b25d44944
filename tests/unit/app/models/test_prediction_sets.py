"""Prediction sets: compared with their definition, and with the truth on made data."""

import math

import numpy as np
import pytest

from app.models.prediction_sets import PredictionSets, excess, strangeness
from tests.support.set_coverage import Tally, add_split


def test_an_interval_is_that_of_its_definition() -> None:
    random = np.random.default_rng(0)
    for trial in range(60):
        parts = [np.sort(random.exponential(size=random.integers(0 if trial % 3 else 1, 9))) for _ in range(4)]
        n = sum(map(len, parts))
        scores = [random.normal(size=5) for _ in parts]
        requested = float(random.uniform(0.3, 0.95))
        found = PredictionSets([], [parts], None).intervals(scores, requested)
        rank = math.ceil(requested * (n + 1))
        for row, one in enumerate(found):
            ups = np.sort(np.concatenate([score[row] + part for score, part in zip(scores, parts, strict=True)]))
            downs = np.sort(np.concatenate([score[row] - part for score, part in zip(scores, parts, strict=True)]))
            if rank > n:
                assert one == {"low": None, "high": None}
            else:
                ends = sorted([downs[n - rank], ups[rank - 1]])
                assert (one["low"], one["high"]) == pytest.approx(ends, rel=1e-13, abs=1e-13)


def test_a_label_is_left_out_by_the_rows_of_its_class() -> None:
    random = np.random.default_rng(1)
    for _ in range(30):
        grouped = [[np.sort(random.normal(size=random.integers(1, 6))) for _ in range(3)] for _ in range(4)]
        scores = [random.normal(size=(7, 4)) for _ in range(3)]
        found = PredictionSets([], grouped, None).labels(scores, ["a", "b", "c", "d"], 0.7)
        for row in range(7):
            expected = []
            for place, label in enumerate("abcd"):
                own = [max(np.delete(one[row], place)) - one[row, place] for one in scores]
                less = sum(int((part < value).sum()) for part, value in zip(grouped[place], own, strict=True))
                if less < math.ceil(0.7 * (sum(map(len, grouped[place])) + 1)):
                    expected.append(label)
            assert found[row] == expected


def test_two_classes_are_strange_by_the_sign_of_their_score() -> None:
    assert strangeness(np.array([2.0, -1.0])).tolist() == [[2.0, -2.0], [-1.0, 1.0]]


def test_a_score_that_overflows_excludes_nothing() -> None:
    sets = PredictionSets([], [[np.zeros(9)], [np.zeros(9)]], None)
    assert sets.labels([np.array([np.nan, np.inf])], ["no", "yes"], 0.5) == [["no", "yes"], ["no", "yes"]]
    numbers = PredictionSets([], [[np.ones(9)]], None)
    assert numbers.intervals([np.array([np.nan, 1.0])], 0.5) == [{"low": None, "high": None}, {"low": 0.0, "high": 2.0}]


def test_the_proven_coverage_is_that_of_the_theorem() -> None:
    n, folds = 100, 5
    both = 2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1)
    assert excess([20] * 5) == min(both)
    assert excess([20, 20, 20, 20, 21]) == pytest.approx(2 * (1 - 1 / 5) / (101 / 5 + 1)), "of unequal folds only this"
    assert excess([2] * 5) == (1 - 5 / 10) / 6, "the smaller of both"
    told = PredictionSets([], [[np.zeros(20)] * 5], None).coverage(0.9)
    assert told["guaranteed"] == pytest.approx(0.8 - min(both))
    assert told["nominal"] == 91 / 101
    weighted = PredictionSets([], [[np.zeros(20)] * 5], "rows have weights").coverage(0.9)
    assert (weighted["guaranteed"], weighted["reason"]) == (None, "rows have weights")
    small = PredictionSets([], [[np.zeros(1)] * 5], None).coverage(0.9)
    assert (small["nominal"], small["guaranteed"]) == (1.0, 1.0), "with five rows nothing is left out"


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_sets_contain_the_truth_as_often_as_promised(task: str) -> None:
    """Bounded here; `python -m tests.soak.set_coverage` has 10,000 splits."""
    tally = Tally()
    for seed in range(60):
        add_split(tally, task, rows=60, folds=5, requested=0.8, seed=seed)
    measured = tally.covered / tally.splits
    assert measured >= tally.guaranteed
    assert abs(measured - tally.nominal) < 0.05, "it is near what it aims at, and so not vacuous"
