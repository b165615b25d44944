"""Leave-one-out jobs: the bounds contain the error of exact trainings without each row."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvers
from app.jobs.types.leave_one_out_request import LeaveOneOutRequest
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def left_out(bench: Bench, trained: Any, stop_reason: Callable[[], Any] = lambda: None, **fields: Any) -> Any:
    request = LeaveOneOutRequest(type="leave_one_out", model=trained["model_id"], **fields)
    return bench.run_on_model(request, stop_reason)


def exact_error(X: Any, y: Any, **problem: Any) -> float:
    wrong = 0
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        model = solvers.train(X[others], y[others], tol=1e-9, **problem)
        wrong += model.predict(X[[row]])[0] != y[row]
    return wrong / len(y)


def test_bounds_contain_the_exact_error_and_refits_find_it(bench: Bench) -> None:
    X, signal = noisy(40)
    y = np.where(signal + 0.5 > 0, 1.0, -1.0)
    trained = bench.run(bench.store(X, y), loss="squared_hinge", tol=1e-8)
    job = left_out(bench, trained)
    result = job["result"]
    truth = exact_error(X, y, loss="squared_hinge")
    assert result["lower"] <= truth <= result["upper"]
    assert (result["metric"], result["rows"], result["refits"], result["reason"]) == ("error", 40, 0, None)
    assert result["relative_gap"] <= 1e-8
    assert not result["trained"], "the stored solution was precise enough"
    decided = left_out(bench, trained, refits=1000)["result"]
    assert decided["lower"] == decided["upper"] == pytest.approx(truth)
    assert (decided["undecided"], decided["refits"]) == (0, result["undecided"])
    assert job["model_id"] == trained["model_id"]


def test_a_loose_model_is_trained_on(bench: Bench) -> None:
    X, signal = noisy(60)
    data = bench.store(X, np.where(signal > 0, 1.0, -1.0))
    result = left_out(bench, bench.run(data, tol=0.05, loss="squared_hinge"))["result"]
    assert result["trained"]
    assert result["relative_gap"] <= 1e-6


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_other_tasks_with_preprocessing(bench: Bench, task: str) -> None:
    X, signal = noisy(50)
    data = bench.store(1000.0 * X, three_words(signal) if task == "multiclass" else signal)
    result = left_out(bench, bench.run(data, preprocess={}, tol=1e-7))["result"]
    assert result["metric"] == ("error" if task == "multiclass" else "mae")
    assert 0.0 <= result["lower"] <= result["upper"]
    assert (result["undecided"] is None) == (task == "regression")
    assert "preprocessing" in result["notes"][0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"bias": "free", "loss": "squared_hinge"}, "free bias"),
        ({"c_scale": "mean"}, "c_scale mean"),
        ({"class_weight": "balanced"}, "balanced"),
        ({"task": "ordinal"}, "ordinal"),
    ],
)
def test_without_a_proof_the_reason_is_told(bench: Bench, fields: Any, reason: str) -> None:
    X, signal = noisy(40)
    result = left_out(bench, bench.run(bench.store(X, np.where(signal > 0, 1.0, 0.0)), **fields))["result"]
    assert (result["lower"], result["upper"], result["undecided"]) == (None, None, None)
    assert reason in result["reason"]


@pytest.mark.parametrize(("reason", "status"), [("cancel", "cancelled"), ("drain", "queued")])
def test_a_request_ends_it_between_two_refits(bench: Bench, reason: str, status: str) -> None:
    X, signal = noisy(60)
    trained = bench.run(bench.store(X, np.where(signal + 0.5 > 0, 1.0, -1.0)), tol=1e-7, loss="squared_hinge")
    looks: list[bool] = []

    def stop_reason() -> str | None:
        looks.append(True)
        return reason if len(looks) > 1 else None

    assert left_out(bench, trained, stop_reason, refits=1000)["status"] == status


def test_other_rows_are_refused(bench: Bench) -> None:
    X, signal = noisy(60)
    trained = bench.run(bench.store(X, np.where(signal > 0, 1.0, -1.0)), tol=1e-7, loss="squared_hinge")
    other = bench.store(X[:40], np.ones(40))
    job = left_out(bench, trained, dataset_id=other)
    assert (job["status"], job["error"]["code"]) == ("failed", "other_data")
