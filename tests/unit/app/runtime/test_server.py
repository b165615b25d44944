"""The server's transport: an answer in one piece, and nothing kept back."""

import asyncio
import http.client
import json
import socket

import pytest

from app.runtime.server import SMALL_BYTES, _WholeAnswers
from tests.support.serving import Service


class Wire(asyncio.Transport):
    """Keeps what is sent, a piece a call."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.sent.append(data)

    def writelines(self, list_of_data: list[bytes]) -> None:  # type: ignore[override]
        self.sent.append(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def sent_by(*writes: bytes, turns: bool = False, close: bool = False) -> list[bytes]:
    """What goes over the wire; with `turns` the loop has a turn after each write."""

    async def run() -> list[bytes]:
        wire = Wire()
        transport = _WholeAnswers(wire, asyncio.get_running_loop())
        for data in writes:
            transport.write(data)
            if turns:
                await asyncio.sleep(0)
        if close:
            transport.close()
            assert wire.closed
            return wire.sent
        await asyncio.sleep(0)
        return wire.sent

    return asyncio.run(run())


def test_a_head_and_its_body_are_one_piece() -> None:
    assert sent_by(b"head", b"body") == [b"headbody"]
    assert sent_by(b"head", b"body", close=True) == [b"headbody"]


def test_a_large_body_is_one_piece_with_its_head() -> None:
    body = b"x" * SMALL_BYTES
    assert sent_by(b"head", body) == [b"head" + body]
    assert sent_by(body, body) == [body, body]


def test_what_nothing_follows_is_sent_when_the_turn_ends_or_the_connection() -> None:
    assert sent_by(b"head") == [b"head"]
    assert sent_by(b"head", close=True) == [b"head"]
    assert sent_by(b"one", b"two", b"three", turns=True) == [b"one", b"two", b"three"]
    assert sent_by(b"one", b"two", b"three") == [b"onetwo", b"three"]


def test_nothing_is_written_to_a_connection_that_is_gone() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        transport = _WholeAnswers(wire, asyncio.get_running_loop())
        transport.write(b"head")
        wire.close()
        await asyncio.sleep(0)
        return wire.sent

    assert asyncio.run(run()) == []


@pytest.mark.parametrize(
    ("start", "status", "code"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1", 414, "url_too_long"),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nX: " + b"b" * 30_000, 414, "url_too_long"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, 431, "headers_too_large"),
        (b"\r\n" * 40_000, 431, "headers_too_large"),
        (b"nonsense", 400, "unparsable"),
    ],
)
def test_what_cannot_be_parsed_is_a_problem_document(
    sqlite_service: Service, start: bytes, status: int, code: str
) -> None:
    with socket.create_connection(("127.0.0.1", sqlite_service.port), timeout=30) as connection:
        connection.sendall(start + b"\r\nHost: 127.0.0.1\r\n\r\n")
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        problem = json.loads(answer.read())
    assert (answer.status, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
