"""Lists that fetch the next page automatically."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from hyperplane._async.transport import AsyncTransport
from hyperplane._shared.answers import Page
from hyperplane._shared.requests import Request

__all__ = ["AsyncPages"]

T = TypeVar("T")


class AsyncPages(Generic[T]):
    """A list. Iterate over it to get all items; `page` fetches one page."""

    def __init__(self, transport: AsyncTransport, request: Request, build: Callable[[dict[str, Any]], T]) -> None:
        self._transport = transport
        self._request = request
        self._build = build

    async def page(self, cursor: str | None = None) -> Page[T]:
        """Fetch one page: the first one, or the one of `cursor`."""
        params = {**self._request.params} | ({"cursor": cursor} if cursor else {})
        found = await self._transport.json(replace(self._request, params=params))
        return Page([self._build(item) for item in found["data"]], found["has_more"], found["next_cursor"])

    async def __aiter__(self) -> AsyncIterator[T]:
        cursor = None
        while True:
            page = await self.page(cursor)
            for item in page.data:
                yield item
            cursor = page.next_cursor
            if not page.has_more or cursor is None:
                return
