"""Bodies on their way in: the pace of any stretch counts, and the memory of all of them is bounded."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from app.config import Settings
from app.errors import Unavailable
from app.web.bodies import UNCOUNTED_BYTES, Body, BodyRoom
from tests.support.builders import temporary_settings

LARGE = b"x" * (2 * UNCOUNTED_BYTES)


class Client:
    """Sends parts, each after a pause; then nothing more comes."""

    def __init__(self, *parts: tuple[float, bytes], ends: bool = False) -> None:
        self._parts = list(parts)
        self._ends = ends

    async def receive(self) -> MutableMapping[str, Any]:
        if not self._parts:
            await asyncio.sleep(3600)
        pause, content = self._parts.pop(0)
        if pause:
            await asyncio.sleep(pause)
        return {"type": "http.request", "body": content, "more_body": bool(self._parts) or not self._ends}


def body_of(client: Client, settings: Settings, room: BodyRoom | None = None) -> Body:
    return Body(client.receive, 10**9, settings, room)


async def drain(body: Body) -> int:
    size, more = 0, True
    while more:
        message = await body.receive()
        size, more = size + len(message["body"]), message["more_body"]
    return size


def test_a_burst_buys_no_time(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path, body_patience_seconds=0.2, body_bytes_per_second=1000)
    slow = [(0.05, b"x")] * 100  # 20 bytes a second: at the average rate of the whole body it could last for 100 s
    body = body_of(Client((0.0, b"x" * 100_000), *slow), settings)
    with pytest.raises(HTTPException) as refusal:
        asyncio.run(asyncio.wait_for(drain(body), 3))
    assert refusal.value.status_code == 408
    assert "1000 bytes per second over any 0.2 s" in refusal.value.detail


def test_a_steady_body_may_take_long(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path, body_patience_seconds=2.0, body_bytes_per_second=1)
    body = body_of(Client(*[(0.01, b"xxx")] * 30, ends=True), settings)
    assert asyncio.run(drain(body)) == 90


def test_small_bodies_need_no_room(tmp_path: Path) -> None:
    room = BodyRoom(0)
    body = body_of(Client((0.0, b"x" * UNCOUNTED_BYTES), ends=True), temporary_settings(tmp_path), room)
    assert asyncio.run(drain(body)) == UNCOUNTED_BYTES
    assert room.held_bytes == 0


def test_memory_is_bounded_and_free_again_when_requests_end(tmp_path: Path) -> None:
    settings, room = temporary_settings(tmp_path), BodyRoom(3 * len(LARGE))
    bodies = [body_of(Client((0.0, LARGE), ends=True), settings, room) for _ in range(4)]

    async def run() -> None:
        for body in bodies[:3]:
            await drain(body)
        assert room.held_bytes == 3 * len(LARGE)
        with pytest.raises(Unavailable, match="HYPERPLANE_MAX_BODY_MEMORY_BYTES"):  # all others are complete
            await drain(bodies[3])
        bodies[0].release()
        assert await drain(body_of(Client((0.0, LARGE), ends=True), settings, room)) == len(LARGE)
        for body in bodies:
            body.release()
        assert room.held_bytes == len(LARGE)

    asyncio.run(run())


def test_a_body_that_waits_for_its_client_makes_room(tmp_path: Path) -> None:
    settings, room = temporary_settings(tmp_path), BodyRoom(2 * len(LARGE))

    async def run() -> None:
        slow = [asyncio.create_task(drain(body_of(Client((0.0, LARGE)), settings, room))) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert room.held_bytes == 2 * len(LARGE)
        assert await drain(body_of(Client((0.0, LARGE), ends=True), settings, room)) == len(LARGE)
        ended, _ = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED, timeout=3)
        (given_up,) = ended
        assert isinstance(given_up.exception(), Unavailable)
        assert room.held_bytes == 2 * len(LARGE)
        for task in slow:
            task.cancel()

    asyncio.run(run())
