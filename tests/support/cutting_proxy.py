"""A TCP proxy on loopback that cuts connections where a test wants it: in a body, before an answer, after an event."""

import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

READ_BYTES = 16_384
PARTIAL_EVENT_BYTES = 9
"""Bytes of the next event that still arrive before a stream is cut."""


class CuttingProxy:
    """Passes each connection on to a port and cuts it. Clients must use a new connection for each request.

    `body_bytes`: cut a request after this many bytes, and after `delay_seconds`, in which the service can read them.
    Without a delay it loses those that it has not read. `first_answers`: the service executes every request, but its
    first answer is lost. `events`: cut an event stream after each event.
    """

    def __init__(
        self,
        port: int,
        *,
        body_bytes: int | None = None,
        delay_seconds: float = 0.0,
        first_answers: bool = False,
        events: bool = False,
    ) -> None:
        self._port = port
        self._body_bytes = body_bytes
        self._delay_seconds = delay_seconds
        self._first_answers = first_answers
        self._events = events
        self._seen: set[bytes] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0

    def serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pass_on(self, near: socket.socket) -> None:
        with suppress(OSError), near, socket.create_connection(("127.0.0.1", self._port)) as far:
            head = near.recv(READ_BYTES)
            loses_answer = self._first_answers and self._is_first(head)
            sending = threading.Thread(target=self._send, args=(near, far, head), daemon=True)
            sending.start()
            if loses_answer:
                far.recv(READ_BYTES)
                self._cut(near)
            elif self._events and b"text/event-stream" in head:
                self._send_an_event(far, near)
            else:
                while data := far.recv(READ_BYTES):
                    near.sendall(data)

    def _is_first(self, head: bytes) -> bool:
        """Whether a request like this has not been seen: its first line and its idempotency key."""
        key = re.search(rb"(?i)idempotency-key: \S+", head)
        identity = head.partition(b"\r\n")[0] + (key[0] if key else b"")
        with self._lock:
            is_first = identity not in self._seen
            self._seen.add(identity)
        return is_first

    def _send(self, near: socket.socket, far: socket.socket, head: bytes) -> None:
        """Send the request on, and cut it in its body."""
        left = self._body_bytes
        with suppress(OSError):
            far.sendall(head)
            if left is not None:
                left -= len(head.partition(b"\r\n\r\n")[2])
            while data := near.recv(READ_BYTES):
                far.sendall(data if left is None else data[:left])
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        time.sleep(self._delay_seconds)
                        self._cut(near)
                        far.shutdown(socket.SHUT_RDWR)
                        return

    def _send_an_event(self, far: socket.socket, near: socket.socket) -> None:
        """Send one event and the beginning of what follows."""
        seen = b""
        while data := far.recv(READ_BYTES):
            seen += data
            ends = re.search(rb"\nid: [^\n]+.*?\n\n", seen, re.DOTALL)
            if ends is None:
                near.sendall(data)
                continue
            beyond = len(seen) - ends.end() - PARTIAL_EVENT_BYTES
            near.sendall(data[: len(data) - max(0, beyond)])
            self._cut(near)
            return

    def _cut(self, near: socket.socket) -> None:
        self.cuts += 1
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an orderly end
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)
        near.close()


@contextmanager
def cutting_proxy(port: int, **where: Any) -> Iterator[CuttingProxy]:
    """Run a proxy; `where` are its options."""
    proxy = CuttingProxy(port, **where)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
