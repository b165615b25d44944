"""The HTTP server: uvicorn, made to send an answer in one piece, and to stop without losing a request.

By itself it closes its port at once, and every connection without a request in hand, and with them what clients had
sent and nobody had read yet. Here the order is: unready; no long waits any more; whoever has connected is let in, and
the port closes; every open connection may still say what it has to say, is answered, and told to close; then it ends.
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
LOOK_SECONDS = 0.02
CLOSING = (b"connection", b"close")
SMALL_BYTES = 1 << 14  # copied rather than handed to the system apart


class Server(uvicorn.Server):
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
        """Whether it came as far as serving."""
        self._listeners = [one.dup() for one in listening]  # ports stay open when the loop stops listening
        gc.freeze()  # what was loaded stays for good: a full collection that went through it would stop all requests
        self.run(sockets=listening)
        return self.started

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop. uvicorn's signal handler only sets a flag; its loop sees that within 0.1 s and calls this."""
        context = context_of(self._application)
        context.draining = True
        context.part(AllEvents).close()
        context.part(EventFeed).close()  # a stream would hold up the end until its patience is over
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
        """Take the connections that the system has made for us and nobody has accepted; then close the ports."""
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
        """Every connection with its next answer: what is still to be asked, and what is being answered."""
        self.config.encoded_headers.append(CLOSING)
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSING]
        for connection in self.server_state.connections:
            if isinstance(connection, HttpToolsProtocol) and connection.cycle is not None:
                connection.cycle.keep_alive = False


class _Protocol(LimitedProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _WholeAnswers(transport, self.loop)))


class _WholeAnswers:
    """A transport for uvicorn, which writes the head and the body of an answer apart and would wake the client twice.

    What is small waits for what is written after it, at most until the loop has ended its turn.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting = b""
        self.is_closing = transport.is_closing  # asked with every answer

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
