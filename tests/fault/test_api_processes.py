"""Several API processes behind one port: each can answer, the others serve when one dies, and no client is refused."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.builders import SOAK
from tests.support.serving import Service, children_of, command_line, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

ROW = {"instances": [[0.5, -1.0, 2.0]]}
PROCESSES = 2

DATABASES = ["sqlite", "postgresql"] if SOAK > 1 else ["sqlite"]
pytestmark = pytest.mark.parametrize("module_database_url", DATABASES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    settings = {"processes": PROCESSES, "heartbeat_seconds": 0.3, "upload_idle_seconds": 3.0}
    with running_service(folder, module_database_url, workers=1, **settings) as service:
        data = service.upload(csv_text(*noisy_rows(100, 3, seed=0)))
        assert service.wait(service.submit(data["id"], model="m")["id"])["status"] == "succeeded"
        wait_until(lambda: len(api_processes(service)) == PROCESSES, 30, "all API processes")
        yield service
        processes = api_processes(service)
        service.stop()
        assert service.process is not None
        assert service.process.returncode == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
        with pytest.raises(httpx.ConnectError):
            ask(service)


def api_processes(service: Service) -> list[int]:
    assert service.process is not None
    return [pid for pid in children_of(service.process.pid) if " api " in command_line(pid)]


def ask(service: Service) -> httpx.Response:
    """On a connection of its own."""
    return httpx.post(f"{service.url}/v1/models/m/predict", json=ROW, timeout=60, trust_env=False)


def test_each_process_answers_alone(service: Service) -> None:
    first, second = api_processes(service)
    for stopped in (first, second):
        os.kill(stopped, signal.SIGSTOP)
        try:
            answers = [ask(service) for _ in range(5)]
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert [answer.status_code for answer in answers] == [200] * 5


def test_a_process_that_dies_is_not_missed(service: Service) -> None:
    victim = api_processes(service)[0]
    refused: list[Exception] = []
    answered, broken = 0, 0
    ended = threading.Event()

    def hammer() -> None:
        nonlocal answered, broken
        while not ended.is_set():
            try:
                assert ask(service).status_code == 200
                answered += 1
            except httpx.ConnectError as error:
                refused.append(error)
            except httpx.TransportError:  # it was the victim's: at most one a thread
                broken += 1

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: answered > 10, 30, "requests to flow")
    os.kill(victim, signal.SIGKILL)
    before = answered
    wait_until(
        lambda: len(api_processes(service)) == PROCESSES and victim not in api_processes(service), 30, "a new process"
    )
    wait_until(lambda: answered > before + 10, 30, "requests to continue")
    ended.set()
    for thread in threads:
        thread.join()
    assert refused == []
    assert broken <= len(threads)


def test_while_none_is_alive_connections_wait(service: Service) -> None:
    for victim in api_processes(service):
        os.kill(victim, signal.SIGKILL)
    assert ask(service).status_code == 200
    wait_until(lambda: len(api_processes(service)) == PROCESSES, 30, "all API processes again")


def test_caretakers_of_several_processes_do_not_hinder_each_other(service: Service) -> None:
    uploads = []
    for _ in range(20):
        answer = service.http.post("/v1/uploads", headers={"Content-Type": "text/csv", "Upload-Length": "10"})
        assert answer.status_code == 201, answer.text
        uploads.append(answer.json()["id"])

    def forgotten() -> bool:
        return all(service.http.get(f"/v1/uploads/{one}").status_code == 404 for one in uploads)

    wait_until(forgotten, 60, "idle uploads to be forgotten")
    assert "Traceback" not in service.log()
