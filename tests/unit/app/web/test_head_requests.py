"""HEAD on pages and health checks: answered as GET is, without the body; every other request passes as it came."""

import asyncio
from typing import Any

import pytest

from app.web.browser import HeadRequests


def asked(method: str, path: str, kind: str = "http") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The scope that the application sees, and what is sent to the client."""
    seen, sent = [], []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        assert await receive() == "from the client"
        heads = [(b"allow", b"GET"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": heads})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive() -> Any:
        return "from the client"

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "method": method, "path": path, "headers": []}
    asyncio.run(HeadRequests(application)(scope, receive, send))
    assert scope["method"] == method, "what stands outside keeps what it saw"
    (one,) = seen
    return one, sent


PAGES = ["/docs", "/openapi.json", "/openapi-3.0.json", "/livez", "/readyz", "/v2/health/live", "/v2/health/ready"]


@pytest.mark.parametrize("path", PAGES)
def test_head_is_get_without_the_body(path: str) -> None:
    scope, sent = asked("HEAD", path)
    assert (scope["method"], scope["path"]) == ("GET", path)
    assert [one.get("body") for one in sent] == [None, b""]
    assert sent[0]["headers"] == [(b"allow", b"GET"), (b"content-length", b"2")]


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/livez", "http"),
        ("HEAD", "/v1/uploads/up_1", "http"),
        ("POST", "/v1/jobs", "http"),
        ("HEAD", "/livez", "websocket"),
    ],
)
def test_other_requests_pass_as_they_came(method: str, path: str, kind: str) -> None:
    scope, sent = asked(method, path, kind)
    assert scope["method"] == method
    assert [one.get("body") for one in sent] == [None, b"ok"]
    assert sent[0]["headers"][0] == (b"allow", b"GET")


def test_a_refused_method_learns_of_head(monkeypatch: pytest.MonkeyPatch) -> None:
    scope, sent = asked("POST", "/livez")
    assert scope["method"] == "POST"
    assert sent[0]["headers"] == [(b"allow", b"GET, HEAD"), (b"content-length", b"2")]
    assert sent[1]["body"] == b"ok"
