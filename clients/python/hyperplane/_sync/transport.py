# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""Sends requests, repeats them after temporary failures, and raises error responses as exceptions."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import httpx

from hyperplane._shared.answers import Answer
from hyperplane._shared.errors import ApiError, NotFound, WaitTimeout
from hyperplane._shared.requests import Address, Request, document_of, failure_of
from hyperplane._shared.retries import MOST_RETRIES, Backoff
from hyperplane._shared.waiting import call, sleep

__all__ = ["Transport"]

TIMEOUT_SECONDS = 120.0
"""Seconds that a request waits for the next byte. Larger: slower answers are accepted, a dead service is noticed later.
Set by hand, above every wait that the client requests (30 s)."""
LATE_SECONDS = 5.0
"""Seconds that an answer can arrive after the end of a wait with a timeout. Larger: a dead service is noticed later.
Set by hand."""


class Transport:
    """One connection pool to one service."""

    def __init__(
        self,
        address: Address,
        timeout: "float | httpx.Timeout | None" = None,
        max_retries: int = MOST_RETRIES,
        http_client: httpx.Client | None = None,
    ) -> None:
        self.address = address
        self.max_retries = max_retries
        self.reached = False
        self._owned = http_client is None
        self.http = http_client or httpx.Client(trust_env=not address.is_local, timeout=TIMEOUT_SECONDS)
        self.timeout = self.http.timeout if timeout is None else httpx.Timeout(timeout)
        self._headers = address.headers

    def close(self) -> None:
        """Close the connections, unless they belong to the caller's own HTTP client."""
        if self._owned:
            self.http.close()

    def send(self, request: Request, deadline: float | None = None) -> httpx.Response:
        """Send a request, with retries, and return the response. Raises `ApiError` for an error response.

        `deadline`: time of `time.monotonic` after which `WaitTimeout` is raised instead of another attempt.
        """
        backoff = Backoff(self.max_retries)
        lost = False
        while True:
            try:
                return self.send_once(timeout=self._limited(deadline), **request.arguments())
            except (httpx.TransportError, ApiError) as error:
                if lost and request.method == "DELETE" and isinstance(error, NotFound):
                    return httpx.Response(204)  # deleted by an attempt whose answer was lost
                lost = lost or isinstance(error, httpx.TransportError)
                pause = backoff.pause_after(error, repeatable=request.repeatable, reached=self.reached)
                if deadline is not None and time.monotonic() + pause > deadline:
                    raise WaitTimeout(f"the service did not answer within the timeout: {error}") from error
            sleep(pause)

    def send_once(self, *, timeout: httpx.Timeout | None = None, **arguments: Any) -> httpx.Response:
        """Send a request without retries, for callers that handle failures themselves."""
        response = self.http.request(**self._complete(arguments, timeout))
        self.reached = True
        if not response.is_success:
            raise failure_of(response)
        return response

    def json(self, request: Request, deadline: float | None = None) -> dict[str, Any]:
        """Send a request and return the JSON object of the answer."""
        return document_of(self.send(request, deadline))

    def answer(self, request: Request) -> Answer:
        """Send a request whose answer has no type of its own."""
        return Answer(self.json(request))

    @contextmanager
    def stream(self, request: Request, timeout: httpx.Timeout | None = None) -> Iterator[httpx.Response]:
        """Open a response whose body the caller reads. Raises `ApiError` for an error response."""
        with self.http.stream(**self._complete(request.arguments(), timeout)) as response:
            self.reached = True
            if not response.is_success:
                response.read()
                raise failure_of(response)
            yield response

    def download(self, request: Request, target: str | PathLike[str]) -> Path:
        """Write the body of an answer to a file, in pieces. After a broken connection it continues where it was.

        The file appears when it is complete.
        """
        path = Path(target)
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                self._download(request, file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def _download(self, request: Request, file: Any) -> None:
        backoff = Backoff(self.max_retries)
        tag: str | None = None
        while True:
            here = file.tell()
            # The bytes as they are stored: a compressed file stays compressed, and positions count its bytes.
            request.headers["Accept-Encoding"] = "identity"
            if tag and here:
                request.headers |= {"Range": f"bytes={here}-", "If-Range": tag}
            try:
                with self.stream(request) as response:
                    if response.status_code != 206:
                        file.seek(0)
                        file.truncate()
                    tag = response.headers.get("ETag")
                    for piece in response.iter_raw():
                        call(file.write, piece)
                return
            except (httpx.TransportError, ApiError) as error:
                backoff.note_progress(file.tell())
                pause = backoff.pause_after(error, reached=self.reached)
            sleep(pause)

    def _complete(self, arguments: dict[str, Any], timeout: httpx.Timeout | None) -> dict[str, Any]:
        """Add the URL of the service, its key and the timeout. An HTTP client of the caller keeps its own."""
        return {
            **arguments,
            "url": f"{self.address.url}{arguments['url']}",
            "headers": {**self._headers, **arguments["headers"]},
            "timeout": timeout or self.timeout,
        }

    def _limited(self, deadline: float | None) -> httpx.Timeout:
        """Return the timeout of a request that must end soon after the deadline."""
        if deadline is None:
            return self.timeout
        left = max(0.0, deadline - time.monotonic()) + LATE_SECONDS
        usual = self.timeout.as_dict()
        return httpx.Timeout(**{name: left if limit is None else min(limit, left) for name, limit in usual.items()})
