"""`/ui/`: the files of the dashboard, from the package itself, with a strict content security policy.

Every link in the page is relative, so the dashboard works behind any path prefix. Files other than the page lie below a
folder named by their content, `/ui/<version>/…`, so browsers cache them without a time limit and never mix two
versions.
"""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from app.errors import NotFound
from app.ui import assets
from app.ui.assets import Asset

router = APIRouter(include_in_schema=False)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
FOR_GOOD = "public, max-age=31536000, immutable"
COMPRESSED_FROM = 512
"""Minimum bytes of a file that is sent compressed. Larger: more files are sent uncompressed. For smaller files the
additional headers cost more than compression saves. Set by hand."""


@router.api_route("/", methods=["GET", "HEAD"])
async def root(request: Request) -> Response:
    """Redirect a browser to the dashboard, and any other client to the documentation."""
    wants_page = "text/html" in request.headers.get("accept", "")
    return RedirectResponse("ui/" if wants_page else "docs")


@router.api_route("/ui", methods=["GET", "HEAD"])
async def without_slash() -> Response:
    return RedirectResponse("ui/")


@router.api_route("/ui/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    return _answer(request, assets.page(), "no-cache")


@router.api_route("/ui/sample.csv", methods=["GET", "HEAD"])
async def sample(request: Request) -> Response:
    """Get the example dataset of the first steps: 351 radar returns."""
    return _answer(request, assets.sample(), "no-cache")


@router.api_route("/ui/{version}/{name:path}", methods=["GET", "HEAD"])
async def asset(version: str, name: str, request: Request) -> Response:
    found = assets.file(name)
    if found is None:
        raise NotFound("There is no such file.")
    return _answer(request, found, FOR_GOOD if version == assets.version() else "no-cache")


def _answer(request: Request, found: Asset, caching: str) -> Response:
    headers = {**HEADERS, "Cache-Control": caching, "ETag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    content = found.content
    if "gzip" in request.headers.get("accept-encoding", "") and len(content) >= COMPRESSED_FROM:
        content = found.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=found.media_type)
