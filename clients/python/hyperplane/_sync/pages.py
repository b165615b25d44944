# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""Lists that fetch the next page automatically."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from hyperplane._shared.answers import Page
from hyperplane._shared.requests import Request
from hyperplane._sync.transport import Transport

__all__ = ["Pages"]

T = TypeVar("T")


class Pages(Generic[T]):
    """A list. Iterate over it to get all items; `page` fetches one page."""

    def __init__(self, transport: Transport, request: Request, build: Callable[[dict[str, Any]], T]) -> None:
        self._transport = transport
        self._request = request
        self._build = build

    def page(self, cursor: str | None = None) -> Page[T]:
        """Fetch one page: the first one, or the one of `cursor`."""
        params = {**self._request.params} | ({"cursor": cursor} if cursor else {})
        found = self._transport.json(replace(self._request, params=params))
        return Page([self._build(item) for item in found["data"]], found["has_more"], found["next_cursor"])

    def __iter__(self) -> Iterator[T]:
        cursor = None
        while True:
            page = self.page(cursor)
            for item in page.data:
                yield item
            cursor = page.next_cursor
            if not page.has_more or cursor is None:
                return
