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

from hyperplane._shared.errors import ApiError, HyperplaneError, error_of
from hyperplane._shared.version import VERSION

__all__ = ["Address", "Request", "failure_of", "id_of", "path", "query"]

DEFAULT_URL = "http://127.0.0.1:8000"
SAFE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})


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

    def options(self, timeout: float) -> dict[str, Any]:
        """Return the options of the HTTP client. A proxy from the environment is not used for a service on this
        machine."""
        headers = {"User-Agent": f"hyperplane-client/{VERSION} python/{platform.python_version()}"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        is_local = urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")
        return {"base_url": self.url, "headers": headers, "timeout": timeout, "trust_env": not is_local}


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
        self.repeatable = self.repeatable or (self.method in SAFE_METHODS and "If-Match" not in self.headers)

    def once(self, key: str | None = None) -> "Request":
        """Make it repeatable by an idempotency key: the service executes it once, however often it arrives."""
        self.headers["Idempotency-Key"] = key or uuid.uuid4().hex
        self.repeatable = True
        return self

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `httpx.Client.request`."""
        content, headers = self.content, self.headers
        if self.json is not None:
            content = json.dumps(self.json, allow_nan=False, separators=(",", ":")).encode()
            headers = {"Content-Type": "application/json", **headers}
        return {
            "method": self.method,
            "url": self.path,
            "params": query(self.params),
            "headers": headers,
            "content": content,
        }


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


def failure_of(response: httpx.Response) -> ApiError:
    """Build the error of a response whose body has been read."""
    try:
        problem = response.json()
    except ValueError:
        problem = response.text[:500] or response.reason_phrase
    return error_of(response.status_code, problem, response.headers)
