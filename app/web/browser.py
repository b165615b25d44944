"""What browsers and monitors ask for: the documentation page with its content security policy, and HEAD."""

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATHS_WITH_HEAD = frozenset({"/", "/docs", "/openapi.json", "/livez", "/readyz", "/v2/health/live", "/v2/health/ready"})
"""GET routes that also answer HEAD: health checks and pages. FastAPI's routes do not by themselves."""
INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class HeadRequests:
    """ASGI middleware: HEAD is answered as GET is, without the body."""

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


def add_docs(app: FastAPI) -> None:
    """Swagger UI from files of an installed package: it works without the internet."""
    app.mount("/docs/assets", StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs-assets")

    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Hyperplane API",
        swagger_js_url="/docs/assets/swagger-ui-bundle.js",
        swagger_css_url="/docs/assets/swagger-ui.css",
        swagger_favicon_url="/docs/assets/favicon.png",
    )
    page.headers["Content-Security-Policy"] = _content_policy(bytes(page.body).decode())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page

    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("/docs")


def _content_policy(page: str) -> str:
    """A Content-Security-Policy for a page of our own: its own scripts, by their hash, and files of this server."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in INLINE_SCRIPT.findall(page))
    scripts = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes)
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
