"""Clients that hold connections: heads without an end, sockets without a request, more polls than places."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from app.runtime.connections import MAX_HEAD_BYTES
from tests.support.serving import Service, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

PLACES = 30
HEAD_SECONDS = 1.0
FILES_LIMIT = 256


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    limits = {"max_connections": PLACES, "header_patience_seconds": HEAD_SECONDS, "files_limit": FILES_LIMIT}
    with running_service(tmp_path_factory.mktemp("service"), workers=0, **limits) as service:
        yield service


def connected(service: Service, content: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    connection.sendall(content)
    return connection


def head(service: Service, line: str, *headers: str) -> bytes:
    return "\r\n".join([line, f"Host: 127.0.0.1:{service.port}", *headers, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """All that the server says until it closes the connection."""
    received = b""
    with connection, suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            received += chunk
    return received


def fresh(service: Service, path: str) -> bytes:
    return answer(connected(service, head(service, f"GET {path} HTTP/1.1", "Connection: close")))


def test_a_head_may_be_64_kib_and_not_more(service: Service) -> None:
    for filler, status in ((MAX_HEAD_BYTES - 200, b" 200 "), (MAX_HEAD_BYTES, b" 431 ")):
        request = head(service, "GET /livez HTTP/1.1", "Connection: close", "X-Long: " + "x" * filler)
        assert status in answer(connected(service, request))[:20]
    endless = connected(service, b"GET /livez HTTP/1.1\r\nX-Long: " + b"x" * MAX_HEAD_BYTES)
    assert b"headers_too_large" in answer(endless)


def test_trailers_of_a_body_are_limited_too(service: Service) -> None:
    begun = head(service, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    connection = connected(service, begun + b"2\r\n{}\r\n0\r\nX-Long: ")
    with suppress(ConnectionError):  # what was not read when the server closed may reset the connection
        connection.sendall(b"x" * (16 * MAX_HEAD_BYTES))
    assert b"body_too_slow" not in answer(connection)


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET /livez HTTP/1.1\r\nHost: 127.0"], ids=["none", "line", "some"])
def test_a_head_that_does_not_come_is_not_waited_for(service: Service, begun: bytes) -> None:
    said = answer(connected(service, begun))
    assert (b" 408 " in said[:20]) == (begun != b"")


def test_the_next_head_of_a_connection_is_not_waited_for_either(service: Service) -> None:
    connection = connected(service, head(service, "GET /livez HTTP/1.1"))
    assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    connection.sendall(b"GET /li")  # which ends the keep-alive timer of the server
    assert answer(connection) == b""


def test_the_rest_of_a_refused_body_is_not_waited_for(service: Service) -> None:
    request = head(service, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json", f"Content-Length: {10**12}")
    connection = connected(service, request)
    assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")
    connection.sendall(b" ")
    answer(connection)  # it ends


def test_idle_sockets_make_room_for_whoever_comes(service: Service) -> None:
    idle = [connected(service) for _ in range(FILES_LIMIT + 50)]
    assert b" 200 " in fresh(service, "/livez")[:20]
    assert b" 200 " in fresh(service, "/v1/jobs")[:20]
    for one in idle:
        one.close()


def test_health_is_answered_when_every_place_is_at_work(service: Service) -> None:
    data = service.upload(csv_text(*noisy_rows(50, 2, seed=1)))["id"]
    job = service.submit(data)["id"]  # stays in the queue: there is no worker
    poll = head(service, f"GET /v1/jobs/{job}?wait=60 HTTP/1.1")
    polls = [connected(service, poll) for _ in range(PLACES)]
    try:
        wait_until(lambda: b"too_many_connections" in fresh(service, "/v1/jobs"), 30, "every place to be taken")
        assert b" 503 " in fresh(service, "/v1/jobs")[:20]
        for path in ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"):
            said = fresh(service, path)
            assert b" 200 " in said[:20]
            assert b"connection: close" in said.lower()
        flood = [connected(service) for _ in range(100)]  # they take and lose the places that are kept for health
        assert b" 200 " in fresh(service, "/livez")[:20]
        for one in flood:
            one.close()
    finally:
        for one in polls:
            one.close()
    wait_until(lambda: b" 200 " in fresh(service, "/v1/jobs")[:20], 30, "places to be free again")
