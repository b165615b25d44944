"""A small reverse proxy on loopback: it puts a path prefix before the service, and can break connections."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

__all__ = ["ReverseProxy"]

HEAD_END = b"\r\n\r\n"
CHUNK = 65_536


class ReverseProxy:
    """Forwards each request on a connection of its own. Addresses without the prefix are answered with 404."""

    def __init__(self, port: int, prefix: str = "", *, strips: bool = True) -> None:
        """`port`: of the service on loopback."""
        self._target = ("127.0.0.1", port)
        self._prefix = prefix.encode()
        self._strips = strips
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{prefix}"
        self.requests: list[str] = []
        """Method and path of every request, as clients sent them."""
        self.body_bytes = 0
        """Bytes of request bodies that were forwarded."""
        self._cut_after: int | None = None
        self.cuts = 0

    def cut_after(self, count: int | None) -> None:
        """Break the connection of a request that brings the forwarded bytes of bodies to `count`; None: no more."""
        self._cut_after = count

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            received = b""
            while HEAD_END not in received:
                if not (chunk := client.recv(CHUNK)):
                    return
                received += chunk
            head, _, body = received.partition(HEAD_END)
            first, *fields = head.split(b"\r\n")
            method, path, version = first.split(b" ")
            self.requests.append(f"{method.decode()} {path.decode()}")
            if not path.startswith(self._prefix + b"/"):
                client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            if self._strips:
                path = path.removeprefix(self._prefix)
            kept = [field for field in fields if not field.lower().startswith(b"connection:")]
            with socket.create_connection(self._target) as service:
                service.sendall(
                    b"\r\n".join([b" ".join([method, path, version]), *kept, b"Connection: close"]) + HEAD_END
                )
                with _thread(self._send_body, body, client, service):
                    while chunk := service.recv(CHUNK):
                        client.sendall(chunk)
                    _close(client)

    def _send_body(self, first: bytes, client: socket.socket, service: socket.socket) -> None:
        with suppress(OSError):
            chunk = first
            while True:
                self.body_bytes += len(chunk)
                service.sendall(chunk)
                if self._cut_after is not None and self.body_bytes >= self._cut_after:
                    self._cut_after = None
                    self.cuts += 1
                    _close(client)
                    _close(service)
                    return
                if not (chunk := client.recv(CHUNK)):
                    _close(service)  # the client left: a stream of events must not stay open
                    return


@contextmanager
def _thread(target: object, *arguments: object) -> Iterator[None]:
    thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    yield
    thread.join(10)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
