"""Training with `threshold`: the best cut of the held-out scores, kept in the model and used for its metrics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from app.errors import AppError
from app.jobs.types.evaluate_request import EvaluateRequest
from app.jobs.types.tune_request import TuneRequest
from app.worker.train.tuned_threshold import METRICS, best_threshold
from tests.support.worker_bench import Bench, worker_bench

Array = np.ndarray[Any, Any]
REFERENCE = {
    "f1": reference.f1_score,
    "balanced_accuracy": reference.balanced_accuracy_score,
    "accuracy": reference.accuracy_score,
    "matthews": reference.matthews_corrcoef,
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def rare(rows: int, seed: int) -> tuple[Array, Array]:
    """Rows of which about 6 % are `fraud`, hard to separate."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 4))
    y = np.where(X @ [1.0, -0.7, 0.5, 0.0] + random.normal(size=rows) > 2.6, "fraud", "fine")
    return X, y


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(6))
def test_no_threshold_is_better(metric: str, positive: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(5, 60))
    codes = (random.random(rows) < 0.3).astype(np.int64)
    codes[:2] = [0, 1]
    scores = random.integers(-4, 5, rows) / 4.0 if seed % 2 else random.normal(codes - 0.8)
    weight = random.integers(1, 4, rows).astype(float) if seed % 3 else np.ones(rows)
    value, reached, at_zero = best_threshold(metric, positive, codes, scores, weight)

    def judged(threshold: float) -> float:
        predicted = scores > threshold
        truth = codes == 1
        if positive == 0:
            truth, predicted = ~truth, ~predicted
        return float(REFERENCE[metric](truth, predicted, sample_weight=weight))

    tried = np.concatenate([scores, [scores.min() - 1, 0.0], scores + 1e-9])
    assert reached == pytest.approx(max(judged(one) for one in tried))
    assert judged(value) == pytest.approx(reached)
    assert judged(0.0) == pytest.approx(at_zero)


def test_zero_stays_where_nothing_is_better() -> None:
    codes, scores = np.array([0, 0, 1, 1]), np.array([-2.0, -1.0, 1.0, 5.0])
    assert best_threshold("f1", 1, codes, scores, np.ones(4)) == (0.0, 1.0, 1.0)
    assert best_threshold("f1", 1, codes, scores + 3.0, np.ones(4))[0] == 3.0, "the middle of two scores"


@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy"])
def test_a_tuned_threshold_finds_the_rare_class(bench: Bench, metric: str) -> None:
    dataset = bench.store(*rare(3000, 1))
    plain, _ = bench.model(bench.run(dataset, split={"test": 0.3}, C=1.0))
    job = bench.run(dataset, split={"test": 0.3}, C=1.0, threshold={"metric": metric}, cross_validation=4)
    card, stored = bench.model(job)
    told = card["threshold"]
    assert job["result"]["threshold"] == told
    assert stored.thresholds is not None
    assert stored.thresholds.tolist() == [told["value"]]
    assert (told["metric"], told["positive_class"], told["rows"]) == (metric, "fraud", 2100)
    assert told["held_out"] > told["at_zero"]
    assert card["metrics"]["test"]["threshold"] == told["value"]
    assert card["metrics"]["test"][metric] > plain["metrics"]["test"][metric] + 0.03
    assert {fold["metrics"]["threshold"] for fold in card["cross_validation"]["folds"]} == {told["value"]}
    if metric == "balanced_accuracy":  # a mean over folds, up to the size of the folds
        assert card["cross_validation"]["mean"][metric] == pytest.approx(told["held_out"], abs=0.01)
    assert card["headline"]["name"] == "balanced_accuracy"
    fresh, truth = rare(20_000, 2)
    scores = fresh @ stored.coef + stored.intercept
    report = bench.run_on_model(EvaluateRequest(type="evaluate", model="m", dataset_id=bench.store(fresh, truth)))
    predicted = scores > told["value"]
    found = report["result"]["metrics"]
    assert found["f1"] == pytest.approx(reference.f1_score(truth == "fraud", predicted))
    assert found["balanced_accuracy"] == pytest.approx(reference.balanced_accuracy_score(truth == "fraud", predicted))
    assert (found["positive_class"], found["threshold"]) == ("fraud", told["value"])


def test_folds_are_drawn_for_a_threshold_but_not_reported(bench: Bench) -> None:
    card, _ = bench.model(bench.run(bench.store(*rare(600, 3)), threshold={"metric": "f1"}))
    assert card["cross_validation"] is None
    assert card["threshold"]["rows"] == 600
    assert "training_figures_only" in {one["code"] for one in card["warnings"]}


def test_a_search_tunes_on_its_own_folds(bench: Bench) -> None:
    dataset = bench.store(*rare(600, 4))
    fields = {"C": [0.1, 1.0], "threshold": {"metric": "balanced_accuracy"}, "cross_validation": 3}
    job = bench.run_on_model(TuneRequest(type="tune", dataset_id=dataset, model="m", metric="f1", **fields))
    card, stored = bench.model(job)
    assert stored.thresholds is not None
    assert card["threshold"]["held_out"] > card["threshold"]["at_zero"]
    assert job["result"]["threshold"]["value"] == stored.thresholds[0]


def test_a_search_is_by_the_f1_of_the_rarer_class(bench: Bench) -> None:
    """The rare class is the first one: the metric of the search is its F1, not that of the other."""
    X, y = rare(500, 5)
    dataset = bench.store(X, np.where(y == "fraud", "a rare one", "usual"))
    fields = {"C": [1.0], "cross_validation": 3, "metric": "f1", "class_weight": "balanced"}
    found = {}
    for positive in (None, "usual"):
        request = TuneRequest(type="tune", dataset_id=dataset, model="m", positive_class=positive, **fields)
        found[positive] = bench.run_on_model(request)["result"]["best"]["mean"]
    assert found[None] < 0.6 < 0.8 < found["usual"]


def test_the_positive_class_is_the_rarer_one_or_the_one_that_is_named(bench: Bench) -> None:
    X, y = rare(500, 6)
    dataset = bench.store(X, np.where(y == "fraud", "a rare one", "usual"))
    for asked, expected in ((None, "a rare one"), ("usual", "usual")):
        card, _ = bench.model(bench.run(dataset, positive_class=asked, class_weight="balanced", split={"test": 0.4}))
        assert card["params"]["positive_class"] == expected
        for part in ("train", "test"):
            figures = card["metrics"][part]
            (own,) = [one for one in figures["per_class"] if one["label"] == expected]
            assert figures["positive_class"] == expected
            assert (figures["f1"], figures["recall"]) == (own["f1"], own["recall"])
    evaluated = bench.run_on_model(
        EvaluateRequest(type="evaluate", model="m", dataset_id=dataset, positive_class="a rare one")
    )
    assert evaluated["result"]["metrics"]["positive_class"] == "a rare one"
    even = bench.store(X, np.where(np.arange(500) % 2, "b", "a"))
    card, _ = bench.model(bench.run(even))
    assert card["params"]["positive_class"] == "b", "of equally frequent classes the second"
    numbers = bench.store(X, np.where(y == "fraud", 7, 3))
    assert bench.model(bench.run(numbers, positive_class=3))[0]["params"]["positive_class"] == 3
    assert bench.model(bench.run(numbers, positive_class="7"))[0]["params"]["positive_class"] == 7


def test_what_needs_two_classes_is_refused_elsewhere(bench: Bench) -> None:
    X, y = rare(60, 7)
    two, three = bench.store(X, y), bench.store(X, np.arange(60) % 3)
    numbers = bench.store(X, X[:, 0])
    for dataset, fields, field, code in (
        (two, {"positive_class": "unknown"}, "positive_class", "unknown_class"),
        (three, {"positive_class": 1}, "positive_class", "not_binary"),
        (three, {"threshold": {"metric": "f1"}}, "threshold", "not_binary"),
        (numbers, {"threshold": {"metric": "f1"}}, "threshold", "not_binary"),
    ):
        with pytest.raises(AppError) as refused:
            bench.submit(dataset, **fields)
        assert refused.value.errors is not None
        assert (refused.value.errors[0].field, refused.value.errors[0].code) == (field, code)


def test_a_job_that_is_finished_before_its_folds_says_that_nothing_was_tuned(bench: Bench) -> None:
    dataset = bench.store(*rare(400, 8))
    job = bench.run(dataset, lambda: "finish", threshold={"metric": "f1"}, C=1.0)
    card, stored = bench.model(job)
    assert stored.thresholds is None
    assert "threshold_not_tuned" in {one["code"] for one in card["warnings"]}
