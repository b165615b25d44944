"""The errors that clients receive, and the handlers that turn them into HTTP responses.

    AppError
    ├── Unparsable 400      ├── NotAcceptable 406         ├── BadRange 416
    ├── Unauthorized 401    ├── Conflict 409              ├── Invalid 422
    ├── Forbidden 403       ├── PreconditionFailed 412    ├── Locked 423
    ├── NotFound 404        ├── PayloadTooLarge 413       ├── Unavailable 503 (of the database: DatabaseUnavailable)
    ├── RequestTooSlow 408  ├── UrlTooLong 414            └── StorageFull 507
    └── HeadersTooLarge 431 └── UnsupportedMediaType 415

408, 414 and 431 are sent before the request is complete.

Responses are RFC 9457 problem documents. They never contain a stack trace or the client's raw input. app/error_codes
lists the codes.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from app.error_codes import problem_type

log = logging.getLogger(__name__)

UNION_TAG = "type="
"""Prefix of union tags in pydantic's error locations. A tag is not a field of the request, so it is removed from the
location."""

OUR_WORDS = {
    "extra_forbidden": "is not a field of this request",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
}
"""Messages by error type of pydantic, in place of messages that use terms of Python."""

FULL_STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT})
FAILING_STORAGE = frozenset(
    {errno.EIO, errno.EROFS, errno.EACCES, errno.ENOTCONN, errno.ENODEV, errno.ESTALE, errno.ETIMEDOUT}
)
"""Error numbers of storage failures that can be temporary: a volume that is not mounted, a disk or network that can
recover. A request gets 503, and a job waits. StoreAway (app/storage/identity.py) has one of these numbers."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HTTP_CODES = {
    400: "unparsable",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "payload_too_large",
}
"""Error code of each HTTP status that the web framework raises."""
OTHER_HTTP_CODE = "http_error"
RETRYABLE_STATUSES = frozenset({408, 423, 429, 503, 507})


class ErrorItem(BaseModel):
    """One error: a field of the request, or a place in an uploaded file."""

    field: str | None = Field(
        None, description="Field of the request, as a dotted path; absent: the error is in a file."
    )
    line: int | None = Field(
        None, description="Line of the uploaded file, counted from 1; absent: the error has no line."
    )
    column: int | None = Field(None, description="Column in that line, counted from 1; absent: the whole line.")
    code: str = Field(description="Error code, for programs.")
    detail: str = Field(description="What is wrong, in a sentence.")


ERROR_ITEMS = {"type": "array", "items": {"$ref": "#/components/schemas/ErrorItem"}}
"""JSON Schema of `errors`. The items are written without the fields that are null."""


class Problem(BaseModel):
    """RFC 9457 problem document, media type application/problem+json."""

    type: str = Field(description="Link to the description of the error code: a path of this service.")
    title: str = Field(description="Name of the HTTP status.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What is wrong with this request, in a sentence.")
    code: str = Field(description="Error code, for programs; `/docs/errors` explains each of them.")
    errors: Annotated[list[dict[str, Any]], WithJsonSchema(ERROR_ITEMS)] = Field(
        [], description="All errors found, each with its place (`field`, or `line` and `column`), `code` and `detail`."
    )
    request_id: str | None = Field(
        None, description="Id of the request, under which the log of the service has the details."
    )
    retryable: bool = Field(
        description="Whether the same request can succeed later. The header Retry-After has the seconds to wait."
    )
    error: str = Field(description="The same as `detail`, for clients of the Open Inference Protocol.")


class AppError(Exception):
    """An error with an HTTP status and an error code. Services raise it, and `install_handlers` turns it into a
    response."""

    status = 500
    code = "internal"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[ErrorItem] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.errors = list(errors)
        self.headers = headers or {}


class Unparsable(AppError):
    status, code = 400, "unparsable"


class Unauthorized(AppError):
    status, code = 401, "unauthorized"


class Forbidden(AppError):
    status, code = 403, "forbidden"


class NotFound(AppError):
    status, code = 404, "not_found"


class NotAcceptable(AppError):
    status, code = 406, "not_acceptable"


class Conflict(AppError):
    status, code = 409, "conflict"


class PreconditionFailed(AppError):
    status, code = 412, "precondition_failed"


class PayloadTooLarge(AppError):
    status, code = 413, "payload_too_large"


class UrlTooLong(AppError):
    status, code = 414, "url_too_long"


class UnsupportedMediaType(AppError):
    status, code = 415, "unsupported_media_type"


class BadRange(AppError):
    status, code = 416, "bad_range"


class Invalid(AppError):
    status, code = 422, "invalid"


class Locked(AppError):
    status, code = 423, "locked"


class RequestTooSlow(AppError):
    status, code = 408, "head_too_slow"


class HeadersTooLarge(AppError):
    status, code = 431, "headers_too_large"


class Unavailable(AppError):
    status, code = 503, "unavailable"


class DatabaseUnavailable(Unavailable):
    """Raised when the database does not respond, is read-only or is overloaded. app/db/outages.py recognizes these
    errors."""


class StorageFull(AppError):
    status, code = 507, "storage_full"


class DatabaseFull(DatabaseUnavailable):
    """Raised when the disk of the database is full. Reads still work; writes fail until there is free space."""

    status, code = 507, "storage_full"


def invalid_field(field: str, code: str, detail: str) -> Invalid:
    """Return the error for a request in which one field is not valid."""
    return Invalid(f"{field}: {detail}", code=code, errors=[ErrorItem(field=field, code=code, detail=detail)])


def problem_response(error: AppError, request_id: str | None) -> JSONResponse:
    retryable = error.status in RETRYABLE_STATUSES or "Retry-After" in error.headers
    body = Problem(
        type=problem_type(error.code),
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=error.detail,
        code=error.code,
        errors=[item.model_dump(exclude_none=True) for item in error.errors],
        request_id=request_id,
        retryable=retryable,
        error=error.detail,
    )
    headers = dict(error.headers)
    if retryable:
        headers.setdefault("Retry-After", "1")
    return JSONResponse(
        body.model_dump(), status_code=error.status, headers=headers, media_type="application/problem+json"
    )


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Declare the problem responses of a route for OpenAPI. The problems of the server and the guard, which every route
    can return, are added."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    every = sorted({401, 403, 408, 414, 422, 431, 503, *statuses})
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in every}


class SpaceReserved(OSError):
    """Raised when a write would use disk space that must stay free. `strerror` is the detail for the client."""


def is_disk_full(error: OSError) -> bool:
    return error.errno in FULL_STORAGE


def is_passing(error: OSError) -> bool:
    """Return whether an error is temporary, so that a retry can succeed."""
    return error.errno in FULL_STORAGE | FAILING_STORAGE


def install_handlers(app: FastAPI, check_store: Callable[[], None]) -> None:
    """Install handlers that turn exceptions into problem documents. `check_store` raises OSError while the blob store
    is not available."""

    @app.exception_handler(AppError)
    async def on_app_error(request: Request, error: AppError) -> JSONResponse:
        return _respond(request, error)

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> JSONResponse:
        return _respond(request, _from_validation(error))

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> JSONResponse:
        problem = _from_http(error)
        if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
            problem.headers["Allow"] = ", ".join(_allowed_methods(request))
        return _respond(request, problem)

    @app.exception_handler(OSError)
    async def on_os_error(request: Request, error: OSError) -> JSONResponse:
        # the volume can have been unmounted after it was checked
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            try:
                await run_in_threadpool(check_store)
            except OSError as away:
                error = away
        if is_disk_full(error):
            reserved = error.strerror if isinstance(error, SpaceReserved) else None
            return _respond(
                request, StorageFull(reserved or "The disk is full; nothing was stored. Free disk space and retry.")
            )
        if error.errno in FAILING_STORAGE:
            log.warning("storage failed during a request, which got 503: %s", error)
            return _respond(request, Unavailable("The storage does not respond; nothing was stored. Retry later."))
        raise error

    @app.exception_handler(ClientDisconnect)
    async def on_disconnect(request: Request, error: ClientDisconnect) -> JSONResponse:
        return _respond(
            request, Unparsable("The connection was closed before the body was complete; send the request again.")
        )

    @app.exception_handler(Exception)
    async def on_anything_else(request: Request, _: Exception) -> JSONResponse:
        request_id = _request_id(request)
        # The server closes the connection after an unhandled exception, so the header tells the client not to reuse it.
        detail = "Internal error. The log of the service has the details under this request id."
        error = AppError(detail, headers={"Connection": "close"})
        if request_id is not None:  # this response bypasses the guard, which sets the header of all other responses
            error.headers["X-Request-Id"] = request_id
        return problem_response(error, request_id)


def _respond(request: Request, error: AppError) -> JSONResponse:
    return problem_response(error, _request_id(request))


def _request_id(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


def _from_validation(error: RequestValidationError) -> AppError:
    items = [item_from_pydantic(raw) for raw in error.errors()]
    first = items[0]
    if first.code == "json_invalid":
        return Unparsable(f"The body is not JSON: {first.detail}.")
    detail = f"{first.field or 'body'}: {first.detail}"
    if len(items) > 1:
        detail += f" (and {len(items) - 1} more)"
    return Invalid(detail, errors=items)


def item_from_pydantic(raw: Any) -> ErrorItem:
    """Return an error of a request that pydantic found, in our words."""
    place = [str(part) for part in raw["loc"] if part not in ("body", "query", "path", "header")]
    place = [part for part in place if not part.startswith(UNION_TAG)]
    code, message = str(raw["type"]), str(raw["msg"])
    if code == "json_invalid":
        offset = raw["loc"][-1] if raw["loc"] else "?"
        return ErrorItem(code=code, detail=f"{raw.get('ctx', {}).get('error', message)} at character {offset}")
    if code == "missing" and not place:
        message = "is missing"
    message = OUR_WORDS.get(code, message.removeprefix("Value error, "))
    return ErrorItem(field=".".join(place) or None, code=code, detail=message)


def _allowed_methods(request: Request) -> list[str]:
    """List the methods of all routes for this path. Starlette lists only the methods of the first matching route."""
    found: set[str] = set()
    for method in METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] == Match.FULL for route in request.app.routes):
            found.add(method)
    return sorted(found)


def _from_http(error: HTTPException) -> AppError:
    problem = AppError(str(error.detail), headers=dict(error.headers or {}))
    problem.status = error.status_code
    problem.code = HTTP_CODES.get(error.status_code, OTHER_HTTP_CODE)
    return problem


class CorruptModel(Exception):
    """Raised for a file that is not a model file, or that this version cannot read."""
