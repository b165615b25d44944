"""Limits the connections of an API process, and the time and size of request headers.

uvicorn with httptools has no such limits: every byte resets its keep-alive timer, headers can have any size, and
`limit_concurrency` also refuses health checks.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.config import Settings
from app.errors import (
    AppError,
    HeadersTooLarge,
    RequestTooSlow,
    Unavailable,
    Unparsable,
    UrlTooLong,
    problem_response,
)
from app.ids import new_id
from app.keys.guard import OPEN_PATHS
from app.system.resources import raise_file_limit

MAX_URL_BYTES = 65_535
"""Maximum bytes of a URL that httptools can parse, because its offsets have 16 bits."""

MAX_HEAD_BYTES = 1 << 16
"""Maximum bytes of the request line and headers, or between two chunks of a body. Larger: each connection can use more
memory. 64 KiB is the default of h11. The longest header that the API defines is an API key of 75 bytes."""

HEALTH_RESERVE = 16
"""Extra connections that are accepted for health checks when the limit is reached. Larger: more simultaneous health
checks, fewer file descriptors for other uses. Set by hand; no measurement is recorded."""

SHARE_OF_FILES = 0.5
"""Maximum share of the process's file descriptors for connections. Larger: more connections, and fewer descriptors for
the database, mapped models, uploads and pipes. Set by hand; no measurement is recorded."""


class Closable(Protocol):
    """A connection that `Room` can close."""

    def close_idle(self) -> None: ...


class Room:
    """A bounded set of connections. When it is full, a new connection replaces the one that has been idle longest."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken: set[Closable] = set()
        self._idle: OrderedDict[Closable, None] = OrderedDict()  # longest idle first

    def __len__(self) -> int:
        return len(self._taken)

    def enter(self, connection: Closable) -> bool:
        """Add a connection. If the set is full, close the connection that has been idle longest. Returns False if none
        is idle."""
        if len(self._taken) >= self._places:
            if not self._idle:
                return False
            longest, _ = self._idle.popitem(last=False)
            self._taken.discard(longest)
            longest.close_idle()
        self._taken.add(connection)
        self._idle[connection] = None
        return True

    def begin_work(self, connection: Closable) -> None:
        self._idle.pop(connection, None)

    def end_work(self, connection: Closable) -> None:
        if connection in self._taken:
            self._idle[connection] = None

    def leave(self, connection: Closable) -> None:
        self._taken.discard(connection)
        self._idle.pop(connection, None)


@dataclass(frozen=True)
class Limits:
    """The limits of an API process, and its current connections."""

    head_seconds: float
    write_seconds: float
    room: Room
    reserve: Room = field(default_factory=lambda: Room(HEALTH_RESERVE))

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        places = min(settings.max_connections, int(SHARE_OF_FILES * raise_file_limit()) - HEALTH_RESERVE)
        return cls(settings.header_patience_seconds, settings.body_patience_seconds, Room(max(1, places)))


class LimitedProtocol(HttpToolsProtocol):
    """The HTTP protocol of uvicorn with the limits of `Limits`."""

    def __init__(self, limits: Limits, **server: Any) -> None:
        super().__init__(**server)
        self._limits = limits
        self._room = limits.room
        self.url = b""  # uvicorn sets the URL when a request begins
        self._in_body = False
        self._unclaimed_bytes = 0
        """Bytes received since the end of the last headers, body chunk or message."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._room.enter(self):
            self._room = self._limits.reserve
            self.app = self._answer_health_only
            if not self._room.enter(self):
                transport.abort()
                return
        self._set_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.leave(self)
        self._cancel_head_timer()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def close_idle(self) -> None:
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        while data and not self.transport.is_closing():
            most = len(data) if self._in_body else MAX_HEAD_BYTES - self._unclaimed_bytes
            piece, data = data[:most], data[most:]
            self._unclaimed_bytes += len(piece)
            super().data_received(piece)
            if self._unclaimed_bytes >= MAX_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(_too_large(self.url))
        if self._awaits_request and self._head_timer is None and not self.transport.is_closing():
            self._set_head_timer()

    def send_400_response(self, msg: str) -> None:
        """Respond to a request that cannot be parsed with a problem document, like to all other errors."""
        if len(self.url) > MAX_URL_BYTES:
            self._refuse(_too_large(self.url))
        else:
            self._refuse(Unparsable("The request is not valid HTTP/1.1."))

    def on_headers_complete(self) -> None:
        self._in_body, self._unclaimed_bytes = True, 0
        self._cancel_head_timer()
        self._room.begin_work(self)
        super().on_headers_complete()
        if self._room is self._limits.reserve:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._unclaimed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._unclaimed_bytes = False, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._awaits_request:
            self._room.end_work(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.write_seconds, self._on_unread_answer)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    @property
    def _awaits_request(self) -> bool:
        """Return whether no request is being handled. Incoming bytes are then headers, or the rest of a refused
        body."""
        return self.cycle is None or self.cycle.response_complete

    def _set_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_seconds, self._on_late_head)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _on_late_head(self) -> None:
        self._head_timer = None
        if not self._awaits_request or self.transport.is_closing():
            return
        if self.cycle is None and self._unclaimed_bytes:
            seconds = self._limits.head_seconds
            setting = "HYPERPLANE_HEADER_PATIENCE_SECONDS"
            detail = f"The request line and headers did not arrive within {seconds:g} s ({setting})."
            self._refuse(RequestTooSlow(detail))
        else:
            self.transport.close()

    def _on_unread_answer(self) -> None:
        """Disconnect a client that does not read its response, to free the memory of the response."""
        self._write_timer = None
        self.transport.abort()

    def _refuse(self, error: AppError) -> None:
        response = problem_response(error, new_id("req"))
        headers = [*self.server_state.default_headers, *response.raw_headers, (b"connection", b"close")]
        lines = [b": ".join(header) for header in headers]
        self.transport.write(STATUS_LINE[error.status] + b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()

    async def _answer_health_only(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS:
            await self.config.loaded_app(scope, receive, send)
            return
        detail = f"All {len(self._limits.room)} connections are in use (HYPERPLANE_MAX_CONNECTIONS); retry later."
        await problem_response(Unavailable(detail, code="too_many_connections"), None)(scope, receive, send)


def _too_large(url: bytes) -> AppError:
    """Return the error for headers that are too large: 414 if the URL is most of them, else 431."""
    limit = f"the limit for the request line and headers is {MAX_HEAD_BYTES}"
    if len(url) > MAX_HEAD_BYTES // 2:
        return UrlTooLong(f"The URL has at least {len(url)} bytes; {limit} bytes.")
    return HeadersTooLarge(f"The headers are too large: {limit} bytes.")
