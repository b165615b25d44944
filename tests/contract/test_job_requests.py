"""Requests about jobs over HTTP: refusals name the client's own fields, lists are narrowed, bodies are not ignored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.db import Database
from app.main import create_app
from app.models import service as models
from app.storage import BlobStore
from app.web.context import context_of
from app.web.long_poll import preferred_wait
from tests.support.builders import (
    ANY_BLOBS,
    InProcess,
    checked_problem,
    dataset_row,
    model_bytes,
    model_row,
    queued_jobs,
    temporary_settings,
)

BUDGET_BYTES = 1 << 30


@pytest.fixture
def http(database: Database, tmp_path: Path) -> Iterator[InProcess]:
    url = database.url.render_as_string(hide_password=False)
    app = create_app(temporary_settings(tmp_path, database_url=url, memory_budget_bytes=BUDGET_BYTES))
    yield InProcess(app)
    context_of(app).database.close()


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"split": {"test": 2}}, "split.test", "less than 1"),
        ({"split": 5}, "split", "must be an object"),
        ({"split": {"fold_column": 5}}, "split.fold_column", "string"),
        ({"class_weight": 5}, "class_weight", 'must be "balanced", or'),
        ({"class_weight": {"a": -1}}, "class_weight.a", "greater than 0"),
        ({"calibrate": "x"}, "calibrate", "'platt' or 'isotonic'"),
        ({"stop": None}, "stop", "must be an object"),
        ({"stop": {"seconds": 0}}, "stop.seconds", "greater than 0"),
        ({"preprocess": {"columns": {"a": 5}}}, "preprocess.columns.a", "must be an object"),
        ({"priority": 1001}, "priority", "less than or equal to 1000"),
        ({"sead": 1}, "sead", "is not a field of this request"),
    ],
    ids=str,
)
def test_a_refusal_names_the_field_that_the_client_wrote(
    http: InProcess, fields: dict[str, Any], field: str, words: str
) -> None:
    problem = checked_problem(http.post("/v1/jobs", json={"dataset_id": "ds_x", **fields}), 422)
    (item,) = problem["errors"]
    assert item["field"] == field
    assert words in item["detail"]
    assert problem["detail"] == f"{field}: {item['detail']}"


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"", "body: is missing"),
        (b"[]", "body: must be an object"),
        (b'{"type": "dance"}', "body: type must be one of train, evaluate, leave_one_out, predict, race, tune, verify"),
    ],
)
def test_a_body_that_is_no_job_is_said_to_be_none(http: InProcess, content: bytes, detail: str) -> None:
    answer = http.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    assert checked_problem(answer, 422)["detail"] == detail


def test_what_a_route_does_not_take_is_not_silently_ignored(http: InProcess, database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    for act in ("pause", "resume", "finish", "cancel"):
        refused = checked_problem(http.post(f"/v1/jobs/{job_id}/{act}", json={"seconds": 60}), 422)
        assert refused["code"] == "unexpected_body"
    assert http.get(f"/v1/jobs/{job_id}").json()["status"] == "queued"
    assert http.post(f"/v1/jobs/{job_id}/pause", json={}).json()["status"] == "paused"
    assert http.post(f"/v1/jobs/{job_id}/cancel").json()["status"] == "cancelled"


def test_lists_are_narrowed_and_moments_may_have_any_zone(http: InProcess, database: Database) -> None:
    first, second = queued_jobs(database, [0, 0])
    http.post(f"/v1/jobs/{first}/pause")

    def listed(**query: str) -> list[str]:
        answer = http.get("/v1/jobs", params=query)
        assert answer.status_code == 200, answer.text
        return [job["id"] for job in answer.json()["data"]]

    assert listed(type="train", name="m", created_after="2020-01-01T00:00:00+05:00") == [second, first]
    assert listed(status="paused", created_after="2020-01-01") == [first]
    assert listed(created_after="9999-12-31T00:00:00Z") == listed(type="predict") == listed(name="other") == []
    created = http.get(f"/v1/jobs/{first}").json()["created_at"]
    assert listed(created_after=created) == [second]
    for path in ("/v1/jobs", "/v1/datasets", "/v1/models"):
        for moment in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "yesterday"):
            problem = checked_problem(http.get(path, params={"created_after": moment}), 422)
            assert problem["errors"][0]["field"] == "created_after"


def test_a_job_on_a_model_that_no_machine_holds_is_refused(http: InProcess, database: Database, tmp_path: Path) -> None:
    """No worker would ever claim it: it would be queued for good."""
    dataset = dataset_row(n_rows=BUDGET_BYTES // 100, classes=[{"label": -1, "count": 1}, {"label": 1, "count": 1}])
    (job_id,) = queued_jobs(database, [0])
    blob = BlobStore(tmp_path).put(model_bytes([1.0], classes=[-1, 1], feature_names=["a"]))
    model = model_row(job_id, name="m", blob=blob, card={"classes": [-1, 1], "lineage": {"dataset_id": dataset.id}})
    with database.write() as session:
        session.add(dataset)
        models.register(session, ANY_BLOBS, model, 1, 0)
    body = {"type": "evaluate", "model": "m", "dataset_id": dataset.id}
    problem = checked_problem(http.post("/v1/jobs", json=body), 422)
    assert problem["code"] == "too_large_for_memory"
    judged = http.post("/v1/jobs?validate_only=true", json=body).json()
    assert [item["code"] for item in judged["errors"]] == ["too_large_for_memory"]
    assert http.post("/v1/jobs", json={**body, "type": "predict"}).status_code == 201


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (None, 7.0),
        ("wait=5", 5.0),
        ("Wait = 5", 5.0),
        ('wait="5"', 5.0),
        ("wait=0.5", 0.5),
        ("wait=0", 0.0),
        ("handling=lenient, wait=5; x=1", 5.0),
        ("wait=5, wait=9", 5.0),
        ("wait=5, respond-async", 5.0),
        ("wait=99999999999", 60.0),
        ("respond-async", 0.0),
        ("wait=-5", 7.0),
        ("wait=x", 7.0),
        ("await=5", 7.0),
        ("no-respond-async", 7.0),
        ("", 7.0),
    ],
)
def test_what_a_prefer_header_asks_for(prefer: str | None, seconds: float) -> None:
    assert preferred_wait(prefer, default=7.0) == seconds
