"""One key, one job: against a real service, from many threads, while its API is killed and started again."""

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.builders import SOAK, checked_problem
from tests.support.serving import Service, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

THREADS = 100
KILLS = SOAK
KEYS_A_CLIENT = 10 * SOAK


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder, settings = tmp_path_factory.mktemp("service"), {"lease_seconds": 3, "heartbeat_seconds": 0.5}
    with running_service(folder, module_database_url, workers=0, **settings) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(50, 3, seed=1)))["id"]
    return uploaded


def submit(http: httpx.Client, dataset: str, key: str, **fields: object) -> httpx.Response:
    return http.post("/v1/jobs", json={"dataset_id": dataset, **fields}, headers={"Idempotency-Key": key})


def jobs_called(service: Service, model: str) -> list[str]:
    """Ids of all jobs for a model of this name."""
    found, cursor = [], {}
    while True:
        page = service.get("/v1/jobs", limit=200, **cursor)
        found += [job["id"] for job in page["data"] if job["model"] == model]
        if not page["has_more"]:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_a_hundred_threads_with_one_key_make_one_job(service: Service, dataset: str) -> None:
    limits = httpx.Limits(max_connections=THREADS)
    with (
        httpx.Client(base_url=service.url, timeout=120, trust_env=False, limits=limits) as http,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        answers = list(threads.map(lambda _: submit(http, dataset, "all", model="all"), range(THREADS)))
    assert {one.status_code for one in answers} == {201}
    assert len({(one.content, one.headers["location"]) for one in answers}) == 1
    assert sum("idempotent-replayed" not in one.headers for one in answers) == 1
    assert jobs_called(service, "all") == [answers[0].json()["id"]]
    other = submit(service.http, dataset, "all", model="other")
    assert checked_problem(other, 422)["code"] == "idempotency_key_reused"


def test_killing_the_api_neither_loses_nor_doubles_a_job(service: Service, dataset: str) -> None:
    """Clients send every request until it is answered; each remembers its first answer."""
    ended = 0

    def be_client(number: int) -> dict[str, bytes]:
        nonlocal ended
        answered: dict[str, bytes] = {}
        with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as http:
            while len(answered) < KEYS_A_CLIENT:
                key = f"kill-{number}-{len(answered)}"
                try:
                    response = submit(http, dataset, key, model="killed")
                except httpx.TransportError:
                    continue
                if response.status_code == 201:
                    answered[key] = response.content
                else:
                    assert response.json()["retryable"], response.text
        ended += 1
        return answered

    clients, random_pause = 6, random.Random(7)
    with ThreadPoolExecutor(clients) as threads:
        running = [threads.submit(be_client, number) for number in range(clients)]
        for _ in range(KILLS):
            before = len(jobs_called(service, "killed"))
            more = random_pause.randint(1, 8)
            wait_until(
                lambda before=before, more=more: (  # type: ignore[misc]
                    ended == clients or len(jobs_called(service, "killed")) >= before + more
                ),
                60,
                "some more jobs",
            )
            os.kill(service.child("api"), signal.SIGKILL)
            wait_until(service.is_ready, 60, "the API to come back")
        answered = {key: body for one in running for key, body in one.result(timeout=120).items()}

    assert len(answered) == clients * KEYS_A_CLIENT
    assert len(jobs_called(service, "killed")) == len(answered)
    for key, body in answered.items():  # the answers outlived every process
        again = submit(service.http, dataset, key, model="killed")
        assert (again.status_code, again.content) == (201, body)
        assert again.headers["idempotent-replayed"] == "true"


def test_a_file_whose_server_was_killed_is_taken_up_again(service: Service) -> None:
    """The claim of the dead process is in the way until its lease is over."""
    content = csv_text(*noisy_rows(200, 3, seed=2))
    headers = {"Idempotency-Key": "file", "Content-Type": "text/csv"}

    def broken_off() -> Iterator[bytes]:
        yield content[:1000]
        os.kill(service.child("api"), signal.SIGKILL)
        yield content[1000:]

    with pytest.raises(httpx.TransportError):
        service.http.post("/v1/datasets", content=broken_off(), headers=headers)
    wait_until(service.is_ready, 60, "the API to come back")
    answers: list[httpx.Response] = []

    def is_taken() -> bool:
        answers.append(service.http.post("/v1/datasets", content=content, headers=headers))
        if answers[-1].status_code == 409:
            assert checked_problem(answers[-1], 409)["code"] == "idempotency_key_in_use"
        return answers[-1].status_code == 201

    wait_until(is_taken, 60, "the lease of the dead claim to end")
    again = service.http.post("/v1/datasets", content=content, headers=headers)
    assert (again.content, again.headers["idempotent-replayed"]) == (answers[-1].content, "true")
