"""Every task from stored arrays to a model: what is trained, how it is judged, and what the file then holds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.worker_bench import Bench, noisy, three_words, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def test_text_labels_come_back_as_they_were(bench: Bench) -> None:
    X, signal = noisy(150)
    job = bench.run(bench.store(X, three_words(signal)), split={"test": 0.2})
    assert job["result"]["task"] == "multiclass"
    assert job["result"]["task_reason"] == "the labels are 3 text classes"
    assert job["result"]["strategy"] == "ovr"
    card, stored = bench.model(job)
    assert card["classes"] == stored.header.classes == ["high", "low", "middle"]
    assert (stored.header.task, stored.header.strategy, stored.coef.shape) == ("multiclass", "ovr", (3, 4))
    per_class = card["certificate"]["per_class"]
    assert [one["label"] for one in per_class] == card["classes"]
    assert card["certificate"]["primal"] == pytest.approx(sum(one["primal"] for one in per_class))
    predicted = np.array(card["classes"])[(X @ stored.coef.T + stored.intercept).argmax(axis=1)]
    whole = np.mean(predicted == three_words(signal))
    parts = card["metrics"]
    rows = parts["train"]["rows"], parts["test"]["rows"]
    assert np.average([parts["train"]["accuracy"], parts["test"]["accuracy"]], weights=rows) == pytest.approx(whole)
    assert card["curves"] is None


def test_numbers_are_told_from_classes(bench: Bench) -> None:
    X, signal = noisy(120)
    job = bench.run(bench.store(X, signal), split={"test": 0.25}, tol=1e-2)
    assert job["result"]["task"] == "regression"
    assert "numbers" in job["result"]["task_reason"]
    card, stored = bench.model(job)
    assert (card["classes"], stored.header.task, stored.coef.shape) == ([], "regression", (4,))
    assert (card["metrics"]["train"]["rows"], card["metrics"]["test"]["rows"]) == (90, 30)
    assert card["metrics"]["test"]["r2"] > 0.8
    predicted = X @ stored.coef + stored.intercept
    both = [card["metrics"][part]["mae"] * card["metrics"][part]["rows"] for part in ("train", "test")]
    assert sum(both) == pytest.approx(np.abs(predicted - signal).sum())


def test_ranks_are_compared_within_groups(bench: Bench) -> None:
    random = np.random.default_rng(1)
    X, signal = noisy(200, 1)
    group = random.permutation(np.arange(200) % 20)
    level = random.normal(size=20) * 10  # of a group: larger than the differences within it, and in no feature
    ranks = np.digitize(signal, [-1.5, 0.0, 1.5]).astype(float)
    data = bench.store(X, np.round(ranks + level[group]), group=group)
    card, stored = bench.model(bench.run(data, task="ordinal", tol=1e-2))
    assert card["metrics"]["train"]["swapped_pairs"] < 0.15
    assert set(card["metrics"]["train"]["ndcg"]) == {"5", "10"}
    assert (card["metrics"]["train"]["groups"], stored.header.task) == (20, "ordinal")
    apart, _ = bench.model(bench.run(bench.store(X, np.round(ranks + level[group])), task="ordinal", tol=1e-2))
    assert apart["metrics"]["train"]["swapped_pairs"] > 0.3


def test_ranks_by_thresholds_and_their_metrics(bench: Bench) -> None:
    X, signal = noisy(150)
    y = 10.0 * np.digitize(signal, [-1.0, 1.0])
    card, stored = bench.model(bench.run(bench.store(X, y), task="ordinal"))
    assert card["classes"] == [0, 10, 20]
    assert stored.thresholds is not None
    predicted = np.array(card["classes"])[np.searchsorted(stored.thresholds, X @ stored.coef)]
    assert card["metrics"]["train"]["mae"] == pytest.approx(np.abs(predicted - y).mean())
    assert card["metrics"]["train"]["accuracy"] == pytest.approx(np.mean(predicted == y))
    assert card["metrics"]["train"]["accuracy"] > 0.7


def test_an_order_of_real_numbers_has_no_ranks(bench: Bench) -> None:
    X, signal = noisy(300)
    card, stored = bench.model(bench.run(bench.store(X, signal), task="ordinal", tol=1e-2))
    assert (card["classes"], stored.thresholds) == ([], None)
    assert card["metrics"]["train"]["accuracy"] is None
    assert card["metrics"]["train"]["kendall_tau"] > 0.7


def test_curves_are_of_the_test_rows(bench: Bench) -> None:
    X, signal = noisy(200)
    data = bench.store(X, np.where(signal > 0, 1, 0))
    card, _ = bench.model(bench.run(data, split={"test": 0.5}))
    assert card["curves"]["rows"] == "test"
    area = np.trapezoid(card["curves"]["roc"]["tpr"], card["curves"]["roc"]["fpr"])
    assert area == pytest.approx(card["metrics"]["test"]["roc_auc"])
    assert bench.model(bench.run(data))[0]["curves"]["rows"] == "train"


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression", "ordinal"])
def test_a_weight_is_a_repeated_row_in_objective_and_metrics(bench: Bench, task: str) -> None:
    X, signal = noisy(80)
    y = {
        "binary": np.where(signal > 0, 1, -1),
        "multiclass": three_words(signal),
        "regression": signal,
        "ordinal": np.digitize(signal, [-1.0, 1.0]),
    }[task]
    weight = np.random.default_rng(2).integers(0, 3, 80)
    repeated = np.repeat(np.arange(80), weight)
    asked = {"task": task, "tol": 1e-6}
    weighted, _ = bench.model(bench.run(bench.store(X, y, weight=weight.astype(np.float64)), **asked))
    plain, _ = bench.model(bench.run(bench.store(X[repeated], y[repeated]), **asked))
    assert weighted["certificate"]["primal"] == pytest.approx(plain["certificate"]["primal"], rel=1e-5)
    for name in {"accuracy", "mae", "f1", "swapped_pairs", "r2"} & set(plain["metrics"]["train"]):
        assert weighted["metrics"]["train"][name] == pytest.approx(plain["metrics"]["train"][name], rel=1e-2), name


@pytest.mark.parametrize("strategy", ["ovr", "crammer_singer"])
def test_class_weights_reach_every_strategy(bench: Bench, strategy: str) -> None:
    X, signal = noisy(90)
    y = three_words(signal)
    data = bench.store(X, y)
    asked = {"strategy": strategy, "tol": 1e-4}
    balanced = {
        str(label): len(y) / (3 * count) for label, count in zip(*np.unique(y, return_counts=True), strict=True)
    }
    primal = [bench.run(data, class_weight=weight, **asked)["primal"] for weight in (None, "balanced", balanced)]
    assert primal[1] == pytest.approx(primal[2], rel=1e-3)
    assert primal[0] != pytest.approx(primal[1], rel=1e-3)


def test_ranks_that_training_does_not_have_are_judged_all_the_same(bench: Bench) -> None:
    X, signal = noisy(80)
    two, three = bench.store(X, np.where(signal > 0, 2, 1)), bench.store(X, np.digitize(signal, [-1.0, 1.0]))
    card, _ = bench.model(bench.run(two, task="ordinal", split={"test_dataset_id": three}))
    assert card["curves"] is None
    assert card["metrics"]["test"]["kendall_tau"] > 0.6
    card, _ = bench.model(bench.run(two, task="ordinal", split={"test_dataset_id": two}))
    assert card["metrics"]["test"]["roc_auc"] == pytest.approx(1 - card["metrics"]["test"]["swapped_pairs"])
    assert card["curves"]["rows"] == "test"


def test_scores_beyond_all_numbers_fail_with_advice(bench: Bench) -> None:
    X, signal = noisy(60)
    y = np.where(signal > 0, 1, 0)
    huge = bench.store(1e308 * np.sign(X), y)
    job = bench.run(bench.store(X, y), split={"test_dataset_id": huge})
    assert (job["error"]["code"], job["error"]["param"]) == ("overflow", "dataset_id")
