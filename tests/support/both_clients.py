"""Calls the synchronous and the asynchronous client in the same words, so that a test runs with both."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import hyperplane

BOTH = ("sync", "async")


class Caller:
    """A client and the loop that runs it: `call` for methods, `collect` and `for_each` for iterators."""

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        self.client = client
        self._loop = loop

    def call(self, result: Any) -> Any:
        if inspect.isawaitable(result):
            assert self._loop is not None

            async def awaited() -> Any:
                return await result

            return self._loop.run_until_complete(awaited())
        assert self._loop is None or not inspect.iscoroutine(result)
        return result

    def collect(self, items: Any) -> list[Any]:
        collected: list[Any] = []
        self.for_each(items, collected.append)
        return collected

    def for_each(self, items: Any, act: Callable[[Any], object]) -> None:
        if self._loop is None:
            for item in items:
                act(item)
            return

        async def iterate() -> None:
            async for item in items:
                act(item)

        self._loop.run_until_complete(iterate())


@contextmanager
def caller(kind: str, url: str, transport: Any = None, keep_alive: bool = True, **options: Any) -> Iterator[Caller]:
    """Open a client. `transport` replaces the network; without `keep_alive` each request has its own connection."""
    limits = httpx.Limits(max_keepalive_connections=20 if keep_alive else 0)
    settings: dict[str, Any] = {"transport": transport, "limits": limits, "timeout": 30, "trust_env": False}
    if kind == "sync":
        with httpx.Client(**settings) as http:
            yield Caller(hyperplane.Client(url, http_client=http, **options), None)
        return
    loop = asyncio.new_event_loop()
    try:
        http_async = httpx.AsyncClient(**settings)
        yield Caller(hyperplane.AsyncClient(url, http_client=http_async, **options), loop)
        loop.run_until_complete(http_async.aclose())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
