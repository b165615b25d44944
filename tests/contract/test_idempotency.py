"""`Idempotency-Key` on every route that changes something: done once, answered the same, on every database."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from app.db import Database
from app.db.tables import DatasetRow, IdempotencyRow, JobRow, UploadRow
from app.jobs import service as jobs
from app.keys import service as keys
from app.main import create_app
from app.models import service as models
from app.storage import BlobStore
from app.web import idempotency, idempotency_keys
from app.web.context import context_of
from tests.support.builders import (
    ANY_BLOBS,
    InProcess,
    checked_problem,
    count_rows,
    dataset_row,
    model_bytes,
    model_row,
    queued_jobs,
    temporary_settings,
)

CSV = {"Content-Type": "text/csv"}
FILE = b"a,b,y\n1,2,0\n3,4,1\n5,6,0\n7,9,1\n"
# They change nothing that lasts: the answer of a repeated request is computed again.
PURE = {"predict", "predict_with_job", "invoke_model", "explain_predictions", "v2_infer", "v2_infer_version"}
REPEATABLE = {"create_session", "reread_dataset"}  # a second session does no harm; equal columns are the same dataset


@pytest.fixture
def http(database: Database, tmp_path: Path) -> Iterator[InProcess]:
    url = database.url.render_as_string(hide_password=False)
    app = create_app(temporary_settings(tmp_path, database_url=url, lease_seconds=60.0))
    yield InProcess(app)
    context_of(app).database.close()


@pytest.fixture
def dataset_id(database: Database) -> str:
    row = dataset_row()
    with database.write() as session:
        session.add(row)
    return row.id


def keyed(key: str = "k", **more: str) -> dict[str, str]:
    return {"Idempotency-Key": key, **more}


def submit(http: InProcess, dataset_id: str, key: str = "k", **fields: Any) -> httpx.Response:
    return http.post("/v1/jobs", json={"dataset_id": dataset_id, **fields}, headers=keyed(key))


def same(first: httpx.Response, again: httpx.Response) -> bool:
    """Byte for byte, and marked as what it is."""
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    names = ("location", "etag", "upload-offset", "content-type")
    assert [first.headers.get(name) for name in names] == [again.headers.get(name) for name in names]
    return (first.status_code, first.content) == (again.status_code, again.content)


def test_every_route_that_creates_or_changes_by_post_takes_the_key(http: InProcess) -> None:
    missing = set()
    for methods in http.app.openapi()["paths"].values():
        operation = methods.get("post")
        if operation and operation["operationId"] not in PURE | REPEATABLE:
            names = {one["name"] for one in operation.get("parameters", [])}
            if "Idempotency-Key" not in names or "409" not in operation["responses"]:
                missing.add(operation["operationId"])
    assert missing == set()


def test_the_same_job_again_is_the_same_job(http: InProcess, database: Database, dataset_id: str) -> None:
    first, again = submit(http, dataset_id), submit(http, dataset_id)
    assert first.status_code == 201
    assert same(first, again)
    assert submit(http, dataset_id, "other").json()["id"] != first.json()["id"]
    assert "idempotent-replayed" not in http.post("/v1/jobs", json={"dataset_id": dataset_id}).headers
    assert count_rows(database, JobRow) == 3


def test_another_request_with_the_key_is_refused(http: InProcess, database: Database, dataset_id: str) -> None:
    job_id = submit(http, dataset_id).json()["id"]
    others = [
        submit(http, dataset_id, C=2.0),
        http.post(f"/v1/jobs/{job_id}/cancel", headers=keyed()),
        http.post("/v1/uploads", headers=keyed(**CSV)),
        http.post("/v1/datasets", content=FILE, headers=keyed(**CSV)),
    ]
    for response in others:
        assert checked_problem(response, 422)["code"] == "idempotency_key_reused"
    assert http.get(f"/v1/jobs/{job_id}").json()["status"] == "queued"
    assert (count_rows(database, JobRow), count_rows(database, UploadRow)) == (1, 0)


def test_a_change_is_answered_again_as_it_was(http: InProcess, dataset_id: str) -> None:
    job_id = submit(http, dataset_id).json()["id"]
    paused = http.post(f"/v1/jobs/{job_id}/pause", headers=keyed("p"))
    assert paused.json()["status"] == "paused"
    http.post(f"/v1/jobs/{job_id}/cancel", headers=keyed("c"))
    again = http.post(f"/v1/jobs/{job_id}/pause", headers=keyed("p"))
    assert same(paused, again)
    assert http.get(f"/v1/jobs/{job_id}").json()["status"] == "cancelled"


def test_a_job_on_a_model_is_answered_again_though_the_model_is_gone(
    http: InProcess, database: Database, tmp_path: Path
) -> None:
    (job_id,) = queued_jobs(database, [0])
    dataset = dataset_row(classes=[{"label": -1, "count": 1}, {"label": 1, "count": 1}])
    blob = BlobStore(tmp_path).put(model_bytes([1.0], classes=[-1, 1], feature_names=["a"]))
    with database.write() as session:
        session.add(dataset)
        card = {"classes": [-1, 1], "lineage": {"dataset_id": dataset.id}}
        models.register(session, ANY_BLOBS, model_row(job_id, blob=blob, card=card), 1)
    first = http.post("/v1/models/m/verify", headers=keyed())
    assert first.status_code == 201, first.text
    assert http.request("DELETE", "/v1/models/m").status_code == 204
    assert same(first, http.post("/v1/models/m/verify", headers=keyed()))
    checked_problem(http.post("/v1/models/m/verify", headers=keyed("other")), 404)


def test_a_refusal_is_not_kept(http: InProcess, database: Database, dataset_id: str) -> None:
    wrong = submit(http, f"ds_{'0' * 26}")
    assert checked_problem(wrong, 422)["code"] == "unknown_dataset"
    assert count_rows(database, IdempotencyRow) == 0
    assert submit(http, dataset_id).status_code == 201


def test_an_upload_that_began_twice_is_one(http: InProcess, database: Database) -> None:
    first, again = (http.post("/v1/uploads?name=x", headers=keyed(**CSV)) for _ in range(2))
    assert same(first, again)
    assert count_rows(database, UploadRow) == 1
    parquet = keyed(**{"Content-Type": "application/vnd.apache.parquet"})
    assert checked_problem(http.post("/v1/uploads?name=x", headers=parquet), 422)["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("key", ["", "a b", "a\tb", "x" * 256, "é".encode(), b"\x7f"])
def test_a_key_is_visible_ascii(http: InProcess, key: str | bytes) -> None:
    response = http.post("/v1/jobs", json={"dataset_id": "x"}, headers={"Idempotency-Key": key})
    assert checked_problem(response, 422)["errors"][0]["field"] == "Idempotency-Key"


def test_keys_of_different_callers_do_not_meet(http: InProcess, database: Database, dataset_id: str) -> None:
    with database.write() as session:
        tokens = [keys.create(session, None, ["write"]) for _ in range(2)]
    found = []
    for token in tokens * 2:
        headers = keyed(Authorization=f"Bearer {token}")
        found.append(http.post("/v1/jobs", json={"dataset_id": dataset_id}, headers=headers))
    assert same(found[0], found[2])
    assert same(found[1], found[3])
    assert found[0].json()["id"] != found[1].json()["id"]
    assert count_rows(database, JobRow) == 2


def test_after_a_day_the_key_is_free_and_the_row_goes(http: InProcess, database: Database, dataset_id: str) -> None:
    first = submit(http, dataset_id)
    age(database, timedelta(hours=23, minutes=59))
    assert same(first, submit(http, dataset_id))
    age(database, timedelta(minutes=2))
    second = submit(http, dataset_id)
    assert second.json()["id"] != first.json()["id"]
    idempotency.forget_expired(database)
    assert count_rows(database, IdempotencyRow) == 1
    age(database, timedelta(hours=25))
    idempotency.forget_expired(database)
    assert count_rows(database, IdempotencyRow) == 0


def age(database: Database, by: timedelta) -> None:
    with database.write() as session:
        for row in session.query(IdempotencyRow):
            row.expires_at -= by


def test_an_error_of_ours_keeps_nothing(
    http: InProcess, database: Database, dataset_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "show", crash)
        assert submit(http, dataset_id).status_code == 500
    assert (count_rows(database, JobRow), count_rows(database, IdempotencyRow)) == (0, 0)
    assert submit(http, dataset_id).status_code == 201


def test_many_at_once_make_one_job(http: InProcess, database: Database, dataset_id: str) -> None:
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: submit(http, dataset_id), range(32)))
    assert {one.status_code for one in answers} == {201}
    assert len({one.content for one in answers}) == 1
    assert sum("idempotent-replayed" not in one.headers for one in answers) == 1
    assert count_rows(database, JobRow) == 1


def upload(http: InProcess, content: Any = FILE, key: str = "k", path: str = "/v1/datasets") -> httpx.Response:
    return http.post(path, content=content, headers=keyed(key, **CSV))


def test_a_file_that_is_sent_again_is_answered_again(http: InProcess, database: Database) -> None:
    first, again = upload(http), upload(http)
    assert first.status_code == 201, first.text
    assert same(first, again)
    assert not again.json()["deduplicated"]
    assert count_rows(database, DatasetRow) == 1
    for other in (upload(http, FILE + b"9,9,1\n"), upload(http, path="/v1/datasets?name=other")):
        assert checked_problem(other, 422)["code"] == "idempotency_key_reused"
    known = upload(http, key="second")
    assert (known.status_code, known.json()["deduplicated"]) == (200, True)
    assert same(known, upload(http, key="second"))


def test_a_form_is_the_same_request_whatever_its_boundary(http: InProcess) -> None:
    answers = []
    for boundary in ("one", "two"):
        disposition = 'Content-Disposition: form-data; name="file"; filename="x.csv"'
        body = f"--{boundary}\r\n{disposition}\r\nContent-Type: text/csv\r\n\r\n".encode()
        headers = keyed(**{"Content-Type": f"multipart/form-data; boundary={boundary}"})
        body += FILE + f"\r\n--{boundary}--\r\n".encode()
        answers.append(http.post("/v1/datasets", content=body, headers=headers))
    assert same(*answers)


def test_a_refused_file_frees_its_key(http: InProcess, database: Database) -> None:
    checked_problem(upload(http, b"a,y\n1\n"), 422)
    assert count_rows(database, IdempotencyRow) == 0
    assert upload(http).status_code == 201


def test_while_a_file_comes_in_its_key_is_in_use(http: InProcess, database: Database) -> None:
    refused: list[httpx.Response] = []

    async def slowly() -> AsyncIterator[bytes]:
        yield FILE[:5]
        refused.append(await asyncio.to_thread(upload, http))
        yield FILE[5:]

    first = upload(http, slowly())
    assert first.status_code == 201
    problem = checked_problem(refused[0], 409)
    assert (problem["code"], problem["retryable"]) == ("idempotency_key_in_use", True)
    assert same(first, upload(http))
    assert count_rows(database, DatasetRow) == 1


def test_the_claim_of_a_dead_process_runs_out_and_may_be_taken_over(http: InProcess, database: Database) -> None:
    with database.write() as session:
        assert idempotency_keys.take(session, "", "k", "of the dead", 60.0) is None
    checked_problem(upload(http), 409)
    with database.write() as session:
        session.execute(update(IdempotencyRow).values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    first = upload(http)
    assert first.status_code == 201
    assert same(first, upload(http))


def test_who_lost_its_claim_stores_nothing(http: InProcess, database: Database) -> None:
    """Its lease ran out while it received, and another one is at it now."""

    async def robbed() -> AsyncIterator[bytes]:
        yield FILE[:5]
        with database.write() as session:
            session.execute(update(IdempotencyRow).values(request_sha256="0" * 64))
        yield FILE[5:]

    assert checked_problem(upload(http, robbed()), 409)["code"] == "idempotency_key_in_use"
    assert count_rows(database, DatasetRow) == 0


def test_a_claim_is_renewed_while_the_body_comes(database: Database, tmp_path: Path) -> None:
    url = database.url.render_as_string(hide_password=False)
    app = create_app(temporary_settings(tmp_path, database_url=url, lease_seconds=0.6))

    def expiry() -> datetime:
        with database.read() as session:
            return session.query(IdempotencyRow.expires_at).scalar()

    async def slowly() -> AsyncIterator[bytes]:
        yield FILE[:5]
        before = await asyncio.to_thread(expiry)
        for _ in range(200):
            if await asyncio.to_thread(expiry) > before:
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("the claim was not renewed")
        yield FILE[5:]

    assert upload(InProcess(app), slowly()).status_code == 201
    context_of(app).database.close()


def test_what_is_kept_names_the_request_and_not_its_content(
    http: InProcess, database: Database, dataset_id: str
) -> None:
    submit(http, dataset_id)
    with database.read() as session:
        row = session.query(IdempotencyRow).one()
    assert (row.caller, row.key, row.status, len(row.request_sha256)) == ("", "k", 201, 64)
    assert row.request_sha256 != hashlib.sha256(b"").hexdigest()
    assert (row.expires_at - row.created_at) >= timedelta(hours=24)
