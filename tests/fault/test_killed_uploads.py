"""The API dies in the middle of an upload, or of reading one: nothing torn, nothing lost that was acknowledged."""

import hashlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.admin.integrity import verify_storage
from app.datasets import service as datasets
from app.datasets.service import MAX_READER_DEATHS
from app.db import Database
from app.storage import BlobStore
from tests.support.builders import checked_problem, temporary_settings
from tests.support.serving import Service, checked, children_of, command_line, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

CSV = {"Content-Type": "text/csv"}
ASYNC = {**CSV, "Prefer": "respond-async"}
LEASE_SECONDS = 2.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, workers=0, lease_seconds=LEASE_SECONDS, heartbeat_seconds=0.2) as service:
        yield service


@pytest.fixture(scope="module")
def large() -> bytes:
    """A file that takes about a second to read."""
    header, _, rows = csv_text(*noisy_rows(2000, 20, seed=1)).partition(b"\n")
    return b"\n".join([header, *[rows] * 60])


def kill_api(service: Service) -> None:
    victim = service.child("api")
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(victim) and is_ready(service), 60, "the API to come back")


def is_alive(pid: int) -> bool:
    return "hyperplane" in command_line(pid)


def is_ready(service: Service) -> bool:
    try:
        return service.is_ready()
    except httpx.HTTPError:
        return False


def readers(service: Service) -> list[int]:
    """The children of the API's forkserver."""
    return [pid for helper in children_of(service.child("api")) for pid in children_of(helper)]


def assert_sound(service: Service) -> None:
    """No torn file, no row without its files."""
    assert verify_storage(temporary_settings(service.data_dir)).faults == []


def send_part_of(service: Service, head: str, body: bytes, has_arrived: Callable[[], bool]) -> None:
    """Send some of a body, and kill the API when it has arrived."""
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(f"{head}\r\nHost: 127.0.0.1:{service.port}\r\n\r\n".encode() + body)
        wait_until(has_arrived, 10, "the bytes to arrive")
        kill_api(service)


def test_a_kill_in_the_middle_of_a_file_leaves_no_row_and_a_file_that_is_swept(service: Service) -> None:
    staging = service.data_dir / "staging"
    before = service.get("/v1/datasets")["data"]
    head = "POST /v1/datasets HTTP/1.1\r\nContent-Type: text/csv\r\nContent-Length: 9000000"
    send_part_of(service, head, b"1,2,3\n" * 500_000, lambda: any(file.stat().st_size for file in staging.iterdir()))
    assert service.get("/v1/datasets")["data"] == before
    assert len(list(staging.iterdir())) == 1
    assert_sound(service)
    store = BlobStore(service.data_dir)
    store.sweep_staging(grace_seconds=0.0)
    assert list(staging.iterdir()) == []


def test_a_kill_in_the_middle_of_a_part_keeps_what_was_acknowledged(service: Service, large: bytes) -> None:
    headers = {**CSV, "Upload-Length": str(len(large))}
    location = service.http.post("/v1/uploads", headers=headers).headers["location"]
    part = service.data_dir / "uploads" / location.rpartition("/")[2]
    third = len(large) // 3
    acknowledged = service.http.patch(location, content=large[:third], headers={"Upload-Offset": "0"})
    assert acknowledged.status_code == 204
    head = f"PATCH {location} HTTP/1.1\r\nUpload-Offset: {third}\r\nContent-Length: {third}"
    wrong = b"#" * (third // 2)  # what was never acknowledged must not matter
    send_part_of(service, head, wrong, lambda: part.stat().st_size > third)
    assert int(service.http.head(location).headers["upload-offset"]) == third
    answer = service.http.patch(location, content=large[third:], headers={"Upload-Offset": str(third)})
    data = checked(answer)
    assert (data["sha256"], data["n_rows"]) == (hashlib.sha256(large).hexdigest(), 120_000)
    assert_sound(service)


def begin_reading(service: Service, content: bytes, **query: Any) -> str:
    begun = checked(service.http.post("/v1/datasets", content=content, headers=ASYNC, params=query))
    assert begun["status"] == "processing"
    dataset_id: str = begun["id"]
    return dataset_id


def test_a_kill_while_a_file_is_read_is_made_good_by_whoever_comes_next(service: Service, large: bytes) -> None:
    dataset_id = begin_reading(service, large, name="killed")
    kill_api(service)
    ended = service.get(f"/v1/datasets/{dataset_id}", wait=30)
    assert (ended["status"], ended["n_rows"]) == ("ready", 120_000)
    assert_sound(service)


def kill_reader(service: Service) -> None:
    """Kill the reader, and wait until it is gone: a signal takes a moment, and the next call must find the next one."""
    running = wait_until(lambda: readers(service), 5, "the reader to run")
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(running) & set(readers(service)), 5, "the killed reader to end")


def test_a_file_whose_reader_is_killed_is_read_again(service: Service, large: bytes) -> None:
    dataset_id = begin_reading(service, large, name="reader-killed")
    kill_reader(service)
    ended = service.get(f"/v1/datasets/{dataset_id}", wait=30)
    assert (ended["status"], ended["n_rows"]) == ("ready", 120_000)
    assert_sound(service)


def test_a_file_whose_readers_are_all_killed_is_invalid(service: Service, large: bytes) -> None:
    dataset_id = begin_reading(service, large, name="readers-killed")
    for _ in range(MAX_READER_DEATHS):
        kill_reader(service)
    ended = service.get(f"/v1/datasets/{dataset_id}", wait=30)
    assert (ended["status"], ended["error"]["code"]) == ("invalid", "parser_died")
    assert_sound(service)


def test_a_client_that_waits_for_a_reader_that_is_killed_is_asked_to_try_again(service: Service, large: bytes) -> None:
    def send() -> httpx.Response:
        return service.http.post("/v1/datasets", content=large, headers=CSV, params={"name": "waited-for"})

    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send)
        kill_reader(service)
        problem = checked_problem(sending.result(), 503)
    assert (problem["code"], problem["retryable"]) == ("parser_died", True)
    assert checked(send())["n_rows"] == 120_000
    assert_sound(service)


def is_told_to_end(pid: int) -> bool:
    """Whether a process that sleeps has a SIGTERM before it."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    pending = (int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd")))
    return any(signals >> (signal.SIGTERM - 1) & 1 for signals in pending)


def test_a_stop_while_a_file_is_read_gives_it_to_the_next_service_at_once(service: Service, large: bytes) -> None:
    """The reader sleeps until it gets the signal to end, so that it cannot finish before."""
    dataset_id = begin_reading(service, large, name="stopped")
    wait_until(lambda: readers(service), 5, "the reader to run")
    (reader,) = readers(service)
    os.kill(reader, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        stopping = threads.submit(service.stop)
        wait_until(lambda: is_told_to_end(reader), 10, "the reader to get the signal")
        os.kill(reader, signal.SIGCONT)
        assert stopping.result() < 10
    database = Database(temporary_settings(service.data_dir).resolved_database_url)
    with database.read() as session:
        dataset = datasets.get(session, dataset_id)
    database.close()
    assert dataset.status == "processing"
    assert dataset.lease_expires_at is not None
    assert dataset.lease_expires_at <= datetime.now(UTC), "others would have to wait for the lease to run out"
    service.start()
    ended = service.get(f"/v1/datasets/{dataset_id}", wait=30)
    assert (ended["status"], ended["n_rows"]) == ("ready", 120_000)
    assert_sound(service)
