"""The HTTP server: uvicorn, made to stop without losing a request.

By itself it closes its port at once, and every connection without a request in hand, and with them what clients had
sent and nobody had read yet. Here the order is: unready; no long waits any more; whoever has connected is let in, and
the port closes; every open connection may still say what it has to say, is answered, and told to close; then it ends.
"""

import asyncio
import socket
import time
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import FastAPI

from app.config import Settings
from app.waiting import end_waits

LINGER_SECONDS = 1.0
LOOK_SECONDS = 0.02


class Server(uvicorn.Server):
    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._application = app
        config = uvicorn.Config(
            self._closing(app),
            host=settings.host,
            port=settings.port,
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
        self.run(sockets=listening)
        return self.started

    def handle_exit(self, *arguments: Any) -> None:
        self._application.state.draining = True
        self._application.state.event_feed.close()  # a stream would hold up the end until its patience is over
        end_waits()
        super().handle_exit(*arguments)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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

    def _closing(self, app: Any) -> Any:
        """The application, whose answers close their connection once the server is to end."""

        async def call(scope: Any, receive: Any, send: Any) -> None:
            async def send_and_close(message: Any) -> None:
                if message["type"] == "http.response.start" and self.should_exit:
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                await send(message)

            await app(scope, receive, send_and_close if scope["type"] == "http" else send)

        return call
