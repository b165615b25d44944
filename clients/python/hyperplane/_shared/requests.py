"""Requests as data: what is sent, and whether it can be sent again."""

import json
import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from hyperplane._shared.errors import HyperplaneError, error_of
from hyperplane._shared.version import VERSION

__all__ = ["Address", "Request", "document_of", "failure_of", "id_of", "json_bytes", "path", "query"]

DEFAULT_URL = "http://127.0.0.1:8000"
SAFE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
CONDITIONS = frozenset({"If-Match", "If-None-Match"})
"""Headers of a change that succeeds only once: repeated after a lost answer, it would fail although it was made."""


@dataclass(frozen=True)
class Address:
    """URL and API key of the service, from arguments or from the environment."""

    url: str
    api_key: str | None = field(repr=False)

    @classmethod
    def of(cls, url: str | None, api_key: str | None) -> "Address":
        url = url or os.environ.get("HYPERPLANE_URL") or DEFAULT_URL
        if urlsplit(url).scheme not in ("http", "https"):
            raise HyperplaneError(f"{url!r} is not the URL of a service; it must begin with http:// or https://")
        return cls(url.rstrip("/"), api_key or os.environ.get("HYPERPLANE_API_KEY") or None)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        headers = {"User-Agent": f"hyperplane-client/{VERSION} python/{platform.python_version()}"}
        return headers | ({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {})

    @property
    def is_local(self) -> bool:
        """Whether the service is on this machine. A proxy from the environment is not used for it."""
        return urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")


@dataclass
class Request:
    """One request. `repeatable`: it has the same effect if the service receives it twice."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    repeatable: bool = False

    def __post_init__(self) -> None:
        self.headers = dict(self.headers)
        self.repeatable = self.repeatable or (self.method in SAFE_METHODS and not CONDITIONS & self.headers.keys())

    def once(self, key: str | None = None) -> "Request":
        """Make it repeatable by an idempotency key: the service executes it once, however often it arrives."""
        self.headers["Idempotency-Key"] = key or uuid.uuid4().hex
        self.repeatable = True
        return self

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `httpx.Client.request`."""
        content, headers = self.content, self.headers
        if self.json is not None:
            content = json_bytes(self.json)
            headers = {"Content-Type": "application/json", **headers}
        return {
            "method": self.method,
            "url": self.path,
            "params": query(self.params),
            "headers": headers,
            "content": content,
        }


def json_bytes(document: Any) -> bytes:
    """Write a JSON document. Numbers and arrays of numpy, times and paths are written as JSON's own types."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"), default=_as_json).encode()
    except ValueError as error:
        raise ValueError(f"{error}: JSON has no NaN and no infinity") from None


def _as_json(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def query(params: Mapping[str, Any]) -> dict[str, str]:
    """Convert query parameters to text: None is left out, lists are joined by commas, `labels` become
    `label.key=value`."""
    spelled: dict[str, str] = {}
    for name, value in params.items():
        if name == "labels":
            spelled |= {f"label.{key}": str(one) for key, one in (value or {}).items()}
        elif isinstance(value, bool):
            spelled[name] = "true" if value else "false"
        elif isinstance(value, list | tuple):
            spelled[name] = ",".join(map(str, value))
        elif value is not None:
            spelled[name] = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return spelled


def path(*parts: str) -> str:
    """Join the parts of a path. The characters `:` and `@` of references (`spam:3`, `spam@prod`) are not escaped."""
    return "/" + "/".join(quote(part, safe=":@") for part in parts)


def id_of(thing: Any) -> str:
    """Return the id of a dataset, job or model that is given as an answer or by its id or name."""
    return str(thing if isinstance(thing, str) else thing["id"])


def document_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer. Another answer is not of the service, but of a proxy or another server."""
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        kind = response.headers.get("Content-Type", "no content type")
        raise HyperplaneError(
            f"{response.request.method} {response.request.url} answered {response.status_code} with {kind} instead of "
            "a JSON object; is it the URL of a Hyperplane service?"
        )
    return found


def failure_of(response: httpx.Response) -> HyperplaneError:
    """Build the error of a response whose body has been read. A redirect is one: it would drop the body or the key."""
    if response.has_redirect_location:
        there = response.headers["Location"]
        return HyperplaneError(f"{response.request.url} redirects to {there}; give the client that URL")
    try:
        problem = response.json()
    except ValueError:
        problem = response.text[:500] or response.reason_phrase
    return error_of(response.status_code, problem, response.headers)
