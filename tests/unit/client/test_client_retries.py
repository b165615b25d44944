"""What is repeated, how often, and after how long."""

import httpx
import hyperplane
import pytest
from hyperplane._shared.retries import Backoff

from tests.support.both_clients import BOTH, caller
from tests.support.scripted_service import ScriptedService, Step, scripted_pauses

URL = "http://service"
pauses = pytest.fixture(scripted_pauses)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("step", [429, 502, 503, 504, httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError])
def test_what_passes_is_repeated_with_the_same_key(kind: str, step: Step, pauses: list[float]) -> None:
    service = ScriptedService(step, step, headers={"Retry-After": "3"})
    with caller(kind, URL, service) as by:
        assert by.call(by.client.jobs.train("ds_1", model="m")).id == "job_1"
    keys = {request.headers["Idempotency-Key"] for request in service.requests}
    assert (len(service.requests), len(keys)) == (3, 1)
    low, high = (3.0, 3.1) if isinstance(step, int) else (0.05, 0.2)
    assert all(low <= pause <= high for pause in pauses)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 422, 500, 507])
def test_what_does_not_pass_is_raised_at_once(kind: str, status: int, pauses: list[float]) -> None:
    service = ScriptedService(status)
    with caller(kind, URL, service) as by, pytest.raises(hyperplane.ApiError) as refused:
        by.call(by.client.jobs.get("job_1"))
    assert (refused.value.status, len(service.requests), pauses) == (status, 1, [])


@pytest.mark.parametrize("kind", BOTH)
def test_a_change_that_could_happen_twice_is_not_repeated(kind: str, pauses: list[float]) -> None:
    service = ScriptedService(httpx.ReadError)
    with caller(kind, URL, service) as by, pytest.raises(hyperplane.ConnectionFailed, match=r"PUT .*/aliases/prod"):
        by.call(by.client.aliases.set("m", "prod", 3, revision=1))
    assert len(service.requests) == 1
    service = ScriptedService(httpx.ConnectError)
    with caller(kind, URL, service) as by:
        by.call(by.client.aliases.set("m", "prod", 3, revision=1))
    assert len(service.requests) == 2, "the first one did not reach the service"


@pytest.mark.parametrize("kind", BOTH)
def test_a_service_that_is_away_is_reported_soon_if_it_was_never_there(kind: str, pauses: list[float]) -> None:
    away = [httpx.ConnectError] * 100
    service = ScriptedService(*away)
    with caller(kind, URL, service) as by, pytest.raises(hyperplane.ConnectionFailed):
        by.call(by.client.system())
    assert len(service.requests) == 3
    service = ScriptedService({"version": "1"}, *away)
    with caller(kind, URL, service, max_retries=5) as by:
        by.call(by.client.system())
        with pytest.raises(hyperplane.ConnectionFailed):
            by.call(by.client.system())
    assert len(service.requests) == 1 + 6


def test_pauses_double_with_jitter_and_progress_counts_again() -> None:
    backoff = Backoff(4)
    pauses = [backoff.pause_after(httpx.ReadError("x")) for _ in range(4)]
    assert all(0.05 * 2**i <= pause <= 0.1 * 2**i for i, pause in enumerate(pauses))
    backoff.note_progress(10)
    assert backoff.pause_after(httpx.ReadError("x")) <= 0.1
    backoff.note_progress(10)
    for _ in range(3):
        backoff.pause_after(httpx.ReadError("x"))
    with pytest.raises(hyperplane.ConnectionFailed):
        backoff.pause_after(httpx.ReadError("x"))


@pytest.mark.parametrize("kind", BOTH)
def test_waiting_ends_with_the_job_its_failure_or_the_timeout(kind: str) -> None:
    running = {"id": "job_1", "status": "running", "done": False, "progress": 0.5}
    failed = {"id": "job_1", "status": "failed", "done": True, "error": {"code": "boom", "message": "no", "param": "C"}}
    seen: list[float] = []
    with caller(kind, URL, ScriptedService(running, {**failed, "progress": 1.0})) as by:
        with pytest.raises(hyperplane.JobFailed, match="no") as raised:
            by.call(by.client.jobs.wait("job_1", on_progress=lambda job: seen.append(job.progress)))
        assert (raised.value.code, raised.value.param, raised.value.job.status) == ("boom", "C", "failed")
        assert seen == [0.5, 1.0]
    with caller(kind, URL, ScriptedService(failed)) as by:
        assert by.call(by.client.jobs.wait("job_1", check=False)).status == "failed"
    with (
        caller(kind, URL, ScriptedService(*[running] * 1000)) as by,
        pytest.raises(TimeoutError, match="is still running"),
    ):
        by.call(by.client.jobs.wait("job_1", timeout=0.01))


@pytest.mark.parametrize("kind", BOTH)
def test_lists_fetch_their_next_page(kind: str) -> None:
    first = {"data": [{"id": "ds_1"}, {"id": "ds_2"}], "has_more": True, "next_cursor": "c1"}
    last = {"data": [{"id": "ds_3"}], "has_more": False, "next_cursor": None}
    service = ScriptedService(first, last)
    with caller(kind, URL, service) as by:
        assert [one.id for one in by.collect(by.client.datasets.list(limit=2))] == ["ds_1", "ds_2", "ds_3"]
    assert [dict(one.url.params) for one in service.requests] == [{"limit": "2"}, {"limit": "2", "cursor": "c1"}]


@pytest.mark.parametrize("kind", BOTH)
def test_an_invalid_dataset_is_raised_with_its_lines(kind: str) -> None:
    invalid = {
        "id": "ds_1",
        "status": "invalid",
        "done": True,
        "error": {"code": "bad_number", "message": "x"},
        "errors": [{"line": 3, "code": "bad_number", "detail": "not a number"}],
    }
    with caller(kind, URL, ScriptedService(invalid)) as by, pytest.raises(hyperplane.UnprocessableEntity) as refused:
        by.call(by.client.datasets.create(b"a,b\n"))
    assert (refused.value.code, refused.value.errors[0]["line"]) == ("bad_number", 3)


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERPLANE_URL", "http://elsewhere:9000/")
    monkeypatch.setenv("HYPERPLANE_API_KEY", "key_1.secret")
    service = ScriptedService()
    with httpx.Client(transport=service) as http:
        client = hyperplane.Client(http_client=http)
        client.jobs.get("job_1")
    assert client.url == "http://elsewhere:9000"
    assert service.requests[0].headers["Authorization"] == "Bearer key_1.secret"
    assert service.requests[0].headers["User-Agent"].startswith("hyperplane-client/")
    with pytest.raises(hyperplane.HyperplaneError, match="not the URL of a service"):
        hyperplane.Client("elsewhere:9000")
