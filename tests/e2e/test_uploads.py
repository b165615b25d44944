"""Resumable uploads over HTTP: interrupted, continued, completed, refused."""

import base64
import hashlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hyperplane import Client

from tests.support.builders import NOBODY, checked_problem
from tests.support.serving import Service, checked, wait_until
from tests.support.tables import csv_text, noisy_rows

CSV = {"Content-Type": "text/csv"}
PART = {"Content-Type": "application/partial-upload"}


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


def begin(service: Service, length: int | None = None, **query: Any) -> str:
    headers = CSV if length is None else {**CSV, "Upload-Length": str(length)}
    answer = service.http.post("/v1/uploads", headers=headers, params=query)
    assert answer.status_code == 201
    assert answer.headers["upload-offset"] == "0"
    location: str = answer.headers["location"]
    assert location == f"/v1/uploads/{answer.json()['id']}"
    return location


def append(service: Service, location: str, offset: int, content: bytes, **headers: str) -> httpx.Response:
    own = {**PART, "Upload-Offset": str(offset), **{name.replace("_", "-"): value for name, value in headers.items()}}
    return service.http.patch(location, content=content, headers=own)


def offset_of(service: Service, location: str) -> int:
    answer = service.http.head(location)
    assert answer.status_code == 204
    assert answer.headers["cache-control"] == "no-store"
    return int(answer.headers["upload-offset"])


@contextmanager
def unfinished_part(service: Service, location: str, offset: int, sent: bytes, length: int) -> Iterator[None]:
    """A connection that has sent a part of its body; it breaks when the block ends."""
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        head = f"PATCH {location} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nUpload-Offset: {offset}\r\n"
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
        yield


def part_file(service: Service, location: str) -> Path:
    return service.data_dir / "uploads" / location.rpartition("/")[2]


def test_an_upload_that_broke_off_twice_goes_on_and_becomes_the_same_dataset(service: Service) -> None:
    header, _, rows = csv_text(*noisy_rows(2000, 6, seed=1)).partition(b"\n")
    content = b"\n".join([header, *[rows] * 30])
    location = begin(service, len(content), name="resumed", **{"label.k": "v"})
    offset = 0
    for share in (0.4, 0.8):
        sent = content[offset : int(len(content) * share)]
        with unfinished_part(service, location, offset, sent, len(content) - offset):
            part = part_file(service, location)
            wait_until(lambda part=part, before=offset: part.stat().st_size > before, 10, "bytes to arrive")
        wait_until(lambda before=offset: offset_of(service, location) > before, 10, "the broken part to be kept")
        offset = offset_of(service, location)
        assert offset <= int(len(content) * share)
    answer = append(service, location, offset, content[offset:])
    assert answer.status_code == 201
    assert (answer.headers["upload-offset"], answer.headers["upload-complete"]) == (str(len(content)), "?1")
    data = answer.json()
    assert data["sha256"] == hashlib.sha256(content).hexdigest()
    assert (data["status"], data["name"], data["labels"], data["n_rows"]) == ("ready", "resumed", {"k": "v"}, 60_000)
    assert answer.headers["location"] == f"/v1/datasets/{data['id']}"
    assert not part_file(service, location).exists()
    state = service.get(location)
    assert (state["complete"], state["dataset_id"]) == (True, data["id"])
    assert checked_problem(append(service, location, len(content), b""), 409)["code"] == "upload_complete"


def test_the_last_part_can_say_that_it_is_the_last(service: Service) -> None:
    content = csv_text(*noisy_rows(50, 2, seed=2))
    location = begin(service)
    answer = append(service, location, 0, content[:100])
    assert (answer.status_code, answer.headers["upload-offset"], answer.headers["upload-complete"]) == (
        204,
        "100",
        "?0",
    )
    answer = append(service, location, 100, content[100:], Upload_Complete="?1")
    assert (answer.status_code, answer.json()["n_rows"]) == (201, 50)
    again = begin(service, len(content))
    assert append(service, again, 0, content).status_code == 200
    assert service.get(again)["dataset_id"] == answer.json()["id"]


def test_an_empty_last_part_completes_what_is_here(service: Service) -> None:
    content = csv_text(*noisy_rows(50, 2, seed=3))
    location = begin(service)
    assert append(service, location, 0, content, Upload_Complete="?0").status_code == 204
    assert append(service, location, len(content), b"", Upload_Complete="?1").status_code == 201


def test_a_wrong_offset_is_told_the_right_one(service: Service) -> None:
    location = begin(service)
    append(service, location, 0, b"12345")
    for wrong in (0, 4, 6, 2**62):
        answer = append(service, location, wrong, b"x")
        assert checked_problem(answer, 409)["code"] == "offset_mismatch"
        assert answer.headers["upload-offset"] == "5"
    assert offset_of(service, location) == 5


def test_one_writer_at_a_time(service: Service) -> None:
    location, sent = begin(service), b"x" * 2_000_000
    with unfinished_part(service, location, 0, sent, len(sent) + 1):
        wait_until(lambda: part_file(service, location).stat().st_size, 10, "the first writer to write")
        problem = checked_problem(append(service, location, 0, b"y"), 423)
        assert problem["retryable"]
        assert offset_of(service, location) == 0, "it is not yet durable"
    wait_until(lambda: offset_of(service, location) > 0, 10, "the broken part to be kept")
    assert append(service, location, offset_of(service, location), b"z").status_code == 204


def test_a_small_part_that_breaks_off_is_kept_too(service: Service) -> None:
    location = begin(service)
    with unfinished_part(service, location, 0, b"x" * 10, 1000):
        time.sleep(0.5)  # so that the bytes arrive before the news that the client is gone
    wait_until(lambda: offset_of(service, location) == 10, 10, "the broken part to be kept")


def test_an_invalid_file_is_refused_at_its_end_and_nothing_is_kept(service: Service) -> None:
    content = b"a,y\n1,0\ninf,1\n"
    location = begin(service, len(content))
    problem = checked_problem(append(service, location, 0, content), 422)
    assert problem["errors"][0]["line"] == 3
    assert service.http.get(location).status_code == 404
    assert not part_file(service, location).exists()


def test_a_length_that_does_not_fit_is_refused(service: Service) -> None:
    location = begin(service, 10)
    checked_problem(append(service, location, 0, b"x" * 11), 413)
    assert offset_of(service, location) == 0
    checked_problem(append(service, location, 0, b"x" * 5, Upload_Complete="?1"), 422)
    assert offset_of(service, location) == 5
    too_long = service.http.post("/v1/uploads", headers={**CSV, "Upload-Length": str(2**50)})
    checked_problem(too_long, 413)


def test_an_abandoned_upload_is_gone(service: Service) -> None:
    location = begin(service)
    append(service, location, 0, b"12345")
    assert service.http.delete(location).status_code == 204
    assert not part_file(service, location).exists()
    assert service.http.head(location).status_code == 404
    checked_problem(append(service, location, 5, b"6"), 404)
    checked_problem(service.http.delete(location), 404)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 422),
        ({"Upload-Offset": "-1"}, 422),
        ({"Upload-Offset": "x"}, 422),
        ({"Upload-Offset": "1e3"}, 422),
        ({"Upload-Offset": "9" * 30}, 422),
        ({"Upload-Offset": "0", "Upload-Complete": "1"}, 422),
        ({"Upload-Offset": "0", "Content-Type": "application/json"}, 415),
    ],
)
def test_a_part_without_its_place_is_refused(service: Service, headers: dict[str, str], status: int) -> None:
    location = begin(service)
    checked_problem(service.http.patch(location, content=b"x", headers=headers), status)
    service.http.delete(location)


def test_what_is_not_an_upload_is_404(service: Service) -> None:
    for upload_id in (f"up_{NOBODY}", "%00", "..%2f..", f"ds_{NOBODY}"):
        checked_problem(append(service, f"/v1/uploads/{upload_id}", 0, b"x"), 404)
        checked_problem(service.http.get(f"/v1/uploads/{upload_id}"), 404)


def test_a_format_must_be_told(service: Service) -> None:
    for headers in ({}, {"Content-Type": "application/json"}, {**CSV, "Content-Encoding": "br"}):
        checked_problem(service.http.post("/v1/uploads", headers=headers), 415)


def test_a_tus_client_is_served(service: Service) -> None:
    content = csv_text(*noisy_rows(50, 2, seed=4))
    tus = {"Tus-Resumable": "1.0.0"}
    metadata = f"filename {base64.b64encode(b'rows.csv').decode()},note {base64.b64encode(b'x').decode()}"
    headers = {**tus, "Upload-Length": str(len(content)), "Upload-Metadata": metadata}
    made = service.http.post("/v1/uploads", headers=headers)
    assert (made.status_code, made.headers["tus-resumable"]) == (201, "1.0.0")
    location = made.headers["location"]
    part = {**tus, "Content-Type": "application/offset+octet-stream"}
    first = service.http.patch(location, content=content[:99], headers={**part, "Upload-Offset": "0"})
    assert (first.status_code, first.headers["upload-offset"], first.headers["tus-resumable"]) == (204, "99", "1.0.0")
    head = service.http.head(location, headers=tus)
    assert (head.headers["upload-offset"], head.headers["upload-length"]) == ("99", str(len(content)))
    last = service.http.patch(location, content=content[99:], headers={**part, "Upload-Offset": "99"})
    assert (last.is_success, last.headers["upload-offset"]) == (True, str(len(content)))


def test_the_client_sends_large_files_in_parts(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperplane._sync.datasets.RESUMABLE_BYTES", 1000)
    file = tmp_path / "rows.csv"
    file.write_bytes(csv_text(*noisy_rows(3000, 4, seed=5)))
    with Client(service.url) as client:
        data = client.datasets.create(file, name="by-client")
    assert (data["status"], data["n_rows"], data["name"]) == ("ready", 3000, "by-client")
    assert data["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_an_upload_is_begun_without_bytes(service: Service) -> None:
    assert checked(service.http.post("/v1/uploads", headers=CSV))["offset"] == 0
