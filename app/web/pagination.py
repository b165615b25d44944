"""Pagination of lists: the query parameters, the cursor, and the response with a `Link` header to the next page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.errors import invalid_field

MAX_PAGE = 200
"""Maximum number of items of a page. Larger: fewer requests, more memory, and a database connection is in use for
longer. Set by hand; no measurement is recorded."""
INVALID_CURSOR = "is not a cursor of this list; send the `next_cursor` of the previous page unchanged"


@dataclass(frozen=True)
class Page:
    """A slice of a list: at most `limit` rows after the row that the cursor identifies."""

    limit: int
    cursor_id: str | None


async def _page(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Maximum number of items in the response.")] = 50,
    cursor: Annotated[
        str | None, Query(description="`next_cursor` of the previous page; omit it for the first page.")
    ] = None,
) -> Page:
    return Page(limit, _decode_cursor(cursor) if cursor is not None else None)


InPage = Annotated[Page, Depends(_page)]

Item = TypeVar("Item", bound=BaseModel)
Row = TypeVar("Row")


class Listing(BaseModel, Generic[Item]):
    """One page of a list."""

    model_config = ConfigDict(json_schema_extra={"description": "One page of a list."})  # pydantic drops the docstring

    data: list[Item] = Field(description="Items of this page.")
    has_more: bool = Field(description="Whether there is another page.")
    next_cursor: str | None = Field(description="`cursor` of the next page; null: this is the last one.")


def listing(
    request: Request, response: Response, page: Page, rows: Sequence[Row], show: Callable[[Row], Any]
) -> dict[str, Any]:
    """Return the response for `limit + 1` fetched rows. The extra row shows that there is another page."""
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
        raise invalid_field("cursor", "invalid_cursor", INVALID_CURSOR)
    return row_id
