"""`GET /v1/jobs/{id}/events` as a stream, over real sockets: replayed, live, bounded, and ended with the job."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hyperplane import Client
from sqlalchemy import insert

from app.config import Settings
from app.db import Database
from app.db.tables import EventRow
from app.ids import new_id
from app.main import create_app
from app.web.context import context_of
from tests.support.builders import NOBODY, SOAK, InProcess, checked_problem
from tests.support.serving import Service, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

STREAM = {"Accept": "text/event-stream"}
MAX_STREAMS = 3

# What the database has to do with it is tested on both in tests/contract/test_events.py.
DATABASES = ["sqlite", "postgresql"] if SOAK > 1 else ["postgresql"]
pytestmark = pytest.mark.parametrize("module_database_url", DATABASES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {"max_event_streams": MAX_STREAMS, "body_patience_seconds": 1.0, "drain_seconds": 100}
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, module_database_url, workers=1, **settings) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(5_000, 20, seed=1, flipped=0.3)))["id"]
    return uploaded


@pytest.fixture(scope="module")
def ended(service: Service, dataset: str) -> str:
    """A job that is done."""
    job_id: str = service.submit(dataset)["id"]
    assert service.wait(job_id)["status"] == "succeeded"
    return job_id


def start_endless_job(service: Service, dataset: str) -> str:
    job_id: str = service.submit(dataset, solver="dcd", C=1000.0, tol=1e-12, stop={"seconds": 300})["id"]
    return job_id


@contextmanager
def following(service: Service, job_id: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The stream's messages as they come; retry and ping messages are left out."""
    with service.http.stream("GET", f"/v1/jobs/{job_id}/events", headers=STREAM | headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-request-id"]
        yield messages(response.iter_lines())


def messages(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    fields: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        else:
            if "data" in fields:
                yield {**fields, "data": json.loads(fields["data"])}
            fields = {}


def pages(service: Service, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.get(f"/v1/jobs/{job_id}/events", limit=200)["data"]
    return found


def test_a_stream_tells_what_the_pages_tell_and_that_the_job_is_done(service: Service, ended: str) -> None:
    with following(service, ended) as stream:
        *told, last = stream
    assert [one["data"] for one in told] == pages(service, ended)
    assert all(one["id"] == one["data"]["id"] and one["event"] == one["data"]["type"] for one in told)
    assert (last["event"], last["data"]["status"], last["data"]["done"]) == ("done", "succeeded", True)
    assert "id" not in last  # who comes again asks for what is behind the last real event


def test_a_stream_goes_on_behind_any_event_on_any_replica(service: Service, ended: str) -> None:
    told = pages(service, ended)
    variables = {name.removeprefix("HYPERPLANE_").lower(): value for name, value in service.environment.items()}
    replica = InProcess(create_app(Settings(**{k: v for k, v in variables.items() if k in Settings.model_fields})))
    for number, event in enumerate(told):
        headers = STREAM | {"Last-Event-ID": event["id"]}
        answer = replica.get(f"/v1/jobs/{ended}/events", headers=headers)
        shown = [one["data"] for one in messages(iter(answer.text.splitlines()))]
        assert shown[:-1] == told[number + 1 :]
        assert shown[-1]["status"] == "succeeded"
    context_of(replica.app).database.close()


def test_the_pages_take_the_same_header(service: Service, ended: str) -> None:
    told = pages(service, ended)
    headers = {"Last-Event-ID": told[0]["id"], "Accept": "application/json"}
    assert service.http.get(f"/v1/jobs/{ended}/events", headers=headers).json()["data"] == told[1:]


@pytest.mark.parametrize("headers", [STREAM, {}])
def test_what_cannot_be_followed_is_refused(service: Service, ended: str, headers: dict[str, str]) -> None:
    checked_problem(service.http.get(f"/v1/jobs/job_{NOBODY}/events", headers=headers), 404)
    strange = headers | {"Last-Event-ID": "17"}
    problem = checked_problem(service.http.get(f"/v1/jobs/{ended}/events", headers=strange), 422)
    assert problem["errors"][0]["field"] == "Last-Event-ID"


def test_events_come_while_the_job_runs(service: Service, dataset: str) -> None:
    job_id = start_endless_job(service, dataset)
    with following(service, job_id) as stream:
        for message in stream:
            if message["event"] == "job.progress":
                assert service.job(job_id)["status"] == "running"
                service.http.post(f"/v1/jobs/{job_id}/cancel")
                break
        rest = [one["event"] for one in stream]
    assert rest[-2:] == ["job.cancelled", "done"]


def test_there_are_only_so_many_streams_and_a_vanished_client_frees_its_own(service: Service, dataset: str) -> None:
    job_id = start_endless_job(service, dataset)
    try:
        with ExitStack() as held:
            streams = [held.enter_context(following(service, job_id)) for _ in range(MAX_STREAMS - 1)]
            with following(service, job_id) as last:
                for stream in (*streams, last):
                    next(stream)
                assert not may_follow(service, job_id)
                assert pages(service, job_id)  # a page is no stream
            wait_until(lambda: may_follow(service, job_id), 20, "the place of a client that left")
            for stream in streams:  # the others went on
                next(stream)
    finally:
        service.http.post(f"/v1/jobs/{job_id}/cancel")


def may_follow(service: Service, job_id: str) -> bool:
    with service.http.stream("GET", f"/v1/jobs/{job_id}/events", headers=STREAM) as response:
        if response.status_code == 200:
            return True
        response.read()
        assert checked_problem(response, 503)["code"] == "too_many_streams"
        return False


def test_a_client_that_does_not_read_loses_its_stream(service: Service, dataset: str) -> None:
    job_id = start_endless_job(service, dataset)
    database = Database(service.environment["HYPERPLANE_DATABASE_URL"])
    text = {"text": "x" * 10_000}
    with database.write() as session:  # more than the buffers between us hold
        event = {"job_id": job_id, "type": "job.progress", "data": text, "created_at": datetime.now(UTC)}
        session.execute(insert(EventRow), [{"id": new_id("evt"), **event} for _ in range(2000)])
    database.close()
    request = f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()
    deaf = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(MAX_STREAMS)]
    try:
        for one in deaf:
            one.sendall(request)
            assert one.recv(15) == b"HTTP/1.1 200 OK"
        wait_until(lambda: may_follow(service, job_id), 30, "the place of a client that does not read")
    finally:
        for one in deaf:
            one.close()
        service.http.post(f"/v1/jobs/{job_id}/cancel")


def test_the_client_watches_through_the_death_of_the_server(service: Service, dataset: str) -> None:
    job_id = start_endless_job(service, dataset)
    with Client(service.url) as client:
        watched = client.jobs.stream(job_id)
        told = [next(watched) for _ in range(3)]
        os.kill(service.child("api"), signal.SIGKILL)
        told.append(next(watched))
        service.http.post(f"/v1/jobs/{job_id}/cancel")
        *more, last = watched
    assert [one["id"] for one in told + more] == [one["id"] for one in pages(service, job_id)]
    assert (last["type"], last["data"]["status"]) == ("done", "cancelled")


def test_a_stop_ends_the_streams_at_once(service: Service, dataset: str) -> None:
    """The drain time is 100 seconds; an open stream must not delay the stop for that long."""
    job_id = start_endless_job(service, dataset)
    told = []
    opened = threading.Event()

    def follow() -> None:
        with following(service, job_id) as stream:
            opened.set()
            told.extend(stream)

    thread = threading.Thread(target=follow)
    thread.start()
    assert opened.wait(20)
    service.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert "done" not in [one["event"] for one in told]
    service.start()
    service.http.post(f"/v1/jobs/{job_id}/cancel")
