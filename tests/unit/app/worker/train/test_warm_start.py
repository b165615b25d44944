"""Trainings that start from the weights of a model: which weights, in which units, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.errors import Invalid
from tests.support.checkpointed_jobs import TASKS, stored
from tests.support.worker_bench import Bench, noisy, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def test_a_model_starts_another_training(bench: Bench) -> None:
    data, asked = stored(bench, "binary"), {"C": 100.0, "tol": 1e-6, "solver": "tron", "loss": "squared_hinge"}
    cold = bench.run(data, **asked)
    warm = bench.run(data, **asked, warm_start=cold["model_id"])
    assert warm["result"]["converged"]
    assert warm["passes"] < cold["passes"] / 2
    assert warm["spec"]["warm_start"] == cold["model_id"]
    by_name = bench.run(data, **asked, warm_start="m")
    assert by_name["spec"]["warm_start"] == warm["model_id"], "the version that the name meant when it was queued"
    card, _ = bench.model(by_name)
    assert card["params"]["warm_start"] == warm["model_id"]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_starts_from_its_model(bench: Bench, task: str) -> None:
    asked = {"task": task.split()[0], "tol": 1e-4, **TASKS[task]}
    cold = bench.run(stored(bench, task), **asked)
    warm = bench.run(stored(bench, task), **asked, warm_start=cold["model_id"])
    assert warm["result"]["converged"], warm["error"]
    assert warm["primal"] == pytest.approx(cold["primal"], rel=3e-4)


def test_scaled_weights_start_a_training_in_its_own_units(bench: Bench) -> None:
    X, signal = noisy(300)
    data = bench.store(X * np.array([1.0, 1e3, 1e-2, 5.0]) + 7.0, np.where(signal > 0, 1, -1))
    asked = {"preprocess": {"scale": "standard"}, "tol": 1e-6, "C": 10.0, "solver": "tron", "loss": "squared_hinge"}
    cold = bench.run(data, **asked)
    warm = bench.run(data, **asked, warm_start="m")
    assert warm["result"]["converged"], warm["error"]
    assert warm["passes"] < cold["passes"] / 2


@pytest.mark.parametrize(
    ("start", "code"),
    [
        ("missing", "unknown_model"),
        ("m:7", "unknown_model"),
        ("binary", "class_mismatch"),
        ("wide", "feature_mismatch"),
        ("regression", "task_mismatch"),
    ],
)
def test_weights_that_mean_something_else_are_refused(bench: Bench, start: str, code: str) -> None:
    X, signal = noisy(60)
    others = {
        "binary": (X, np.where(signal > 0, "yes", "no")),
        "wide": (np.hstack([X, X]), np.where(signal > 0, 1, -1)),
        "regression": (X, signal),
    }
    reference = bench.run(bench.store(*others[start]), tol=0.1)["model_id"] if start in others else start
    with pytest.raises(Invalid) as refused:
        bench.submit(stored(bench, "binary"), warm_start=reference)
    assert refused.value.code == code
    assert [item.field for item in refused.value.errors] == ["warm_start"]
