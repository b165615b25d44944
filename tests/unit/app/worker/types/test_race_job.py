"""Races: the first solver to reach `tol` makes the model, and the others are stopped and reported."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

import solvers
from app.config import Settings
from app.db.job_state import JobStatus
from app.db.tables import JobRow
from app.jobs import control
from app.jobs import service as jobs
from app.jobs.admission import Admission
from app.jobs.types.race_request import RaceRequest
from app.jobs.types.verify_request import VerifyRequest
from tests.support.serving import wait_until
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

FIELDS = {"type": "race", "model": "m", "loss": "squared_hinge", "tol": 1e-6, "solvers": ["dcd", "newton"]}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def two_classes(bench: Bench, rows: int = 400) -> str:
    X, signal = noisy(rows)
    return bench.store(X, np.where(signal > 0, 1, -1))


def race(bench: Bench, dataset_id: str, stop_reason: Callable[[], Any] = lambda: None, **fields: Any) -> Any:
    return bench.run_on_model(RaceRequest(dataset_id=dataset_id, **{**FIELDS, **fields}), stop_reason)


def trace(bench: Bench, job: Any) -> list[Any]:
    with bench.database.read() as session:
        return list(jobs.get(session, job["id"], with_trace=True).trace)


def test_the_first_to_converge_makes_the_model(bench: Bench) -> None:
    data = two_classes(bench)
    job = race(bench, data, split={"test": 0.25})
    card, stored = bench.model(job)
    result = job["result"]
    first, second = result["race"]
    assert {first["solver"], second["solver"]} == {"dcd", "newton"}
    assert (first["status"], result["winner"], result["solver"]) == ("converged", first["solver"], first["solver"])
    assert result["converged"]
    assert first["relative_gap"] == result["certificate"]["relative_gap"] <= 1e-6
    assert second["status"] in ("stopped", "converged")
    plain, _ = bench.model(bench.run(data, split={"test": 0.25}, loss="squared_hinge", tol=1e-6, solver="newton"))
    assert card["certificate"]["primal"] == pytest.approx(plain["certificate"]["primal"], rel=2e-6)
    assert card["params"]["solver"] == first["solver"]
    assert stored.coef.shape == (4,)


def test_every_solver_keeps_its_curve(bench: Bench) -> None:
    job = race(bench, two_classes(bench), split={"test": 0.25})
    points = trace(bench, job)
    assert {point["solver"] for point in points} == {"dcd", "newton"}
    assert [point["seconds"] for point in points] == sorted(point["seconds"] for point in points)
    last = [point for point in points if point["solver"] == job["result"]["winner"]][-1]
    assert last["relative_gap"] == job["result"]["certificate"]["relative_gap"]
    assert last["test_error"] == job["result"]["metrics"]["test"]["error"]


def test_without_a_winner_the_smallest_gap_is_kept(bench: Bench) -> None:
    X, signal = noisy(3000)
    data = bench.store(X, np.where(signal > 0, 1, -1))
    job = race(bench, data, solvers=["pegasos", "dcd"], loss="hinge", tol=1e-12, stop={"passes": 3})
    result = job["result"]
    assert not result["converged"]
    gaps = {one["solver"]: one["relative_gap"] for one in result["race"]}
    assert result["certificate"]["relative_gap"] == min(gaps.values())
    assert gaps[result["winner"]] == min(gaps.values())
    failed = race(bench, data, solvers=["pegasos", "dcd"], loss="hinge", tol=1e-12, stop={"passes": 3}, on_limit="fail")
    assert (failed["status"], failed["error"]["code"]) == ("failed", "not_converged")


@pytest.mark.parametrize(("reason", "status"), [("cancel", "cancelled"), ("pause", "paused"), ("drain", "queued")])
def test_a_request_stops_all_solvers(bench: Bench, reason: str, status: str) -> None:
    data = two_classes(bench, 30_000)
    request = RaceRequest(dataset_id=data, **{**FIELDS, "solvers": ["pegasos", "dcd"], "loss": "hinge", "tol": 1e-16})
    with bench.database.write() as session:
        job_id = jobs.submit(session, request, Admission(bench.blobs, Settings())).id
    asked = []

    def stop_reason() -> str | None:
        if len(asked) == 2 and reason != "drain":
            with bench.database.write() as session:
                {"cancel": control.cancel, "pause": control.pause}[reason](session, job_id)
        asked.append(True)  # twice before the race, for its rehearsals
        return reason if len(asked) > 2 else None

    assert bench.execute(job_id, stop_reason)["status"] == status
    if reason == "cancel":
        return
    if reason == "pause":
        with bench.database.write() as session:
            assert control.resume(session, job_id).status == JobStatus.QUEUED
    again = bench.execute(job_id, lambda: "finish")
    assert again["status"] == "succeeded"
    assert bench.events(job_id, "job.restarted") == [{"reason": "a race has no checkpoint"}]


def test_finish_keeps_the_best_so_far(bench: Bench) -> None:
    job = race(bench, two_classes(bench), lambda: "finish", tol=1e-14, on_limit="fail")
    assert job["status"] == "succeeded"
    assert job["result"]["status"] in ("stopped", "converged")


def test_folds_are_trained_by_the_winner(bench: Bench) -> None:
    data = two_classes(bench)
    job = race(bench, data, cross_validation=3, calibrate=True)
    card, stored = bench.model(job)
    assert [fold["fold"] for fold in card["cross_validation"]["folds"]] == [1, 2, 3]
    assert all(fold["converged"] for fold in card["cross_validation"]["folds"])
    assert stored.header.calibration is not None


def test_c_is_chosen_before_the_race(bench: Bench) -> None:
    job = race(bench, two_classes(bench), C="auto", cross_validation=3)
    card, _ = bench.model(job)
    assert card["params"]["C"] == job["result"]["tuning"]["best"]["C"]
    assert len(card["cross_validation"]["folds"]) == 3


def test_a_race_of_several_classes(bench: Bench) -> None:
    X, signal = noisy(300)
    job = race(bench, bench.store(X, three_words(signal)), solvers=["dcd", "tron", "newton"])
    assert job["result"]["converged"]
    assert len(job["result"]["race"]) == 3


def test_a_solver_that_fails_does_not_stop_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    train = solvers.train

    def refuse(X: Any, y: Any, **arguments: Any) -> Any:
        if arguments["solver"] == "dcd":
            raise solvers.InvalidProblem("X", "is refused")
        return train(X, y, **arguments)

    monkeypatch.setattr(solvers, "train", refuse)
    data = two_classes(bench)
    job = race(bench, data)
    assert job["result"]["winner"] == "newton"
    assert [(one["solver"], one["status"]) for one in job["result"]["race"]][1] == ("dcd", "failed")
    assert job["result"]["race"][1]["detail"] == "is refused"


def test_an_unexpected_error_ends_the_race(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    train = solvers.train

    def fail(X: Any, y: Any, **arguments: Any) -> Any:
        if arguments["solver"] == "dcd":
            raise MemoryError
        return train(X, y, **arguments)

    data = two_classes(bench)
    monkeypatch.setattr(solvers, "train", fail)
    assert race(bench, data)["error"]["code"] == "out_of_memory"


def test_the_certificate_of_a_race_is_verified(bench: Bench) -> None:
    job = race(bench, two_classes(bench))
    verified = bench.run_on_model(VerifyRequest(type="verify", model=job["model_id"]))
    assert verified["result"]["matches"] is True


def test_a_leader_that_has_ended_without_tol_is_the_interim_model(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no more steps, so its result itself is stored while the others continue."""
    train, rows, snapshots = solvers.train, 400, []

    def train_dcd_briefly(X: Any, y: Any, **arguments: Any) -> solvers.SolveResult:
        is_race = len(y) == rows  # the rehearsal has fewer rows
        if is_race and arguments["solver"] == "dcd":
            arguments["max_passes"] = 2
        elif is_race:
            wait_until(lambda: snapshots and snapshots[-1] is not None, 20, "an interim model")
        return train(X, y, **arguments)

    def finish_with_a_model() -> str | None:
        with bench.database.read() as session:
            found = session.scalars(select(JobRow.snapshot)).all()
        snapshots.append(found[-1])
        return "finish" if snapshots[-1] is not None else None

    monkeypatch.setattr(solvers, "train", train_dcd_briefly)
    rivals = {"solvers": ["dcd", "pegasos"], "tol": 1e-13, "loss": "hinge"}
    job = race(bench, two_classes(bench, rows), finish_with_a_model, **rivals)
    assert job["status"] == "succeeded", job["error"]
    assert snapshots[-1] is not None
    assert job["result"]["winner"] == "dcd"
