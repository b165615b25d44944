"""Exceptions of the client: one class for each HTTP status, and failures of the client itself."""

from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = [
    "STATUS_ERRORS",
    "ApiError",
    "BadRequest",
    "Conflict",
    "ConnectionFailed",
    "Forbidden",
    "HyperplaneError",
    "InsufficientStorage",
    "InvalidSignature",
    "JobFailed",
    "Locked",
    "NotAcceptable",
    "NotFound",
    "PayloadTooLarge",
    "PreconditionFailed",
    "RangeNotSatisfiable",
    "RateLimited",
    "RequestTimeout",
    "ServerError",
    "ServiceUnavailable",
    "Unauthorized",
    "UnprocessableEntity",
    "UnsupportedMediaType",
    "WaitTimeout",
    "error_of",
]


class HyperplaneError(Exception):
    """Base class of everything that the client raises on purpose."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            cls.__module__ = "hyperplane"  # tracebacks then show the name to catch: hyperplane.NotFound


class ConnectionFailed(HyperplaneError):
    """No answer arrived, after all retries."""


class WaitTimeout(HyperplaneError, TimeoutError):
    """The work was not done within `timeout`. It continues on the service."""


class InvalidSignature(HyperplaneError):
    """A webhook's signature does not fit its body, its time or the secret."""


class ApiError(HyperplaneError):
    """The service answered with an error; `problem` is its problem document (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None) -> None:
        self.problem = dict(problem)
        self.status = status
        self.headers = dict(headers or {})
        super().__init__(self.detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.status, self.headers)

    @property
    def detail(self) -> str:
        """What is wrong, in a sentence."""
        return str(self.problem.get("detail") or self.problem.get("title") or f"the service answered {self.status}")

    @property
    def code(self) -> str | None:
        """Stable code of the error, for programs."""
        return self.problem.get("code")

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Each fault with its `field`, or with the `line` and `column` of the uploaded file."""
        return list(self.problem.get("errors") or [])

    @property
    def param(self) -> str | None:
        """Name of the field that the service refuses, if there is one."""
        named = (fault.get("field") for fault in self.errors)
        return self.problem.get("param") or next((field for field in named if field), None)

    @property
    def request_id(self) -> str | None:
        """Id of the request in the service's log."""
        return self.problem.get("request_id") or self.headers.get("x-request-id")

    @property
    def retryable(self) -> bool:
        """Whether the same request can succeed later."""
        return bool(self.problem.get("retryable", self.status in (408, 425, 429, 502, 503, 504)))

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next attempt, if the service says so."""
        value = self.headers.get("retry-after", "")
        if value.isdigit():
            return float(value)
        try:
            return max(0.0, (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds())
        except (TypeError, ValueError):
            return None


class BadRequest(ApiError):
    """400: the request cannot be parsed."""


class Unauthorized(ApiError):
    """401: the API key is missing or wrong."""


class Forbidden(ApiError):
    """403: the API key lacks the scope."""


class NotFound(ApiError):
    """404: the object does not exist."""


class NotAcceptable(ApiError):
    """406: the answer cannot have the requested format."""


class RequestTimeout(ApiError):
    """408: the request arrived too slowly."""


class Conflict(ApiError):
    """409: the state of the object does not allow the request."""


class PreconditionFailed(ApiError):
    """412: `If-Match` or `If-None-Match` does not hold."""


class PayloadTooLarge(ApiError):
    """413: the body exceeds a limit."""


class UnsupportedMediaType(ApiError):
    """415: the route does not read this content type."""


class RangeNotSatisfiable(ApiError):
    """416: the range is outside of the file."""


class UnprocessableEntity(ApiError):
    """422: the request can be parsed, but has invalid values."""


class Locked(ApiError):
    """423: another client is writing to this upload."""


class RateLimited(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the service failed."""


class ServiceUnavailable(ServerError):
    """503: the service is temporarily unavailable."""


class InsufficientStorage(ServerError):
    """507: the disk of the service is full."""


class JobFailed(HyperplaneError):
    """A job ended without success; `job` is its last state."""

    def __init__(self, job: Any) -> None:
        self.job = job
        error = job.get("error") or {}
        self.code: str | None = error.get("code")
        self.param: str | None = error.get("param")
        super().__init__(error.get("message") or f"{job['id']} has {job['status']}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job,)


STATUS_ERRORS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    406: NotAcceptable,
    408: RequestTimeout,
    409: Conflict,
    412: PreconditionFailed,
    413: PayloadTooLarge,
    415: UnsupportedMediaType,
    416: RangeNotSatisfiable,
    422: UnprocessableEntity,
    423: Locked,
    429: RateLimited,
    503: ServiceUnavailable,
    507: InsufficientStorage,
}


def error_of(status: int, problem: Any, headers: Mapping[str, str]) -> ApiError:
    """Build the error of a response. A body that is not a problem document (of a proxy, say) becomes the detail."""
    document = problem if isinstance(problem, Mapping) else {"detail": f"HTTP {status}: {problem}"}
    kind = STATUS_ERRORS.get(status, ServerError if status >= 500 else ApiError)
    return kind(document, status, {name.lower(): value for name, value in headers.items()})
