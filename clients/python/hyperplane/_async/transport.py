"""Sends requests, repeats them after temporary failures, and raises error responses as exceptions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from hyperplane._shared.answers import Answer
from hyperplane._shared.errors import ApiError
from hyperplane._shared.requests import Address, Request, failure_of
from hyperplane._shared.retries import MOST_RETRIES, Backoff
from hyperplane._shared.waiting import async_sleep

__all__ = ["AsyncTransport"]


class AsyncTransport:
    """One connection pool to one service."""

    def __init__(
        self,
        address: Address,
        timeout: float,
        max_retries: int = MOST_RETRIES,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self.address = address
        self.max_retries = max_retries
        self.reached = False
        options = address.options(timeout)
        self._owned = http_client is None
        self.http = http_client or httpx.AsyncClient(**options)
        if http_client is not None:
            http_client.base_url = options["base_url"]
            http_client.headers.update(options["headers"])

    async def aclose(self) -> None:
        """Close the connections, unless they belong to the caller's own HTTP client."""
        if self._owned:
            await self.http.aclose()

    async def send(self, request: Request) -> httpx.Response:
        """Send a request, with retries, and return the response. Raises `ApiError` for an error response."""
        backoff = Backoff(self.max_retries)
        while True:
            try:
                return await self.send_once(**request.arguments())
            except (httpx.TransportError, ApiError) as error:
                pause = backoff.pause_after(error, repeatable=request.repeatable, reached=self.reached)
            await async_sleep(pause)

    async def send_once(self, **arguments: Any) -> httpx.Response:
        """Send a request without retries, for callers that handle failures themselves."""
        response = await self.http.request(**arguments)
        self.reached = True
        if response.is_error:
            raise failure_of(response)
        return response

    async def json(self, request: Request) -> dict[str, Any]:
        """Send a request and return the JSON object of the answer."""
        document: dict[str, Any] = (await self.send(request)).json()
        return document

    async def answer(self, request: Request) -> Answer:
        """Send a request whose answer has no type of its own."""
        return Answer(await self.json(request))

    @asynccontextmanager
    async def stream(self, request: Request, timeout: httpx.Timeout | None = None) -> AsyncIterator[httpx.Response]:
        """Open a response whose body the caller reads. Raises `ApiError` for an error response."""
        arguments = request.arguments() | ({} if timeout is None else {"timeout": timeout})
        async with self.http.stream(**arguments) as response:
            self.reached = True
            if response.is_error:
                await response.aread()
                raise failure_of(response)
            yield response
