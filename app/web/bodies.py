"""Receiving the body of a request: how large it may be, how slowly it may come, and the memory that all bodies share.

The guard wraps `receive` of every request with a `Body`.
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
"""A body up to this size needs no room in memory: the number of connections bounds them all. Larger: more memory is
uncounted. Smaller: a prediction of some rows may be refused while large bodies fill the room."""


class BodyRoom:
    """Memory for the bodies of one kind of request. A body that waits for its client makes room for one that comes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0
        self.waiting: set[Body] = set()

    def hold(self, body: "Body", more_bytes: int) -> None:
        """Count bytes that have come; raises Unavailable if there is no room and no slow body to give it up."""
        while self.held_bytes + more_bytes > self._most_bytes:
            slowest = max((one for one in self.waiting if one.held_bytes), key=lambda one: one.waited, default=None)
            if slowest is None:
                detail = (
                    f"Other request bodies take the {self._most_bytes} bytes of memory that all of them may have "
                    "(HYPERPLANE_MAX_BODY_MEMORY_BYTES); send it again later."
                )
                raise Unavailable(detail, code="body_memory_full", headers={"Connection": "close"})
            slowest.give_up()
        body.held_bytes += more_bytes
        self.held_bytes += more_bytes

    def release(self, body: "Body") -> None:
        self.held_bytes -= body.held_bytes
        body.held_bytes = 0


class Body:
    """One request's body on its way in. Without a room it is streamed, and only its size and pace are limited.

    In any `body_patience_seconds` of waiting for the client, `body_bytes_per_second` must come on average. Only the
    time that we wait for the client counts: a slow disk of ours is not its fault.
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
        """The next message of the client, as ASGI's `receive`."""
        if self._complete:  # what still comes is the news that the client is gone, and that may take long
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
        if self._window_bytes >= self._rate * self._patience:  # enough for this window: the next one begins
            self._window_waited, self._window_bytes = 0.0, 0
        self._received += size
        self._complete = not message.get("more_body", False)
        if self._received > self._limit:
            raise HTTPException(413, f"The body may be at most {self._limit} bytes.")
        if self._room is not None and self._received > UNCOUNTED_BYTES:
            self._room.hold(self, self._received - self.held_bytes)
        return message

    def release(self) -> None:
        """The request has ended."""
        if self._room is not None and self.held_bytes:
            self._room.release(self)

    def give_up(self) -> None:
        """Free the memory for another body; `receive`, which waits for the client, raises."""
        assert self._timeout is not None
        assert self._room is not None
        self._gave_up = True
        self._room.waiting.discard(self)
        self._room.release(self)
        self._timeout.reschedule(asyncio.get_running_loop().time())

    def _refusal(self) -> Exception:
        if self._gave_up:
            detail = "The memory for request bodies is full and this one came slowest; send it again, or in parts."
            return Unavailable(detail, code="body_memory_full", headers={"Connection": "close"})
        needed = f"at least {self._rate:g} bytes a second over any {self._patience:g} s are needed"
        detail = f"The body came too slowly: {needed}."
        return HTTPException(408, detail, {"Connection": "close"})

    async def _in_time(self, seconds: float) -> MutableMapping[str, Any]:
        """The next message; TimeoutError if it takes too long. Most are there already, and then no timer is set."""
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
    """Go on, as `await` would, with a coroutine that was started and waits for `blocker`."""
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
