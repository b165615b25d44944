"""The guard in front of every route: sets request ids, limits bodies, refuses foreign origins and checks API keys.

The guard denies by default. The health routes, the files of the dashboard and sign-in need no key. While no key exists
and the service is bound to loopback, no request needs a key. Once a key exists, every other request needs one, on
loopback too. The key is sent in a header. A browser can send the cookie of a session instead; its changes also need the
CSRF token of the session.
"""

import asyncio
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import LOOPBACK_HOSTS, Settings
from app.db import Database
from app.errors import (
    AppError,
    Forbidden,
    PayloadTooLarge,
    Unauthorized,
    Unavailable,
    Unparsable,
    problem_response,
)
from app.ids import new_id
from app.keys import key_cache, service, session_store
from app.keys.key_cache import KeyCache, Scopes
from app.web.bodies import Body, BodyRoom
from app.web.thread_rooms import KEYS

OPEN_PATHS = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"})
OPEN_PAGES = ("/ui/",)
"""Path prefixes that need no key: the files of the dashboard, which contain no secrets and which a browser loads before
sign-in."""
OPEN_REDIRECTS = frozenset({"/", "/ui"})
SESSION_PATH = "/v1/session"
UPLOADS = {"POST": re.compile(r"/v1/datasets"), "PATCH": re.compile(r"/v1/uploads/[^/]+")}
PREDICT_PATH = re.compile(
    r"/v1/models/[^/]+/(?:predict|invocations|explain)|/v1/jobs/[^/]+/predict|/v2/models/[^/]+(?:/versions/[^/]+)?/infer"
)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
REQUEST_ID = b"x-request-id"

Headers = Mapping[bytes, bytes]

STOPPING = (
    "The service is stopping and did not wait for this request. Check whether the change was stored, or send "
    "the request again with the same Idempotency-Key."
)
MAX_HOST_BYTES = 300
"""Number of bytes of a Host header that are checked. Larger: a larger cache of checked hosts. A host name has at most
253 bytes, plus a port."""


class Guard:
    """ASGI middleware that checks every request. A refused request does not reach the application."""

    def __init__(self, app: ASGIApp, settings: Settings, database: Database) -> None:
        self._app = app
        self._settings = settings
        self._database = database
        self._keys = KeyCache(self._authenticate)
        most_bytes = max(settings.max_body_memory_bytes, settings.max_json_bytes)
        self._predict_bodies, self._other_bodies = BodyRoom(most_bytes), BodyRoom(most_bytes)
        self._on_loopback = settings.bound_to_loopback
        self._open: tuple[float, bool] = (0.0, False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id("req")
        scope.setdefault("state", {})["request_id"] = request_id

        has_begun = False

        async def send_with_id(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], (REQUEST_ID, request_id.encode())]
            await send(message)

        # the first of several headers with one name wins; ASGI header names are lower case
        headers = dict(reversed(list(scope["headers"])))
        is_upload = _is_upload(scope)
        limit = self._settings.max_upload_bytes if is_upload else self._settings.max_json_bytes
        try:
            _check_length(headers, limit, "HYPERPLANE_MAX_UPLOAD_BYTES" if is_upload else "HYPERPLANE_MAX_JSON_BYTES")
            if self._on_loopback:
                _check_host(headers.get(b"host", b"")[:MAX_HOST_BYTES])
            _check_origin(scope, headers)
            trusted_until, is_open = self._open
            if not is_open or time.monotonic() >= trusted_until:
                await self._check_key(scope, headers)
        except AppError as error:
            await problem_response(error, request_id)(scope, receive, send_with_id)
            return
        room = None if is_upload else self._predict_bodies if _is_predict(scope) else self._other_bodies
        body = Body(receive, limit, self._settings, room)
        try:
            await self._app(scope, body.receive, send_with_id)
        except asyncio.CancelledError:  # the server is stopping and has waited long enough
            if has_begun:
                raise
            await problem_response(Unavailable(STOPPING, code="stopping"), request_id)(scope, receive, send_with_id)
        finally:
            body.release()

    async def _check_key(self, scope: Scope, headers: Headers) -> None:
        if _needs_no_key(scope) or await self._is_open():
            return
        challenge = {"WWW-Authenticate": 'Bearer realm="hyperplane"'}
        kind, _, token = _text(headers.get(b"authorization", b"")).partition(" ")
        by_cookie = b"authorization" not in headers
        if by_cookie:
            kind, token = "bearer", _session_cookie(headers)
        if kind.lower() != "bearer" or not token:
            raise Unauthorized(
                "An API key is needed; send the header Authorization: Bearer key_….secret", headers=challenge
            )
        granted = await self._keys.scopes_of(token.strip())
        if granted is None or by_cookie is not session_store.can_be_session(token):
            detail = "The session has ended; sign in again." if by_cookie else "The API key is unknown or revoked."
            raise Unauthorized(detail, headers=challenge)
        if by_cookie and scope["method"] not in SAFE_METHODS:
            _check_csrf(headers, token)
        if scope["path"] == SESSION_PATH:
            return  # a session of any scope can end itself
        needed = _needed_scope(scope)
        scope["state"]["caller"] = token.partition(".")[0].strip()
        if needed not in granted and "admin" not in granted:
            detail = f"The API key lacks the scope '{needed}'; use a key with it, or an admin key."
            raise Forbidden(detail, code="missing_scope")

    async def _is_open(self) -> bool:
        if not self._on_loopback:
            return False
        trusted_until, is_open = self._open
        if time.monotonic() >= trusted_until:
            is_open = not await KEYS.run(self._any_key)
            self._open = (time.monotonic() + key_cache.KEY_TRUST_SECONDS, is_open)
        return is_open

    def _any_key(self) -> bool:
        with self._database.reserved_read() as session:
            return service.any_active(session)

    def _authenticate(self, token: str) -> Scopes | None:
        with self._database.reserved_read() as session:
            return session_store.authenticate(session, token)


def _needs_no_key(scope: Scope) -> bool:
    path, reads = scope["path"], scope["method"] in SAFE_METHODS
    if path == SESSION_PATH:
        return reads or scope["method"] == "POST"
    return path in OPEN_PATHS or (reads and (path in OPEN_REDIRECTS or path.startswith(OPEN_PAGES)))


def _session_cookie(headers: Headers) -> str:
    """Return the session token in the cookie, or an empty string."""
    for pair in _text(headers.get(b"cookie", b"")).split(";"):
        name, _, value = pair.strip().partition("=")
        if name == session_store.COOKIE:
            return value.strip('"')
    return ""


def _check_csrf(headers: Headers, token: str) -> None:
    """Raise Forbidden if the CSRF token is missing or wrong. Browsers send a cookie with requests of any page, but only
    pages of this service can read the token."""
    sent = _text(headers.get(session_store.CSRF_HEADER.lower().encode(), b""))
    if not session_store.is_csrf_token(token, sent):
        detail = f"A change by cookie needs the header {session_store.CSRF_HEADER}; GET /v1/session has its value."
        raise Forbidden(detail, code="csrf_token_missing")


def _needed_scope(scope: Scope) -> str:
    if _is_predict(scope):
        return "predict"
    return "read" if scope["method"] in SAFE_METHODS else "write"


def _is_predict(scope: Scope) -> bool:
    return scope["method"] == "POST" and PREDICT_PATH.fullmatch(scope["path"]) is not None


def _is_upload(scope: Scope) -> bool:
    path = UPLOADS.get(scope["method"])
    return path is not None and path.fullmatch(scope["path"]) is not None


@lru_cache(maxsize=256)  # most requests have one of a few hosts
def _check_host(host: bytes) -> None:
    """Raise Forbidden if the Host header is not a name of loopback. This prevents DNS rebinding by web pages."""
    if _split("Host", b"//" + host).hostname not in (*LOOPBACK_HOSTS, None):
        detail = "The service is bound to loopback, and the Host header names another host; use 127.0.0.1 or localhost."
        raise Forbidden(detail)


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Raise Forbidden for a change that a browser sends from a page of another origin, with or without a key."""
    if scope["method"] in SAFE_METHODS:
        return
    origin = headers.get(b"origin")
    foreign = origin is not None and _split("Origin", origin).netloc.lower() != _text(headers.get(b"host", b"")).lower()
    if foreign or headers.get(b"sec-fetch-site", b"").lower() == b"cross-site":
        detail = "A page of another origin cannot change anything; use a page of this service or a program."
        raise Forbidden(detail, code="foreign_origin")


def _check_length(headers: Headers, limit: int, setting: str) -> None:
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:30]) > limit:
        raise PayloadTooLarge(f"The body has {int(length[:30])} bytes; the limit is {limit} ({setting}).")


def _split(header: str, address: bytes) -> SplitResult:
    try:
        return urlsplit(_text(address))
    except ValueError:
        raise Unparsable(f"The {header} header is not a valid address; correct or omit it.") from None


def _text(value: bytes) -> str:
    return value.decode("latin-1")
