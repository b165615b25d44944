"""The HTTP server: uvicorn, extended to send a response in one piece and to stop without losing a request.

When uvicorn stops, it closes its port and all idle connections at once, and loses requests that were sent but not read
yet. This server stops in five steps: `/readyz` responds with 503; long polls end; pending connections are accepted and
the port closes; open connections get a response with `Connection: close`; the process ends.
"""

import asyncio
import gc
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.config import Settings
from app.jobs.event_endpoints import AllEvents
from app.jobs.events import EventFeed
from app.runtime.connections import LimitedProtocol, Limits
from app.web.context import context_of
from app.web.long_poll import end_waits

LINGER_SECONDS = 1.0
"""Seconds that idle connections stay open during a stop, for requests that are on their way. Larger: slower stops, and
fewer lost requests on slow networks. Set by hand; no measurement is recorded."""
LOOK_SECONDS = 0.02
"""Seconds between two checks of the open connections during a stop. Larger: slower stops. Set by hand; no measurement
is recorded."""
CLOSING = (b"connection", b"close")
SMALL_BYTES = 1 << 14
"""Size in bytes below which the head and the body of a response are copied into one buffer. Larger bodies are not
copied. Larger: more copying, fewer writes. Set by hand; no measurement is recorded."""


class Server(uvicorn.Server):
    """uvicorn with a graceful stop."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._application = app
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=cast(Any, partial(_Protocol, Limits.of(settings))),
            ws="none",
            log_level=settings.log_level if settings.log_level != "info" else "warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(settings.drain_seconds),
        )
        super().__init__(config)
        self._listeners: list[socket.socket] = []

    def serve_until_stopped(self, listening: list[socket.socket]) -> bool:
        """Serve until a stop signal. Returns False if the server failed to start."""
        self._listeners = [one.dup() for one in listening]  # keep the ports open when the loop stops listening
        gc.freeze()  # exempt loaded modules from garbage collection, which would stall all requests
        self.run(sockets=listening)
        return self.started

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop gracefully. uvicorn's signal handler sets a flag; its loop checks the flag every 0.1 s and calls this
        method."""
        context = context_of(self._application)
        context.draining = True
        context.part(AllEvents).close()
        context.part(EventFeed).close()  # open event streams would delay the stop until its deadline
        end_waits()
        self._close_once_answered()
        for server in self.servers:
            server.close()
        await self._let_in()
        deadline = time.monotonic() + LINGER_SECONDS
        while self.server_state.connections and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        await super().shutdown(sockets)

    async def _let_in(self) -> None:
        """Accept the pending connections of the kernel's queue, then close the ports."""
        accepted = []
        for listener in self._listeners:
            listener.setblocking(False)
            with listener, suppress(BlockingIOError):
                while True:
                    accepted.append(listener.accept()[0])
        loop = asyncio.get_running_loop()
        for connection in accepted:
            await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    def _close_once_answered(self) -> None:
        """Close each connection after its current or next response."""
        self.config.encoded_headers.append(CLOSING)
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSING]
        for connection in self.server_state.connections:
            if isinstance(connection, HttpToolsProtocol) and connection.cycle is not None:
                connection.cycle.keep_alive = False


class _Protocol(LimitedProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _WholeAnswers(transport, self.loop)))


class _WholeAnswers:
    """A transport that joins small writes. uvicorn writes the head and the body of a response separately, which would
    wake the client twice.

    A small write waits for the next one, at most until the current iteration of the event loop ends.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting = b""
        self.is_closing = transport.is_closing  # looked up once, because every response calls it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        waiting, self._waiting = self._waiting, b""
        if not waiting and len(data) < SMALL_BYTES:
            self._waiting = data
            self._loop.call_soon(self._flush)
        elif waiting and len(data) < SMALL_BYTES:
            self._transport.write(waiting + data)
        else:
            self._transport.writelines([waiting, data] if waiting else [data])

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting and not self._transport.is_closing():
            self._transport.write(self._waiting)
        self._waiting = b""
