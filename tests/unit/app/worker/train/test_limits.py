"""Limits of a job: seconds count solving only, and `converged` agrees with the certificate whatever ends the job."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import event

import solvers
from app.worker.train import trainer
from solvers.linalg import clock
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

ENDS: dict[str, dict[str, Any]] = {
    "tol": {},
    "passes": {"stop": {"passes": 3, "seconds": None}},
    "seconds": {"stop": {"seconds": 1e-6}},
    "loose": {"stop": {"passes": 3, "seconds": None}, "tol": 0.9},
    "out of reach": {"tol": 1e-15, "stop": {"passes": 2000, "seconds": None}},
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("solver", ["auto", "dcd", "tron", "pegasos"])
def test_converged_is_what_the_certificate_says(bench: Bench, solver: str) -> None:
    X, signal = noisy(150)
    dataset = bench.store(X, three_words(signal))
    loss = "squared_hinge" if solver == "tron" else "hinge"
    seen = set()
    for fields in ENDS.values():
        request = {"solver": solver, "loss": loss, "tol": 1e-4, **fields}
        job = bench.run(dataset, **request)
        result, tol = job["result"], request["tol"]
        is_proven = result["certificate"]["relative_gap"] <= tol
        assert (result["converged"], result["status"] == "converged") == (is_proven, is_proven)
        assert job["relative_gap"] == result["certificate"]["relative_gap"]
        card, _ = bench.model(job)
        assert card["training"]["status"] == result["status"]
        seen.add(is_proven)
        failing = bench.run(dataset, **request, on_limit="fail")
        assert failing["status"] == ("succeeded" if is_proven else "failed")
        assert is_proven or failing["error"]["code"] == "not_converged"
    assert seen == {True, False}


def test_a_job_that_is_told_to_finish_within_tol_has_converged(bench: Bench) -> None:
    X, signal = noisy(150)
    dataset = bench.store(X, three_words(signal))
    far = bench.run(dataset, lambda: "finish", solver="dcd", tol=1e-12)
    assert (far["result"]["status"], far["result"]["converged"]) == ("stopped", False)
    near = bench.run(dataset, lambda: "finish", solver="dcd", tol=0.99)
    assert (near["result"]["status"], near["result"]["converged"]) == ("converged", True)


def test_compiling_uses_up_none_of_a_jobs_seconds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three trainings compiles for 1,000 s by the clock; the job may solve for 60."""
    late, limits = [0.0], []
    for name in ("perf_counter", "monotonic"):
        read = getattr(time, name)
        monkeypatch.setattr(time, name, lambda read=read: read() + late[0])

    def compiling_train(*arguments: Any, **named: Any) -> solvers.SolveResult:
        event.start_event(clock.LOADING)
        late[0] += 1000.0
        event.end_event(clock.LOADING)
        limits.append(named["max_seconds"])
        return solvers.train(*arguments, **named)

    monkeypatch.setattr(trainer, "solvers", type("Slow", (), {**vars(solvers), "train": staticmethod(compiling_train)}))
    X, signal = noisy(150)
    job = bench.run(bench.store(X, three_words(signal)), cross_validation=2, stop={"seconds": 60})
    assert len(limits) == 3
    assert limits[0] <= 20.0 < limits[2] <= 60.0
    assert job["result"]["converged"]
    assert job["result"]["training"]["seconds"] < 60.0
    assert all(fold["converged"] for fold in job["result"]["cross_validation"]["folds"])
