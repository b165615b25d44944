"""What the client does with the caller's objects and with answers that are not the service's."""

import copy
import io
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import hyperplane
import numpy as np
import pytest

from tests.support.both_clients import BOTH, caller
from tests.support.scripted_service import ScriptedService, scripted_pauses

URL = "http://service"
RUNNING = {"id": "job_1", "status": "running", "done": False, "progress": 0.5}
READY = {"id": "ds_1", "status": "ready", "done": True}

pauses = pytest.fixture(scripted_pauses)


@pytest.mark.parametrize("kind", BOTH)
def test_an_http_client_of_the_caller_is_not_changed(kind: str) -> None:
    """Its requests to other hosts must not carry the key."""
    service = ScriptedService()
    with caller(kind, f"{URL}/prefix", service, api_key="key_1.secret") as by:
        by.call(by.client.jobs.get("job_1"))
        http = by.client._transport.http
        assert (str(http.base_url), "Authorization" in http.headers) == ("", False)
    (request,) = service.requests
    assert str(request.url) == f"{URL}/prefix/v1/jobs/job_1"
    assert request.headers["Authorization"] == "Bearer key_1.secret"


def test_timeouts_are_those_of_the_http_client_unless_they_are_given() -> None:
    service = ScriptedService()
    with httpx.Client(transport=service, timeout=7) as http:
        hyperplane.Client(URL, http_client=http).system()
        hyperplane.Client(URL, http_client=http, timeout=httpx.Timeout(9, read=11)).system()
    limits = [request.extensions["timeout"]["read"] for request in service.requests]
    assert limits == [7, 11]


@pytest.mark.parametrize("kind", BOTH)
def test_answers_of_another_server_are_named(kind: str) -> None:
    page = httpx.Response(200, text="<html>", headers={"Content-Type": "text/html"})
    with caller(kind, URL, ScriptedService(page)) as by, pytest.raises(hyperplane.HyperplaneError) as raised:
        by.call(by.client.system())
    assert "answered 200 with text/html instead of a JSON object; is it the URL" in str(raised.value)
    moved = httpx.Response(308, headers={"Location": "https://service/v1/system"})
    with caller(kind, URL, ScriptedService(moved)) as by, pytest.raises(hyperplane.HyperplaneError) as raised:
        by.call(by.client.system())
    assert "redirects to https://service/v1/system; give the client that URL" in str(raised.value)


@pytest.mark.parametrize("kind", BOTH)
def test_a_file_object_is_sent_again_after_a_broken_connection(kind: str, pauses: list[float]) -> None:
    upload = {"id": "up_1", "offset": 0, "dataset_id": None}
    service = ScriptedService(httpx.ReadError, upload, READY)
    with caller(kind, URL, service) as by:
        assert by.call(by.client.datasets.create(io.BytesIO(b"a,b\n1,2\n"))).id == "ds_1"
    assert [request.method for request in service.requests] == ["POST", "POST", "PATCH"]
    assert service.bodies[0] == service.bodies[2] == b"a,b\n1,2\n"


@pytest.mark.parametrize("kind", BOTH)
def test_a_deletion_whose_answer_was_lost_has_succeeded(kind: str, pauses: list[float]) -> None:
    service = ScriptedService(httpx.ReadError, 404)
    with caller(kind, URL, service) as by:
        deleted = by.call(by.client.datasets.delete("ds_1"))
    assert (deleted.deleted, deleted.bytes_freed) == (True, None)
    with caller(kind, URL, ScriptedService(503, 404)) as by, pytest.raises(hyperplane.NotFound):
        by.call(by.client.datasets.delete("ds_1"))


@pytest.mark.parametrize("kind", BOTH)
def test_an_alias_that_must_not_exist_is_not_set_twice(kind: str) -> None:
    service = ScriptedService(httpx.ReadError)
    with caller(kind, URL, service) as by, pytest.raises(hyperplane.ConnectionFailed):
        by.call(by.client.aliases.set("m", "prod", 3, create_only=True))
    assert len(service.requests) == 1


@pytest.mark.parametrize("kind", BOTH)
def test_a_long_retry_after_is_raised(kind: str, pauses: list[float]) -> None:
    service = ScriptedService(503, headers={"Retry-After": "3600"})
    with caller(kind, URL, service) as by, pytest.raises(hyperplane.ServiceUnavailable) as raised:
        by.call(by.client.system())
    assert (raised.value.retry_after, pauses) == (3600.0, [])


@pytest.mark.parametrize("kind", BOTH)
def test_a_wait_ends_after_its_timeout_if_the_service_is_gone(kind: str, pauses: list[float]) -> None:
    service = ScriptedService(RUNNING, *[httpx.ReadTimeout] * 100)
    with caller(kind, URL, service) as by, pytest.raises(hyperplane.WaitTimeout, match="did not answer"):
        by.call(by.client.jobs.wait("job_1", timeout=0.5))
    limits = [request.extensions["timeout"] for request in service.requests]
    assert all(limit["read"] <= 5.5 for limit in limits), "a request must not outlast the timeout by far"


@pytest.mark.parametrize("kind", BOTH)
def test_a_quiet_stream_can_be_cut_off_any_number_of_times(kind: str, pauses: list[float]) -> None:
    """A proxy ends idle connections. Pings show that the service was there, so these are no failures in a row."""
    ping = httpx.Response(200, text=": ping 1\n\n")
    end = httpx.Response(200, text='event: done\ndata: {"id": "job_1"}\n\n')
    with caller(kind, URL, ScriptedService(*[ping] * 30, end), max_retries=3) as by:
        assert [event.type for event in by.collect(by.client.jobs.stream("job_1"))] == ["done"]
    silent = [httpx.Response(200, text="retry: 1\n\n")] * 30
    with caller(kind, URL, ScriptedService(*silent), max_retries=3) as by, pytest.raises(hyperplane.ConnectionFailed):
        by.collect(by.client.jobs.stream("job_1"))


@pytest.mark.parametrize("kind", BOTH)
def test_a_download_is_resumed_and_appears_when_it_is_complete(kind: str, tmp_path: Path, pauses: list[float]) -> None:
    class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Any:
            yield b"first "
            raise httpx.ReadError("cut")

        async def __aiter__(self) -> Any:
            yield b"first "
            raise httpx.ReadError("cut")

    first = httpx.Response(200, stream=Cut(), headers={"ETag": '"1"'})
    rest = httpx.Response(206, stream=httpx.ByteStream(b"second"), headers={"ETag": '"1"'})
    service = ScriptedService(first, rest)
    target = tmp_path / "file.csv"
    with caller(kind, URL, service) as by:
        assert by.call(by.client.datasets.download("ds_1", target)) == target
    assert target.read_bytes() == b"first second"
    again = service.requests[1].headers
    assert (again["Range"], again["If-Range"], again["Accept-Encoding"]) == ("bytes=6-", '"1"', "identity")
    with caller(kind, URL, ScriptedService(404)) as by, pytest.raises(hyperplane.NotFound):
        by.call(by.client.jobs.download_output("job_1", tmp_path / "absent.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]


@pytest.mark.parametrize("kind", BOTH)
def test_parameters_of_numpy_and_a_key_of_the_caller(kind: str) -> None:
    service = ScriptedService()
    when = datetime(2026, 1, 2, tzinfo=UTC)
    values = {"cross_validation": np.int64(3), "C": np.float32(0.5), "labels": {"at": when}}
    with caller(kind, URL, service) as by:
        by.call(by.client.jobs.train("ds_1", model="m", idempotency_key="daily-2026-01-02", **values))
        with pytest.raises(ValueError, match="JSON has no NaN"):
            by.call(by.client.jobs.train("ds_1", C=float("nan")))
        with pytest.raises(TypeError, match="set cannot be sent as JSON"):
            by.call(by.client.jobs.train("ds_1", labels={1, 2}))
    assert service.requests[0].headers["Idempotency-Key"] == "daily-2026-01-02"
    assert b'"cross_validation":3,"C":0.5,"labels":{"at":"2026-01-02T00:00:00+00:00"}' in service.bodies[0]


@pytest.mark.parametrize("kind", BOTH)
def test_a_failed_job_crosses_processes(kind: str) -> None:
    failed = {**RUNNING, "status": "failed", "done": True, "error": {"code": "boom", "message": "no", "param": None}}
    with caller(kind, URL, ScriptedService(failed)) as by, pytest.raises(hyperplane.JobFailed) as raised:
        by.call(by.client.jobs.wait("job_1"))
    moved = pickle.loads(pickle.dumps(raised.value))
    assert (str(moved), moved.code, moved.job.status) == ("no", "boom", "failed")
    assert copy.copy(raised.value.job) == raised.value.job
    assert hyperplane.JobFailed.__module__ == hyperplane.NotFound.__module__ == "hyperplane"
