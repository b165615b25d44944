"""What endpoints are given: the service's context, pages, and checks that every route shares."""

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel

from app.config import Settings
from app.db import Database
from app.errors import ErrorItem, Invalid, UnsupportedMediaType, invalid_field
from app.names import check_labels
from app.storage import BlobStore

MAX_PAGE = 200
LABELLED_PATHS = frozenset({"/v1/datasets", "/v1/uploads", "/v1/jobs"})


@dataclass(frozen=True)
class Context:
    """The process's long-lived parts, made once by `create_app`."""

    settings: Settings
    database: Database
    blobs: BlobStore


# async, because FastAPI would run a plain function in a thread
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


InContext = Annotated[Context, Depends(_context)]


async def known_query_only(request: Request) -> None:
    """A misspelt query parameter is an error, not a silent default. `label.k=v` may have any k, where it is used."""
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    known = _query_names(route)
    labelled = route.path in LABELLED_PATHS
    unknown = [
        name[:64] for name in request.query_params if name not in known and not (labelled and name.startswith("label."))
    ]
    if unknown:
        items = [ErrorItem(field=name, code="unknown_parameter", detail="unknown") for name in unknown]
        allowed = ", ".join(sorted(known)) or "none"
        raise Invalid(
            f"Unknown query parameter {unknown[0]!r}; this route takes: {allowed}.",
            code="unknown_parameter",
            errors=items,
        )


def _query_names(route: APIRoute) -> frozenset[str]:
    pending, names = [route.dependant], set(_described_names(route))
    while pending:
        dependant = pending.pop()
        names |= {field.alias for field in dependant.query_params}
        pending += dependant.dependencies
    return frozenset(names)


def _described_names(route: APIRoute) -> Iterator[str]:
    """Parameters that a route only describes, because it reads them itself."""
    for parameter in (route.openapi_extra or {}).get("parameters", ()):
        if parameter["in"] == "query":
            yield parameter["name"]


def label_parameters(request: Request) -> dict[str, str]:
    """The `label.k=v` pairs of the query: labels to set on something new, or to filter a list by."""
    pairs = request.query_params.items()
    labels = {name.removeprefix("label."): value for name, value in pairs if name.startswith("label.")}
    try:
        return check_labels(labels)
    except ValueError as error:
        raise invalid_field("label", "invalid_label", str(error)) from error


def _in_utc(moment: datetime | None) -> datetime | None:
    try:
        if moment is None or moment.tzinfo is None:
            return moment if moment is None else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is not a year from 1 to 9999 in UTC") from None


CreatedAfter = Annotated[datetime | None, AfterValidator(_in_utc), Query(description="RFC 3339; without a zone: UTC")]


async def json_only(request: Request) -> None:
    """A route that reads JSON refuses any other body before it is parsed."""
    if request.method not in ("POST", "PUT", "PATCH"):
        return
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if media_type != "application/json" and (has_body or media_type):
        raise UnsupportedMediaType("This route reads application/json; send that as Content-Type.")


async def no_body(request: Request) -> None:
    """A route that has nothing to be told says so, or what a body asks for would seem to be done."""
    if (await request.body()).strip() not in (b"", b"{}"):
        raise Invalid("body: this route takes none", code="unexpected_body")


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
