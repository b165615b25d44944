"""`/ui/`: the files of the dashboard, from the package itself, with a strict content security policy.

Every link in the page is relative, so the dashboard works behind any path prefix. Files other than the page lie below a
folder named by their content, `/ui/<version>/…`, so browsers keep them for good and never mix two versions.
"""

import gzip
import hashlib
import mimetypes
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from app.errors import NotFound

router = APIRouter(include_in_schema=False)

STATIC = Path(str(files("app.ui") / "static"))
SAMPLE = Path(str(files("app") / "examples" / "ionosphere.csv"))
PAGE = "index.html"
FOLDER = "assets/"
"""Path of the page's files in its source. The server replaces it by one with the version, so that files can be
cached."""
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
"""Least bytes of a file that is sent compressed. Below it, the additional headers cost more than compression saves."""
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


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
    return _answer(request, _page(_newest_change()), "no-cache")


@router.api_route("/ui/sample.csv", methods=["GET", "HEAD"])
async def sample(request: Request) -> Response:
    """Get the example dataset of the first steps: 351 radar returns."""
    return _answer(request, _asset(SAMPLE, SAMPLE.stat().st_mtime_ns), "no-cache")


@router.api_route("/ui/{version}/{name:path}", methods=["GET", "HEAD"])
async def asset(version: str, name: str, request: Request) -> Response:
    path = STATIC / name
    if name not in _names(_newest_change()):
        raise NotFound("There is no such file.")
    is_current = version == _version(_newest_change())
    return _answer(request, _asset(path, path.stat().st_mtime_ns), FOR_GOOD if is_current else "no-cache")


def _answer(request: Request, found: Asset, caching: str) -> Response:
    headers = {**HEADERS, "Cache-Control": caching, "ETag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    content = found.content
    if "gzip" in request.headers.get("accept-encoding", "") and len(content) >= COMPRESSED_FROM:
        content = found.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=found.media_type)


def _newest_change() -> int:
    """Return the time of the last change of any file of the dashboard. A newer time invalidates the cached files."""
    return max(path.stat().st_mtime_ns for path in STATIC.rglob("*"))


@lru_cache(maxsize=1)
def _names(_changed: int) -> frozenset[str]:
    return frozenset(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())


@lru_cache(maxsize=1)
def _version(changed: int) -> str:
    digest = hashlib.sha256()
    for name in sorted(_names(changed)):
        digest.update(name.encode() + b"\0" + (STATIC / name).read_bytes())
    return digest.hexdigest()[:12]


@lru_cache(maxsize=1)
def _page(changed: int) -> Asset:
    """Return the page with its version, and a preload hint for every module, so that all load at the same time."""
    modules = sorted(name for name in _names(changed) if name.endswith(".js") and not name.startswith("vendor/uPlot"))
    hints = "\n".join(f'<link rel="modulepreload" href="{FOLDER}{name}">' for name in modules)
    source = (STATIC / PAGE).read_text().replace("<!-- modules -->", hints)
    return _made(source.replace(f'"{FOLDER}', f'"{_version(changed)}/').encode(), "text/html")


@lru_cache(maxsize=256)
def _asset(path: Path, _changed: int) -> Asset:
    media_type = MEDIA_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"
    return _made(path.read_bytes(), media_type)


def _made(content: bytes, media_type: str) -> Asset:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, gzip.compress(content, 9, mtime=0), media_type, etag)
