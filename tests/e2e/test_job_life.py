"""A job's life as a client sees it, on both databases. Workers do not poll here: they hear of work or never do."""

from collections.abc import Iterator
from typing import Any

import pytest
from hyperplane import ApiError, Client

from tests.support.serving import Service, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

ROW = [[0.1] * 30]


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, module_database_url, workers=1, poll_seconds=3600) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(20_000, 30, seed=1, flipped=0.3)))["id"]
    return uploaded


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


def refusal(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.problem["status"], error.value.problem["code"]


def test_a_job_is_watched_paused_resumed_and_finished(service: Service, dataset: str, client: Client) -> None:
    slow = client.jobs.train(dataset, model="slow", solver="dcd", C=1000.0, tol=1e-12, stop={"seconds": 300})["id"]
    wait_until(lambda: service.job(slow)["status"] == "running", 20, "the job to run")
    wait_until(lambda: service.job(slow)["request"] is None and has_model(service, slow), 30, "a model as it stands")
    first = predict(service, slow)
    assert (first["job"], first["is_final"], first["model"], first["version"]) == (slow, False, None, None)
    assert first["passes"] > 0
    assert set(first["predictions"][0]) == {"label", "score"}

    assert client.jobs.pause(slow)["request"] == "pause"
    wait_until(lambda: service.job(slow)["status"] == "paused", 20, "the job to be paused")
    with pytest.raises(ApiError) as refused:
        client.datasets.delete(dataset)
    assert refusal(refused)[0] == 409, "a paused job needs its data"
    quick = client.jobs.train(dataset, model="quick", tol=0.5)
    assert quick.wait()["status"] == "succeeded", "the worker is free for others"
    paused = predict(service, slow)
    assert paused["passes"] >= first["passes"]
    assert service.job(slow)["queue_position"] is None

    assert client.jobs.resume(slow)["status"] == "queued"
    wait_until(lambda: predict(service, slow)["passes"] > paused["passes"], 30, "the job to continue")
    running = service.job(slow)
    assert running["attempt"] == 2
    (resumed,) = [event["data"] for event in events(service, slow) if event["type"] == "job.resumed"]
    assert resumed["passes"] >= paused["passes"]

    client.jobs.finish(slow)
    ended = client.jobs.wait(slow)
    assert (ended["status"], ended["result"]["status"], ended["request"]) == ("succeeded", "stopped", "finish")
    assert ended["result"]["training"]["status"] == "stopped"
    assert ended["passes"] >= running["passes"]
    assert ended["eta_seconds"] is None
    final = predict(service, slow)
    assert (final["is_final"], final["model"], final["passes"]) == (True, ended["model_id"], ended["passes"])
    assert final["predictions"] == client.models.predict("slow", ROW)["predictions"]
    assert client.jobs.finish(slow)["status"] == "succeeded", "asking again is no error"
    with pytest.raises(ApiError) as refused:
        client.jobs.pause(slow)
    assert refusal(refused) == (409, "job_ended")
    kinds = [event["type"] for event in events(service, slow) if event["type"] != "job.progress"]
    assert kinds == [
        *("job.queued", "job.running", "job.pause_requested", "job.paused"),
        *("job.queued", "job.running", "job.resumed", "job.finish_requested", "job.succeeded"),
    ]


def test_a_job_without_a_model_says_so(service: Service, dataset: str, client: Client) -> None:
    blocking = client.jobs.train(dataset, solver="dcd", C=1000.0, tol=1e-12)["id"]
    waiting = client.jobs.train(dataset)["id"]
    response = service.http.post(f"/v1/jobs/{waiting}/predict", json={"instances": ROW})
    assert (response.status_code, response.json()["code"]) == (409, "no_model_yet")
    assert (response.headers["retry-after"], response.json()["retryable"]) == ("1", True)
    with pytest.raises(ApiError) as refused:
        client.jobs.finish(waiting)
    assert refusal(refused) == (409, "no_model_yet")
    assert client.jobs.pause(waiting)["status"] == "paused"
    assert client.jobs.cancel(waiting)["status"] == "cancelled"
    client.jobs.cancel(blocking)
    assert client.jobs.wait(blocking, check=False)["status"] == "cancelled"
    response = service.http.post(f"/v1/jobs/{blocking}/predict", json={"instances": ROW})
    assert (response.status_code, response.json()["code"]) == (409, "job_ended")


def test_a_job_reads_and_answers_what_its_model_does(service: Service, dataset: str) -> None:
    job = service.wait(service.submit(dataset, tol=0.5)["id"])
    bodies = [
        ({"Content-Type": "application/json"}, b"{nonsense"),
        ({"Content-Type": "application/json"}, b'{"instances": []}'),
        ({"Content-Type": "image/png"}, b"x"),
        ({"Content-Type": "text/csv", "Accept": "text/csv"}, b",".join([b"0.1"] * 30) + b"\n"),
        ({"Content-Type": "application/json", "Accept": "image/png"}, b"{}"),
    ]
    seen = []
    for headers, content in bodies:
        answers = [
            service.http.post(f"/v1/{thing}/predict", content=content, headers=headers)
            for thing in (f"jobs/{job['id']}", f"models/{job['model_id']}")
        ]
        assert answers[0].status_code == answers[1].status_code
        seen.append(answers[0].status_code)
        if answers[0].status_code == 200:
            assert answers[0].content == answers[1].content
            assert answers[0].headers["x-model-id"] == job["model_id"]
        else:
            assert answers[0].json()["code"] == answers[1].json()["code"]
    assert seen == [400, 422, 415, 200, 406]
    assert service.http.post("/v1/jobs/job_nobody/predict", json={"instances": ROW}).status_code == 404


def has_model(service: Service, job_id: str) -> bool:
    return service.http.post(f"/v1/jobs/{job_id}/predict", json={"instances": ROW}).status_code == 200


def predict(service: Service, job_id: str) -> dict[str, Any]:
    response = service.http.post(f"/v1/jobs/{job_id}/predict", json={"instances": ROW})
    assert response.status_code == 200, response.text
    return response.json()


def events(service: Service, job_id: str) -> list[dict[str, Any]]:
    return service.get(f"/v1/jobs/{job_id}/events", limit=200)["data"]
