"""Pages for browsers (API documentation, error codes) with their content security policy, HEAD for monitors, and path
prefixes of proxies."""

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.error_codes import ERRORS_PAGE, GROUPS
from app.web.api_document_30 import as_version_30

OLDER_DOCUMENT = "/openapi-3.0.json"
PATHS_WITH_HEAD = frozenset(
    {"/docs", ERRORS_PAGE, "/openapi.json", OLDER_DOCUMENT, "/livez", "/readyz", "/v2/health/live", "/v2/health/ready"}
)
"""Paths of GET routes that also accept HEAD: health checks and pages. FastAPI does not add HEAD to GET routes."""
INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class HeadRequests:
    """ASGI middleware that responds to HEAD as to GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in PATHS_WITH_HEAD or scope["method"] == "GET":
            await self._app(scope, receive, send)
        elif scope["method"] == "HEAD":

            async def send_head(message: Message) -> None:
                await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

            await self._app({**scope, "method": "GET"}, receive, send_head)
        else:

            async def send_allowing(message: Message) -> None:
                if message["type"] == "http.response.start":
                    heads = [(name, b"GET, HEAD" if name == b"allow" else value) for name, value in message["headers"]]
                    message = {**message, "headers": heads}
                await send(message)

            await self._app(scope, receive, send_allowing)


class PathPrefix:
    """ASGI middleware that strips a path prefix. Paths without the prefix are served, too, because health checks do not
    pass the proxy."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{self._prefix}/"):
            stripped = {"path": scope["path"].removeprefix(self._prefix)}
            if (raw := scope.get("raw_path")) is not None:
                stripped["raw_path"] = raw.removeprefix(self._prefix.encode())
            scope = {**scope, **stripped}
        await self._app(scope, receive, send)


def add_docs(app: FastAPI) -> None:
    """Add the pages `/docs` (Swagger UI from an installed package, so it works offline) and `/docs/errors`, and the
    OpenAPI document in version 3.0."""
    app.mount("/docs/assets", StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs-assets")

    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Hyperplane API",
        swagger_js_url="docs/assets/swagger-ui-bundle.js",
        swagger_css_url="docs/assets/swagger-ui.css",
        swagger_favicon_url="docs/assets/favicon.png",
    )
    page.headers["Content-Security-Policy"] = _content_policy(bytes(page.body).decode())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page

    @app.get(OLDER_DOCUMENT, include_in_schema=False)
    def openapi_30() -> JSONResponse:
        return JSONResponse(as_version_30(app.openapi()))

    errors_page = "".join(_errors_page())
    errors_policy = {"Content-Security-Policy": _content_policy(errors_page)}

    @app.get(ERRORS_PAGE, include_in_schema=False)
    async def errors() -> HTMLResponse:
        return HTMLResponse(errors_page, headers=errors_policy)


def _errors_page() -> Iterator[str]:
    """Yield the parts of the page of error codes, to which the `type` of every problem document links."""
    yield (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Hyperplane error codes</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
        ":target{background:#fff3bf}h3{margin:1.5rem 0 0}p{margin:.2rem 0}</style><h1>Error codes</h1>"
    )
    for name, entries in GROUPS.items():
        yield f"<h2>{escape(name)}</h2>"
        for entry in entries:
            statuses = " or ".join(str(status) for status in entry.statuses)
            yield f"<h3 id={entry.code}><code>{entry.code}</code> {statuses}</h3><p><b>{escape(entry.title)}.</b> "
            yield f"{escape(entry.meaning)}</p><p>{escape(entry.cure)}</p>"


def _content_policy(page: str) -> str:
    """Return the Content-Security-Policy of a page. It allows the page's inline scripts, by hash, and files of this
    server."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in INLINE_SCRIPT.findall(page))
    scripts = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes)
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
