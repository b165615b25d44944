"""Lists a page at a time: the query parameters, the cursor, and the answer with its `Link` to the next page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from app.errors import invalid_field

MAX_PAGE = 200


@dataclass(frozen=True)
class Page:
    """A slice of a list: at most `limit` rows behind the one that the cursor names."""

    limit: int
    cursor_id: str | None


async def _page(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="rows a page")] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
) -> Page:
    return Page(limit, _decode_cursor(cursor) if cursor is not None else None)


InPage = Annotated[Page, Depends(_page)]

Item = TypeVar("Item", bound=BaseModel)
Row = TypeVar("Row")


class Listing(BaseModel, Generic[Item]):
    data: list[Item]
    has_more: bool
    next_cursor: str | None


def listing(
    request: Request, response: Response, page: Page, rows: Sequence[Row], show: Callable[[Row], Any]
) -> dict[str, Any]:
    """Answer a list from `limit + 1` fetched rows; the surplus one only says that there is more."""
    shown = rows[: page.limit]
    has_more = len(rows) > page.limit
    cursor = _encode_cursor(shown[-1].id) if has_more else None  # type: ignore[attr-defined]
    if cursor:
        following = request.url.include_query_params(cursor=cursor)
        response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return {"data": [show(row) for row in shown], "has_more": has_more, "next_cursor": cursor}


def _encode_cursor(row_id: str) -> str:
    return base64.urlsafe_b64encode(row_id.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> str:
    try:
        row_id = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        row_id = ""
    if not row_id.isascii() or not row_id.replace("_", "").isalnum():
        raise invalid_field("cursor", "invalid_cursor", "is not a cursor that this service gave out")
    return row_id
