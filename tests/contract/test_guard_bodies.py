"""The gate in front of every route, for bodies: how large they may be, and how slowly they may come."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.config import Settings
from app.main import create_app
from tests.support.builders import NOBODY, InProcess, checked_problem, in_chunks, migrated_database, temporary_settings

JSON = {"Content-Type": "application/json"}
MAX_JSON_BYTES, MAX_UPLOAD_BYTES = 2000, 5000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path, max_json_bytes=MAX_JSON_BYTES, max_upload_bytes=MAX_UPLOAD_BYTES)


@pytest.fixture
def http(settings: Settings) -> Iterator[InProcess]:
    with migrated_database(settings.resolved_database_url):
        yield InProcess(create_app(settings))


LIMITS = [
    ("/v1/jobs", MAX_JSON_BYTES, JSON),
    ("/v1/models/m/predict", MAX_JSON_BYTES, JSON),
    ("/v1/datasets", MAX_UPLOAD_BYTES, {"Content-Type": "text/csv"}),
]


@pytest.mark.parametrize(("path", "limit", "headers"), LIMITS)
def test_a_body_over_the_limit_is_refused_declared_or_not(
    http: InProcess, settings: Settings, path: str, limit: int, headers: dict[str, str]
) -> None:
    body = b" " * (limit + 1)
    for content in (body, in_chunks(body, 100)):
        problem = checked_problem(http.post(path, content=content, headers=headers), 413)
        assert problem["code"] == "payload_too_large"
        assert str(limit) in problem["detail"]
    assert list(settings.data_dir.glob("staging/*")) == []


def test_a_body_at_the_limit_is_read(http: InProcess) -> None:
    for content in (b" " * MAX_JSON_BYTES, in_chunks(b" " * MAX_JSON_BYTES, 100)):
        checked_problem(http.post("/v1/jobs", content=content, headers=JSON), 400)


def test_a_part_of_an_upload_may_be_as_large_as_a_file(http: InProcess) -> None:
    headers = {"Upload-Offset": "0"}
    path = f"/v1/uploads/up_{NOBODY}"
    checked_problem(http.request("PATCH", path, content=b" " * MAX_UPLOAD_BYTES, headers=headers), 404)
    checked_problem(http.request("PATCH", path, content=b" " * (MAX_UPLOAD_BYTES + 1), headers=headers), 413)


async def slowly(content: bytes, pause_seconds: float) -> AsyncIterator[bytes]:
    for number in range(len(content)):
        await asyncio.sleep(pause_seconds)
        yield content[number : number + 1]


@pytest.mark.parametrize(
    ("limits", "pause_seconds"),
    [
        ({"body_patience_seconds": 0.2}, 5.0),
        ({"body_patience_seconds": 0.3, "body_bytes_per_second": 50}, 0.05),
    ],
    ids=["a pause", "a trickle"],
)
def test_a_body_that_comes_too_slowly_is_not_waited_for(
    tmp_path: Path, limits: dict[str, float], pause_seconds: float
) -> None:
    settings = temporary_settings(tmp_path, **limits)
    with migrated_database(settings.resolved_database_url):
        http = InProcess(create_app(settings))
        for path, headers in (("/v1/datasets", {"Content-Type": "text/csv"}), ("/v1/jobs", JSON)):
            began = time.monotonic()
            response = http.post(path, content=slowly(b"x" * 200, pause_seconds), headers=headers)
            assert checked_problem(response, 408)["code"] == "body_too_slow"
            assert time.monotonic() - began < 3
            assert response.headers["connection"] == "close"
        assert list(tmp_path.glob("staging/*")) == []


def test_a_body_of_steady_pace_is_read(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path, body_patience_seconds=0.3, body_bytes_per_second=10)
    with migrated_database(settings.resolved_database_url):
        http = InProcess(create_app(settings))
        checked_problem(http.post("/v1/jobs", content=slowly(b"{}" + b" " * 20, 0.03), headers=JSON), 422)


@pytest.mark.parametrize("length", ["9" * 40, "99999999999"])
def test_a_length_that_lies_is_refused_unread(http: InProcess, length: str) -> None:
    headers = {**JSON, "Content-Length": length}
    checked_problem(http.post("/v1/jobs", content=b"{}", headers=headers), 413)


@pytest.mark.parametrize("length", ["²", "x", "-1", "1e9", ""])
def test_a_length_that_is_none_does_no_harm(http: InProcess, length: str) -> None:
    headers = {"Content-Type": b"application/json", "Content-Length": length.encode("latin-1")}
    checked_problem(http.post("/v1/jobs", content=b"{}", headers=headers), 422)
