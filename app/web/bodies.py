"""Limits request bodies: their size, their minimum speed, and the memory that all of them share.

The guard (app/keys/guard.py) wraps `receive` of every request with a `Body`.
"""

import asyncio
import time
import types
from collections.abc import Coroutine, Generator, MutableMapping
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.types import Receive

from app.config import Settings
from app.errors import Unavailable

UNCOUNTED_BYTES = 1 << 16
"""Maximum size in bytes of a body that does not count against the shared memory. The connection limit bounds the number
of such bodies. Larger: more memory is not counted. Smaller: small predictions can be refused while large bodies fill
the memory. Set by hand; no measurement is recorded."""


class BodyRoom:
    """Memory that the bodies of one kind of request share. When it is full, the slowest body is refused and its memory
    is freed."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0
        self.waiting: set[Body] = set()

    def hold(self, body: "Body", more_bytes: int) -> None:
        """Count received bytes. Raises Unavailable if the memory is full and no other body can be refused."""
        while self.held_bytes + more_bytes > self._most_bytes:
            slowest = max((one for one in self.waiting if one.held_bytes), key=lambda one: one.waited, default=None)
            if slowest is None:
                detail = (
                    f"Other request bodies fill the memory of {self._most_bytes} bytes "
                    "(HYPERPLANE_MAX_BODY_MEMORY_BYTES); retry later."
                )
                raise Unavailable(detail, code="body_memory_full", headers={"Connection": "close"})
            slowest.give_up()
        body.held_bytes += more_bytes
        self.held_bytes += more_bytes

    def release(self, body: "Body") -> None:
        self.held_bytes -= body.held_bytes
        body.held_bytes = 0


class Body:
    """The body of one request while it is received. Without a `room` the body is streamed, and only its size and speed
    are limited.

    In any `body_patience_seconds` of waiting, at least `body_bytes_per_second` must arrive on average. Only the time of
    waiting for the client counts, not the time of writing to a slow disk.
    """

    def __init__(self, receive: Receive, limit: int, settings: Settings, room: BodyRoom | None) -> None:
        self.held_bytes = 0
        self.waited = 0.0
        self._receive = receive
        self._limit = limit
        self._patience = settings.body_patience_seconds
        self._rate = settings.body_bytes_per_second
        self._room = room
        self._received = 0
        self._window_waited = 0.0
        self._window_bytes = 0
        self._complete = False
        self._gave_up = False
        self._timeout: asyncio.Timeout | None = None

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next message of the client, as ASGI's `receive`."""
        if self._complete:  # after the last chunk, only a disconnect message can follow, at any time
            return await self._receive()
        began = time.monotonic()
        try:
            message = await self._in_time(self._patience - self._window_waited)
        except TimeoutError:
            raise self._refusal() from None
        waited, size = time.monotonic() - began, len(message.get("body", b""))
        self.waited += waited
        self._window_waited += waited
        self._window_bytes += size
        if self._window_bytes >= self._rate * self._patience:  # fast enough: start the next window
            self._window_waited, self._window_bytes = 0.0, 0
        self._received += size
        self._complete = not message.get("more_body", False)
        if self._received > self._limit:
            raise HTTPException(413, f"The body exceeds the limit of {self._limit} bytes; send less per request.")
        if self._room is not None and self._received > UNCOUNTED_BYTES:
            self._room.hold(self, self._received - self.held_bytes)
        return message

    def release(self) -> None:
        """Free the memory when the request has ended."""
        if self._room is not None and self.held_bytes:
            self._room.release(self)

    def give_up(self) -> None:
        """Free the memory for another body. `receive`, which waits for the client, then raises."""
        assert self._timeout is not None
        assert self._room is not None
        self._gave_up = True
        self._room.waiting.discard(self)
        self._room.release(self)
        self._timeout.reschedule(asyncio.get_running_loop().time())

    def _refusal(self) -> Exception:
        if self._gave_up:
            detail = (
                "The memory for request bodies is full (HYPERPLANE_MAX_BODY_MEMORY_BYTES), and this body was the "
                "slowest; retry later, or send it in parts."
            )
            return Unavailable(detail, code="body_memory_full", headers={"Connection": "close"})
        detail = (
            f"The body arrived too slowly: it needs at least {self._rate:g} bytes per second over any "
            f"{self._patience:g} s (HYPERPLANE_BODY_BYTES_PER_SECOND, HYPERPLANE_BODY_PATIENCE_SECONDS)."
        )
        return HTTPException(408, detail, {"Connection": "close"})

    async def _in_time(self, seconds: float) -> MutableMapping[str, Any]:
        """Return the next message, or raise TimeoutError. Sets no timer if the message has already arrived."""
        receiving = cast(Coroutine[Any, Any, MutableMapping[str, Any]], self._receive())
        try:
            blocker = receiving.send(None)
        except StopIteration as ended:
            message: MutableMapping[str, Any] = ended.value
            return message
        async with asyncio.timeout(seconds) as self._timeout:
            if self._room is None:
                return await _resumed(receiving, blocker)
            self._room.waiting.add(self)
            try:
                return await _resumed(receiving, blocker)
            finally:
                self._room.waiting.discard(self)


@types.coroutine
def _resumed(
    started: Coroutine[Any, Any, MutableMapping[str, Any]], blocker: Any
) -> Generator[Any, Any, MutableMapping[str, Any]]:
    """Continue a coroutine that was started by hand and waits for `blocker`, as `await` would."""
    try:
        while True:
            try:
                sent = yield blocker
            except BaseException as error:
                blocker = started.throw(error)
            else:
                blocker = started.send(sent)
    except StopIteration as ended:
        message: MutableMapping[str, Any] = ended.value
        return message
