"""Connections of one API process: how many there are, and how long the head of a request may take and be.

uvicorn has no such limits with httptools. Every byte resets its keep-alive timer, headers may have any size, and
`limit_concurrency` refuses health checks like everything else.
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
"""Bytes of a URL that the parser can take: its offsets have 16 bits."""

MAX_HEAD_BYTES = 1 << 16
"""Bytes of a request's line and headers, or between two parts of its body. Larger: each connection may hold more
memory. 64 KiB is what h11 allows by default; our longest own header is an API key of 75 bytes."""

HEALTH_RESERVE = 16
"""Connections beyond the limit that are accepted for health checks. Larger: more checks at once, fewer files left."""

SHARE_OF_FILES = 0.5
"""Share of the open files that connections may be. The rest is for the database, mapped models, uploads and pipes."""


class Closable(Protocol):
    """What a room needs of a connection."""

    def close_idle(self) -> None: ...


class Room:
    """A bounded set of connections. One that waits for a request gives its place to a newcomer."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken: set[Closable] = set()
        self._idle: OrderedDict[Closable, None] = OrderedDict()  # the longest idle first

    def __len__(self) -> int:
        return len(self._taken)

    def enter(self, connection: Closable) -> bool:
        """Take a place, if need be that of the longest idle; False: every place is at work."""
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
    """The limits of one API process and who is inside them."""

    head_seconds: float
    write_seconds: float
    room: Room
    reserve: Room = field(default_factory=lambda: Room(HEALTH_RESERVE))

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        places = min(settings.max_connections, int(SHARE_OF_FILES * raise_file_limit()) - HEALTH_RESERVE)
        return cls(settings.header_patience_seconds, settings.body_patience_seconds, Room(max(1, places)))


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within `Limits`."""

    def __init__(self, limits: Limits, **server: Any) -> None:
        super().__init__(**server)
        self._limits = limits
        self._room = limits.room
        self.url = b""  # uvicorn sets it when a request begins
        self._in_body = False
        self._unclaimed_bytes = 0
        """Received since the last headers, part of a body or end of a message."""
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
        """What cannot be parsed is refused as everything is: by a problem document."""
        if len(self.url) > MAX_URL_BYTES:
            self._refuse(_too_large(self.url))
        else:
            self._refuse(Unparsable("The request is not valid HTTP."))

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
        """Whether no request is being answered. What comes is a head, or the rest of a body that was refused."""
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
            self._refuse(RequestTooSlow(f"The request line and headers must arrive within {seconds:g} s."))
        else:
            self.transport.close()

    def _on_unread_answer(self) -> None:
        """The client has not read for long: the rest of the answer must not stay in memory."""
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
        detail = f"All {len(self._limits.room)} connections are in use (HYPERPLANE_MAX_CONNECTIONS); try again later."
        await problem_response(Unavailable(detail, code="too_many_connections"), None)(scope, receive, send)


def _too_large(url: bytes) -> AppError:
    """The refusal of a head that is too long: for its URL, if that is most of it."""
    limit = f"the request line and headers may be at most {MAX_HEAD_BYTES}"
    if len(url) > MAX_HEAD_BYTES // 2:
        return UrlTooLong(f"The URL has at least {len(url)} bytes; {limit} bytes.")
    return HeadersTooLarge(f"{limit.capitalize()} bytes.")
