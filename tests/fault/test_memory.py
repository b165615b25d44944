"""Jobs and memory: what cannot fit is refused, what does not fit now waits, and who takes too much fails alone."""

import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.config import MIB
from app.worker import supervisor
from app.worker.slot import Slot
from app.worker.supervisor import Supervisor
from tests.support.builders import checked_problem, migrated_database, queued_jobs, temporary_settings
from tests.support.serving import Service, children_of, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

BUDGET = 120 * MIB  # of two jobs on the data below, each about 75 MiB, it holds one
SLOW = {"solver": "dcd", "C": 1000.0, "tol": 1e-12}


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, module_database_url, workers=2, memory_budget_bytes=BUDGET) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(20_000, 30, seed=1, flipped=0.3)))["id"]
    return uploaded


def assert_apart(ended: list[dict[str, Any]]) -> None:
    """All succeeded, one after the other."""
    assert {job["status"] for job in ended} == {"succeeded"}
    spans = sorted((job["started_at"], job["finished_at"]) for job in ended)
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert end <= start


def test_two_big_jobs_never_run_at_once(service: Service, dataset: str) -> None:
    jobs = [service.submit(dataset, **SLOW, stop={"seconds": 1.0})["id"] for _ in range(3)]
    assert_apart([service.wait(job_id) for job_id in jobs])
    assert len(service.training_processes()) == 2  # there was a process for a second one


def test_nor_do_two_big_jobs_of_two_supervisors(service: Service, dataset: str) -> None:
    """A second supervisor on this machine, of the same database and with the same budget."""
    command = [sys.executable, "-m", "app.cli", "worker", "--workers", "1"]
    second = subprocess.Popen(command, env=service.environment, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(trainers_of(second.pid)) == 1, 60, "its process")
        jobs = [service.submit(dataset, **SLOW, stop={"seconds": 1.5})["id"] for _ in range(4)]
        assert_apart([service.wait(job_id) for job_id in jobs])
    finally:
        second.terminate()
        second.wait(30)


def trainers_of(supervisor: int) -> list[int]:
    return [pid for fork in children_of(supervisor) for pid in children_of(fork)]


def test_a_job_that_no_machine_holds_is_refused_with_both_figures(service: Service) -> None:
    wide = service.upload(b"1 1:1 3000:1\n-1 2:1\n" * 3, "text/x-libsvm")["id"]
    fields = {"dataset_id": wide, "solver": "asvm", "loss": "squared_hinge"}
    judged = service.http.post("/v1/jobs", params={"validate_only": True}, json=fields).json()
    needed = judged["estimate"]["peak_bytes"]
    assert needed > BUDGET
    assert not judged["valid"]
    before = service.get("/v1/jobs")["data"]
    problem = checked_problem(service.http.post("/v1/jobs", json=fields), 422)
    assert problem["errors"] == judged["errors"]
    assert (problem["code"], problem["errors"][0]["field"]) == ("too_large_for_memory", "dataset_id")
    assert f"{needed:,}" in problem["detail"]
    assert f"{BUDGET:,}" in problem["detail"]
    assert service.get("/v1/jobs")["data"] == before


def test_a_job_that_takes_too_much_fails_alone(service: Service, dataset: str) -> None:
    """A hard limit stands for an estimate that was far too low: the process may have a little more than it holds."""
    wait_until(lambda: len(service.training_processes()) == 2, 20, "both processes")
    processes = service.training_processes()
    for pid in processes:
        held = next(int(line.split()[1]) << 10 for line in status_lines(pid) if line.startswith("VmData:"))
        resource.prlimit(pid, resource.RLIMIT_DATA, (held + 2 * MIB, held + 2 * MIB))
    api = service.child("api")
    ended = service.wait(service.submit(dataset, split={"test": 0.5})["id"])
    assert (ended["status"], ended["error"]["code"], ended["attempt"]) == ("failed", "out_of_memory", 1)
    assert service.child("api") == api
    assert sorted(service.training_processes()) == sorted(processes)
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    assert service.wait(service.submit(dataset)["id"])["status"] == "succeeded"


def status_lines(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().splitlines()


class DeadProcess:
    """A training process that the kernel has killed."""

    pid, exitcode, sentinel = 0, -signal.SIGKILL, 0

    def is_alive(self) -> bool:
        return False

    def kill(self) -> None:
        pass

    join = kill


class NoPipe:
    def poll(self) -> bool:
        return False

    def close(self) -> None:
        pass


def test_a_process_killed_for_memory_is_tried_once_more_alone(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's counter distinguishes such kills from others; here the counter is faked, the rest is real."""
    kills = [0]
    monkeypatch.setattr(supervisor.resources, "out_of_memory_kills", lambda: kills[0])
    settings = temporary_settings(tmp_path, database_url=database_url, memory_budget_bytes=BUDGET)
    with migrated_database(database_url) as database:
        (job_id,) = queued_jobs(database, [0])
        boss: Any = Supervisor(settings)
        monkeypatch.setattr(boss, "_new_slot", lambda: None)

        def die(*, for_memory: bool) -> Any:
            slot = Slot.__new__(Slot)
            slot.__dict__ |= {"pipe": NoPipe(), "process": DeadProcess(), "ready": True, "claim": None}
            slot.__dict__ |= {"stop_reason": None, "stop_sent_at": 0.0}
            boss._slots = [slot]
            with database.write() as session:
                slot.claim = supervisor.lease.claim_next(session, "wrk_test", 60.0, boss._room(session))
            assert slot.claim is not None
            kills[0] += for_memory
            boss._collect()
            boss._settle()
            boss._slots = []
            with database.read() as session:
                return supervisor.queue.repository.get(session, job_id)

        first = die(for_memory=True)
        assert (first.status, first.worker_deaths, first.peak_bytes) == ("queued", 1, BUDGET)
        second = die(for_memory=True)
        assert (second.status, second.error["code"], second.attempt) == ("failed", "out_of_memory", 2)
        boss._database.close()


def test_a_process_killed_by_somebody_else_did_not_run_out_of_memory(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor.resources, "out_of_memory_kills", lambda: 7)
    boss: Any = Supervisor(temporary_settings(tmp_path, database_url=database_url))
    assert not boss._memory_ran_out()
    boss._database.close()
