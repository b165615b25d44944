"""A real HTTP server that receives webhooks: it records the messages and answers as the test configures it."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass
class Message:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> dict[str, Any]:
        """What it says; raises unless it was signed with the secret, a moment ago."""
        payload: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return payload


@dataclass
class Receiver:
    url: str
    messages: list[Message] = field(default_factory=list)
    answer: Callable[[Message], int] = lambda _message: 204
    answer_headers: dict[str, str] = field(default_factory=dict)

    def on(self, path: str) -> list[Message]:
        return [message for message in self.messages if message.path == path]


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:  # the sender died in the middle: no server would take that for a message
                self.close_connection = True
                return
            message = Message(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            receiver.messages.append(message)
            self.send_response(receiver.answer(message))
            for name, value in receiver.answer_headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # the sender hangs up when it has the status

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
