"""Processes die: training processes, the supervisor, the API, the whole service. Jobs do not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.serving import Service, checked, children_of, command_line, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

LEASE_SECONDS = 3.0
SOLVE_SECONDS = 4.0
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {"lease_seconds": LEASE_SECONDS, "heartbeat_seconds": 0.5}
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, module_database_url, workers=1, **settings) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(20_000, 30, seed=1, flipped=0.3)))["id"]
    return uploaded


def children_named(service: Service, name: str) -> list[int]:
    assert service.process is not None
    return [pid for pid in children_of(service.process.pid) if f"hyperplane {name}" in command_line(pid)]


def start_slow_job(service: Service, dataset: str, seconds: float = 300.0) -> str:
    """A running job that computes for this long, unless it is ended, and then succeeds with the best model so far."""
    job_id: str = service.submit(dataset, solver="dcd", C=1000.0, tol=1e-12, stop={"seconds": seconds})["id"]
    wait_for_attempt(service, job_id, 1)
    return job_id


def wait_for_attempt(service: Service, job_id: str, attempt: int) -> None:
    def is_running() -> bool:
        job = service.job(job_id)
        return bool(job["status"] == "running" and job["attempt"] == attempt)

    wait_until(is_running, PATIENCE_SECONDS, f"attempt {attempt} to run")


def finish(service: Service, job_id: str, attempt: int) -> dict[str, Any]:
    """Let this attempt end with the best model so far, as soon as there is one of its own; the job at its end."""
    wait_for_attempt(service, job_id, attempt)
    passes = sum(event["passes"] for event in told(service, job_id, "job.resumed")[-1:])
    wait_until(lambda: service.job(job_id)["passes"] > passes, PATIENCE_SECONDS, "the attempt to have done something")
    checked(service.http.post(f"/v1/jobs/{job_id}/finish"))
    return service.wait(job_id)


def wait_for_checkpoint(service: Service, job_id: str) -> int:
    """The passes of the newest checkpoint; a model as it stands is written with each."""
    answers: list[httpx.Response] = []

    def has_model() -> bool:
        answers.append(service.http.post(f"/v1/jobs/{job_id}/predict", json={"instances": [[0.0] * 30]}))
        return answers[-1].status_code == 200

    wait_until(has_model, 20, "the job to have a checkpoint")
    passes: int = answers[-1].json()["passes"]
    return passes


def told(service: Service, job_id: str, kind: str) -> list[dict[str, Any]]:
    events = service.get(f"/v1/jobs/{job_id}/events", limit=200)["data"]
    return [event["data"] for event in events if event["type"] == kind]


def test_a_killed_training_process_costs_what_it_did_since_its_checkpoint(service: Service, dataset: str) -> None:
    job_id = start_slow_job(service, dataset, SOLVE_SECONDS)
    passes = wait_for_checkpoint(service, job_id)
    (victim,) = service.training_processes()
    os.kill(victim, signal.SIGKILL)
    ended = service.wait(job_id)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
    (resumed,) = told(service, job_id, "job.resumed")
    assert resumed["passes"] >= passes
    assert ended["passes"] > resumed["passes"]
    assert ended["result"]["training"]["seconds"] < 2 * SOLVE_SECONDS, "the limit is that of all attempts"
    curve = service.get(f"/v1/jobs/{job_id}/trace")["data"]
    assert [point["passes"] for point in curve] == sorted(point["passes"] for point in curve)
    assert curve[0]["seconds"] < 1.0


def test_a_killed_search_repeats_no_finished_training(service: Service, dataset: str) -> None:
    """25 values of C times 5 folds, killed in between: the second attempt has every training that had ended."""
    values = [round(1e-4 * 1.5**number, 8) for number in range(25)]
    search = {"type": "tune", "C": values, "loss": "squared_hinge", "solver": "dcd", "tol": 1e-6, "model": "searched"}
    job_id = service.submit(dataset, **search)["id"]

    def trainings() -> int:
        return max((event["trainings"] for event in told(service, job_id, "job.progress")), default=0)

    wait_until(lambda: trainings() >= 40, PATIENCE_SECONDS, "forty trainings to be reported")
    (victim,) = service.training_processes()
    seen = trainings()
    os.kill(victim, signal.SIGKILL)
    ended = service.wait(job_id, 120.0)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2), ended["error"]
    (resumed,) = told(service, job_id, "job.resumed")
    assert resumed["trainings"] >= seen, "only the training that was running is lost"
    assert len(ended["result"]["trials"]) == 25
    assert ended["result"]["finished"]
    assert service.get("/v1/models", name="searched")["data"][0]["version"] == 1


def test_a_killed_training_process_costs_one_attempt(service: Service, dataset: str) -> None:
    job_id = start_slow_job(service, dataset)
    (victim,) = service.training_processes()
    os.kill(victim, signal.SIGKILL)
    ended = finish(service, job_id, 2)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
    events = [event["type"] for event in service.get(f"/v1/jobs/{job_id}/events")["data"]]
    assert [kind for kind in events if kind not in ("job.progress", "job.resumed")] == [
        "job.queued",
        "job.running",
        "job.queued",
        "job.running",
        "job.finish_requested",
        "job.succeeded",
    ]


def test_a_killed_race_starts_again_and_makes_one_model(service: Service, dataset: str) -> None:
    rivals = {"type": "race", "model": "raced", "solvers": ["dcd", "pegasos"], "C": 1000.0, "tol": 1e-12}
    job_id: str = service.submit(dataset, **rivals, stop={"seconds": 300})["id"]
    wait_for_attempt(service, job_id, 1)
    wait_for_checkpoint(service, job_id)
    (victim,) = service.training_processes()
    os.kill(victim, signal.SIGKILL)
    ended = finish(service, job_id, 2)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
    assert [event["reason"] for event in told(service, job_id, "job.restarted")] == ["a race has no checkpoint"]
    assert {one["solver"] for one in ended["result"]["race"]} == {"dcd", "pegasos"}
    mine = [one for one in service.get("/v1/models", limit=200)["data"] if one["name"] == "raced"]
    assert [one["id"] for one in mine] == [ended["model_id"]]


def test_a_job_that_kills_three_processes_fails(service: Service, dataset: str) -> None:
    job_id = start_slow_job(service, dataset)
    for attempt in (1, 2, 3):
        wait_for_attempt(service, job_id, attempt)
        (victim,) = service.training_processes()
        os.kill(victim, signal.SIGKILL)
    ended = service.wait(job_id)
    assert (ended["status"], ended["error"]["code"], ended["attempt"]) == ("failed", "worker_died", 3)


def test_a_killed_supervisor_costs_one_lease(service: Service, dataset: str) -> None:
    job_id = start_slow_job(service, dataset)
    os.kill(service.child("worker"), signal.SIGKILL)
    ended = finish(service, job_id, 2)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
    assert service.get("/readyz")["training"] == "ok"


def test_a_paused_worker_cannot_commit_what_is_no_longer_its_own(service: Service, dataset: str) -> None:
    """The supervisor and its process sleep past their lease; they wake when another supervisor has the job."""
    job_id = start_slow_job(service, dataset)
    asleep = [service.child("worker"), *service.training_processes()]
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    other = subprocess.Popen([sys.executable, "-m", "app.cli", "worker"], env=service.environment)
    try:
        wait_for_attempt(service, job_id, 2)
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        ended = finish(service, job_id, 2)
    finally:
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        other.terminate()
        other.wait(30)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
    mine = [one for one in service.get("/v1/models", limit=200)["data"] if one["name"] == ended["model"]]
    assert [one["id"] for one in mine] == [ended["model_id"]]


def test_a_killed_api_comes_back(service: Service, dataset: str) -> None:
    job_id = start_slow_job(service, dataset)
    os.kill(service.child("api"), signal.SIGKILL)
    wait_until(service.is_ready, 60, "the API to come back")
    assert finish(service, job_id, 1)["attempt"] == 1


def test_sigterm_gives_running_jobs_back(service: Service, dataset: str) -> None:
    job_id = start_slow_job(service, dataset)
    wait_until(lambda: service.job(job_id)["passes"] > 0, 20, "the job to have done something")
    seen = service.job(job_id)
    assert service.stop() < 10
    service.start()
    ended = finish(service, job_id, 2)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
    (resumed,) = told(service, job_id, "job.resumed")
    assert resumed["passes"] >= seen["passes"], "nothing was lost"
    assert ended["passes"] > resumed["passes"]


def test_an_api_process_killed_during_its_start_comes_back(tmp_path: Path) -> None:
    service = Service(tmp_path, workers=0)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(service.start)
        victim = wait_until(lambda: service.process and children_named(service, "api"), 60, "the API to be started")[0]
        os.kill(victim, signal.SIGKILL)
        started.result()
    assert service.stop() < 10
    service.http.close()


def test_the_children_do_not_outlive_a_killed_launcher(tmp_path: Path) -> None:
    with running_service(tmp_path, workers=1) as service:
        assert service.process is not None
        family = [service.child("api"), service.child("worker"), *service.training_processes()]
        service.process.kill()
        service.process.wait()
        deadline = time.monotonic() + 15
        while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []
