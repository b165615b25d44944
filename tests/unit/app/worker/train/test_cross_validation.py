"""Held-out rows, folds and groups in the worker, and the refusals of what cannot be split."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn import metrics as reference

from app.errors import Invalid
from app.jobs import service as jobs
from app.jobs.types.train_request import TrainRequest
from app.worker.train.progress import WRITE_EVERY_SECONDS
from tests.support.worker_bench import Bench, Json, noisy, three_words, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def test_whole_groups_are_held_out(bench: Bench) -> None:
    X, signal = noisy(200)
    group = np.arange(200) // 10
    data = bench.store(X, np.where(signal > 0, 1, -1), group=group)
    card, _ = bench.model(bench.run(data, split={"test": 0.3}))
    assert card["metrics"]["test"]["rows"] == 60
    # Each group has a feature and a label of its own: the weight of a group that was held out whole stays zero.
    own = bench.store(np.eye(20)[group], np.where(group % 2, 1, -1), group=group)
    for split, untouched in (({"test": 0.2}, 4), ({"test": 0.2, "group": True}, 4), ({"test": 0.2, "group": False}, 0)):
        _, stored = bench.model(bench.run(own, split=split, loss="squared_hinge"))
        assert (stored.coef == 0).sum() == untouched


def test_cross_validation_is_what_scikit_learn_would_measure(bench: Bench) -> None:
    X, signal = noisy(120)
    y = np.where(signal > 0, "yes", "no")
    job = bench.run(bench.store(X, y), cross_validation=4, tol=1e-6)
    validation = job["result"]["cross_validation"]
    assert (validation["by"], len(validation["folds"])) == ("class", 4)
    assert [fold["train_rows"] for fold in validation["folds"]] == [90] * 4
    assert all(fold["converged"] and fold["relative_gap"] <= 1e-6 for fold in validation["folds"])
    accuracies = [fold["metrics"]["accuracy"] for fold in validation["folds"]]
    assert validation["mean"]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert validation["std"]["accuracy"] == pytest.approx(np.std(accuracies, ddof=1))
    assert set(validation["mean"]["macro"]) == {"precision", "recall", "f1"}
    assert 0.85 < validation["mean"]["accuracy"] < 1
    card, stored = bench.model(job)
    assert card["training"]["rows"] == 120
    predicted = np.where(X @ stored.coef + stored.intercept > 0, "yes", "no")
    assert card["metrics"]["train"]["accuracy"] == pytest.approx(reference.accuracy_score(y, predicted))


@pytest.mark.parametrize(("task", "by"), [("regression", "row"), ("ordinal", "group"), ("binary", "group")])
def test_folds_keep_groups_whole_and_numbers_in_any_order(bench: Bench, task: str, by: str) -> None:
    X, signal = noisy(120)
    y = signal if task == "regression" else np.where(signal > 0, 1, 0) if task == "binary" else np.digitize(signal, [0])
    extra = {} if by == "row" else {"group": np.arange(120) // 10}
    job = bench.run(bench.store(X, y, **extra), task=task, cross_validation=3, split={"test": 0.25}, tol=1e-2)
    validation = job["result"]["cross_validation"]
    assert validation["by"] == by
    assert [fold["train_rows"] for fold in validation["folds"]] == [60] * 3
    assert job["result"]["metrics"]["test"]["rows"] == 30
    if task == "ordinal":
        assert all(fold["metrics"]["groups"] == 3 for fold in validation["folds"])
        assert set(validation["mean"]["ndcg"]) == {"5", "10"}


def test_a_column_can_say_the_folds(bench: Bench) -> None:
    X, signal = noisy(100)
    data = bench.store(X, np.where(signal > 0, 1, 0), group=np.repeat([0, 1, 2], [50, 30, 20]))
    validation = bench.run(data, split={"fold_column": "query"})["result"]["cross_validation"]
    assert validation["by"] == "fold_column"
    assert [fold["metrics"]["rows"] for fold in validation["folds"]] == [50, 30, 20]


def test_cancel_ends_a_cross_validation_between_and_within_folds(bench: Bench) -> None:
    X, signal = noisy(200)
    data = bench.store(X, np.where(signal > 0, 1, 0))
    asked = 0

    def cancel_later() -> str | None:
        nonlocal asked
        asked += 1
        return "cancel" if asked > 6 else None

    job = bench.run(data, cancel_later, cross_validation=10, tol=1e-8)
    assert (job["status"], job["model_id"]) == ("cancelled", None)


def test_the_time_of_a_job_is_shared_by_its_folds(bench: Bench) -> None:
    X, signal = noisy(3000)
    y = np.where(signal + np.random.default_rng(0).normal(size=3000) > 0, 1, 0)
    slow = {"solver": "dcd", "C": 1e6, "tol": 1e-14, "stop": {"seconds": 1.0}}
    job = bench.run(bench.store(X, y), cross_validation=3, **slow)
    folds = job["result"]["cross_validation"]["folds"]
    assert {fold["status"] for fold in folds} == {"time_limit"}
    assert sum(fold["seconds"] for fold in folds) + job["result"]["training"]["seconds"] < 2.0 + WRITE_EVERY_SECONDS


IMPOSSIBLE = [
    ({"task": "ordinal"}, "text", "task"),
    ({"task": "regression"}, "text", "task"),
    ({"task": "binary"}, "text", "task"),
    ({"task": "ordinal", "class_weight": "balanced"}, "ranks", "class_weight"),
    ({"split": {"group": True}}, "text", "split.group"),
    ({"split": {"fold_column": "query"}}, "text", "split.fold_column"),
    ({"split": {"fold_column": "nope"}}, "grouped", "split.fold_column"),
    ({"split": {"fold_column": "query"}, "cross_validation": 3}, "grouped", "cross_validation"),
    ({"cross_validation": 20}, "text", "cross_validation"),
    ({}, "one", "dataset_id"),
]


@pytest.mark.parametrize(("fields", "kind", "field"), IMPOSSIBLE)
def test_what_cannot_be_is_refused_before_it_is_queued(bench: Bench, fields: Json, kind: str, field: str) -> None:
    X, signal = noisy(30)
    labels = {"text": three_words(signal), "ranks": np.digitize(signal, [-1.0, 1.0]), "one": np.zeros(30, dtype=int)}
    group = {"group": np.arange(30) // 5} if kind == "grouped" else {}
    data = bench.store(X, labels.get(kind, np.where(signal > 0, 1, 0)), **group)
    with pytest.raises(Invalid) as refused:
        bench.submit(data, **fields)
    assert refused.value.errors[0].field == field
    assert len(refused.value.detail) > 20


def failed(job: Json) -> tuple[str, str | None]:
    assert job["status"] == "failed"
    return job["error"]["code"], job["error"]["param"]


def test_what_only_the_rows_can_tell_fails_with_its_reason(bench: Bench) -> None:
    X, signal = noisy(40)
    two, group = np.where(signal > 0, 1, 0), np.arange(40) // 10
    in_one_group = np.where(group == 0, 7, two)
    outcome = failed(bench.run(bench.store(X, in_one_group, group=group), cross_validation=4))
    assert outcome == ("class_in_one_fold", "cross_validation")
    assert failed(bench.run(bench.store(X, two, group=group), cross_validation=5)) == (
        "too_many_folds",
        "cross_validation",
    )
    assert failed(bench.run(bench.store(X, two, group=np.zeros(40, dtype=int)), split={})) == (
        "split_too_small",
        "split.test",
    )
    equal_in_groups = bench.store(X, group.astype(float), group=group)
    job = bench.run(equal_in_groups, task="ordinal")
    assert failed(job) == ("invalid_problem", "dataset_id")
    assert "no two rows of different rank" in job["error"]["message"]
    many_folds = bench.store(X, two, group=np.arange(40) + 100)
    assert bench.run(many_folds, split={"fold_column": "query"})["status"] == "succeeded"
    X, signal = noisy(80)
    too_many = bench.store(X, np.where(signal > 0, 1, 0), group=np.arange(80))
    assert failed(bench.run(too_many, split={"fold_column": "query"})) == ("too_many_folds", "split.fold_column")


def test_a_class_that_a_split_makes_too_small_for_the_folds_is_named(bench: Bench) -> None:
    X, signal = noisy(60)
    y = np.where(np.arange(60) < 5, "rare", np.where(signal > 0, "yes", "no"))
    job = bench.run(bench.store(X, y), split={"test": 0.4}, cross_validation=5)
    assert failed(job) == ("class_too_small", "cross_validation")
    assert "'rare'" in job["error"]["message"]


def test_a_test_dataset_may_have_other_numbers_but_no_other_classes(bench: Bench) -> None:
    X, signal = noisy(60)
    numbers, others = bench.store(X, signal), bench.store(X, 2 * signal)
    split = {"test_dataset_id": others}
    assert bench.run(numbers, split=split, tol=1e-2)["result"]["metrics"]["test"]["rows"] == 60
    classes = bench.store(X, np.where(signal > 0, 1, 0))
    for test in (numbers, bench.store(X, np.where(signal > 0, 2, 0)), bench.store(X, three_words(signal))):
        with pytest.raises(Invalid):
            bench.submit(classes, split={"test_dataset_id": test})
    with pytest.raises(Invalid):
        bench.submit(numbers, split={"test_dataset_id": bench.store(X, three_words(signal))})


def test_a_test_dataset_may_lack_classes_and_number_its_words_otherwise(bench: Bench) -> None:
    X, signal = noisy(90)
    words = three_words(signal)
    train, all_three = bench.store(X, words), bench.store(X, words)
    part = words != "high"  # the first word of three: every other has another number without it
    lacking = bench.store(X[part], words[part])
    whole = bench.run(train, split={"test_dataset_id": all_three}, tol=1e-2)["result"]["metrics"]["test"]
    some = bench.run(train, split={"test_dataset_id": lacking}, tol=1e-2)["result"]["metrics"]["test"]
    labels = whole["confusion"]["labels"]
    assert some["confusion"]["labels"] == labels
    assert some["confusion"]["matrix"] == [
        row if label != "high" else [0, 0, 0] for label, row in zip(labels, whole["confusion"]["matrix"], strict=True)
    ]
    two = bench.store(X, np.where(signal > 0, "yes", "no"))
    only_yes = bench.store(X[signal > 0], np.full(int((signal > 0).sum()), "yes"))
    test = bench.run(two, split={"test_dataset_id": only_yes}, tol=1e-2)["result"]["metrics"]["test"]
    assert test["error"] < 0.3
    assert test["roc_auc"] is None


@pytest.mark.parametrize("task", ["binary", "multiclass", "ordinal", "regression"])
def test_the_curve_tells_the_error_on_test_rows(bench: Bench, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    monkeypatch.setattr("app.worker.train.held_out.LOOK_EVERY_SECONDS", 0.0)
    monkeypatch.setattr("app.worker.train.held_out.MOST_COST", 1e9)
    X, signal = noisy(200)
    words, ranks = np.where(signal > 0, "yes", "no"), np.digitize(signal, [-1.0, 1.0])
    y = {"binary": words, "multiclass": three_words(signal), "ordinal": ranks, "regression": signal}[task]
    weight = np.linspace(1.0, 2.0, 200)
    job = bench.run(bench.store(X, y, weight=weight), task=task, split={"test": 0.3}, tol=1e-6)
    test = bench.model(job)[0]["metrics"]["test"]
    with bench.database.read() as session:
        trace = jobs.get(session, job["id"], with_trace=True).trace
    told = [point["test_error"] for point in trace if point["test_error"] is not None]
    assert len(told) > 1
    final = test["rmse" if task == "regression" else "error"]
    assert told[-1] == final
    assert told[-2] == pytest.approx(final, abs=0.05), "the model before the last step is nearly the last one"
    whole = bench.run(bench.store(X, y), task=task, tol=1e-2)
    with bench.database.read() as session:
        assert {point["test_error"] for point in jobs.get(session, whole["id"], with_trace=True).trace} == {None}


def test_progress_counts_the_folds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.worker.train.progress.WRITE_EVERY_SECONDS", 0.0)
    X, signal = noisy(100)
    job = bench.run(bench.store(X, np.where(signal > 0, 1, 0)), cross_validation=4, tol=1e-6)
    with bench.database.read() as session:
        trace = jobs.get(session, job["id"], with_trace=True).trace
    assert job["progress"] == 1.0
    passes = [point["passes"] for point in trace]
    assert passes == sorted(passes), "the curve is of one training"


@pytest.mark.parametrize(
    ("split", "field"),
    [
        ({"test": 1.5}, "split.type=share.test"),
        ({"test_dataset_id": "ds_x", "test": 0.5}, "split.type=dataset.test"),
        ({"fold_column": "fold", "test": 0.5}, "split.type=folds.test"),
        ({"fold_column": 3}, "split.type=folds.fold_column"),
        ({"shuffle": True}, "split.type=share.shuffle"),
        ("half", "split.type=share"),
    ],
)
def test_a_mistake_in_a_split_is_told_once(split: Any, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TrainRequest.model_validate({"dataset_id": "ds_x", "split": split})
    assert [".".join(map(str, error["loc"])) for error in refused.value.errors()] == [field]


@pytest.mark.parametrize(
    "split",
    [{"test": 0.5, "group": None, "fold_column": None}, {"test_dataset_id": "ds_x"}, {"fold_column": "f"}, {}, None],
)
def test_a_split_survives_the_database(split: Any) -> None:
    request = TrainRequest.model_validate({"dataset_id": "ds_x", "split": split})
    assert TrainRequest.model_validate(request.model_dump(mode="json")) == request
