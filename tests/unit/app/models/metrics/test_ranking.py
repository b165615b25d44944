"""Metrics of an order beside scipy's and scikit-learn's, and beside a count of all pairs one by one."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn import metrics as reference

from app.models.metrics import ordinal_metrics
from app.models.metrics.ranking import count_pairs, ndcg
from tests.support.builders import SOAK

TOLERANCE = 1e-12
Array = np.ndarray[Any, Any]

ROWS = st.tuples(
    st.integers(0, 6).map(float),  # relevance
    st.integers(-3, 3).map(lambda number: number / 2) | st.floats(-10, 10),  # score
    st.integers(0, 2),  # group
    st.integers(0, 3).map(float),  # weight
)


@settings(max_examples=200 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(rows=st.lists(ROWS, min_size=1, max_size=40))
def test_pairs_are_counted_as_one_by_one(rows: list[tuple[float, float, int, float]]) -> None:
    y, scores, group, weight = (np.array(column) for column in zip(*rows, strict=True))
    counted = count_pairs(y, scores, group, weight)
    i, j = np.triu_indices(len(rows), 1)
    i, j = i[group[i] == group[j]], j[group[i] == group[j]]
    cost, in_order = weight[i] * weight[j], np.sign(y[i] - y[j]) * np.sign(scores[i] - scores[j])
    assert counted.all == cost[y[i] != y[j]].sum()
    assert counted.swapped == cost[in_order < 0].sum()
    assert counted.tied == cost[(y[i] != y[j]) & (scores[i] == scores[j])].sum()
    assert counted.apart == cost[scores[i] != scores[j]].sum()


@pytest.mark.parametrize("seed", range(20))
def test_tau_is_scipys_and_a_weight_is_a_repeated_row(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(3, 200))
    y = random.integers(0, 5, rows).astype(float) if seed % 2 else random.normal(size=rows)
    scores = random.integers(-3, 4, rows) / 2.0 if seed % 3 else random.normal(size=rows)
    weight = random.integers(0, 4, rows)
    weight[:3] = 1
    y[:2], scores[:2] = [0.0, 1.0], [0.0, 1.0]
    for counts in (np.ones(rows, dtype=np.int64), weight):
        ours = ordinal_metrics(y, scores, None, weight=counts.astype(float))
        repeated = np.repeat(np.arange(rows), counts)
        assert ours["kendall_tau"] == pytest.approx(kendalltau(y[repeated], scores[repeated]).statistic, abs=TOLERANCE)


def test_of_two_ranks_the_swapped_pairs_are_the_rest_of_the_roc_area() -> None:
    random = np.random.default_rng(1)
    y, scores = random.integers(0, 2, 200) * 3.0, random.integers(0, 20, 200) / 4.0
    weight = random.exponential(size=200)
    ours = ordinal_metrics(y, scores, None, weight=weight)
    area = reference.roc_auc_score(y > 0, scores, sample_weight=weight)
    assert ours["roc_auc"] == pytest.approx(area, abs=TOLERANCE)
    assert ours["swapped_pairs"] == pytest.approx(1 - area, abs=TOLERANCE)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [1, 5, 10, 100])
def test_ndcg_is_scikit_learns_mean_over_groups(ties: bool, k: int) -> None:
    random = np.random.default_rng(k)
    group = random.permutation(np.repeat(np.arange(12), random.integers(2, 30, 12)))
    y = random.integers(0, 5, len(group)).astype(float)
    y[group == 3] = 0.0  # nothing to find: left out
    scores = random.integers(0, 6, len(group)) / 2.0 if ties else random.normal(size=len(group))
    lists = [group == number for number in range(12) if y[group == number].any()]
    assert len(lists) < 12
    expected = [reference.ndcg_score([y[rows]], [scores[rows]], k=k) for rows in lists]
    assert ndcg(y, scores, group, k) == pytest.approx(np.mean(expected), abs=TOLERANCE)


def test_ndcg_needs_gains_that_are_not_negative_and_something_to_find() -> None:
    scores, group = np.array([1.0, 2.0]), np.zeros(2, dtype=np.int64)
    assert ndcg(np.array([-1.0, 1.0]), scores, group, 5) is None
    assert ndcg(np.zeros(2), scores, group, 5) is None


def test_ranks_by_thresholds_are_judged_by_how_far_off_they_are() -> None:
    y, predicted = np.array([1.0, 2.0, 5.0, 5.0]), np.array([1.0, 5.0, 5.0, 2.0])
    ours = ordinal_metrics(y, predicted, predicted)
    assert (ours["accuracy"], ours["error"], ours["mae"]) == (0.5, 0.5, 1.5)
    weighted = ordinal_metrics(y, predicted, predicted, weight=np.array([1.0, 0.0, 1.0, 2.0]))
    assert (weighted["accuracy"], weighted["mae"]) == (0.5, 1.5)
    assert ordinal_metrics(y, predicted, None)["accuracy"] is None


def test_only_rows_of_one_group_are_compared() -> None:
    y, scores, group = (
        np.array([0.0, 1.0, 2.0, 3.0, 4.0]),
        np.array([9.0, 10.0, 0.0, 1.0, 7.0]),
        np.array([0, 0, 1, 1, 2]),
    )
    ours = ordinal_metrics(y, scores, None, group)
    assert (ours["swapped_pairs"], ours["kendall_tau"]) == (0.0, pytest.approx(1.0, abs=TOLERANCE))
    assert (ours["groups"], ours["groups_without_pairs"]) == (3, 1)
    assert set(ours["ndcg"]) == {"5", "10"}


def test_what_cannot_be_said_is_null_and_everything_is_json() -> None:
    nothing = ordinal_metrics(np.ones(3), np.arange(3.0), None)
    assert (nothing["swapped_pairs"], nothing["kendall_tau"], nothing["roc_auc"], nothing["ndcg"]) == (None,) * 4
    assert (nothing["groups"], nothing["groups_without_pairs"]) == (1, 1)
    full = ordinal_metrics(np.arange(3.0), np.arange(3.0), np.arange(3.0), np.zeros(3, dtype=np.int64), np.ones(3))
    for measured in (nothing, full):
        assert json.loads(json.dumps(measured, allow_nan=False)) == measured
