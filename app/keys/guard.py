"""The gate in front of every route: request id, the body's size and pace, foreign origins, keys. Deny by default.

Open without a key: the health routes, and everything while no key exists and the service is bound
to loopback. Once a key exists it is asked for, on loopback too.
"""

import asyncio
import re
import time
import types
from collections.abc import Coroutine, Generator, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import LOOPBACK_HOSTS, Settings
from app.db import Database
from app.errors import (
    AppError,
    Forbidden,
    PayloadTooLarge,
    Unauthorized,
    Unparsable,
    problem_response,
)
from app.ids import new_id
from app.keys import service

OPEN_PATHS = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"})
UPLOADS = {"POST": re.compile(r"/v1/datasets"), "PATCH": re.compile(r"/v1/uploads/[^/]+")}
PREDICT_PATH = re.compile(
    r"/v1/models/[^/]+/(?:predict|invocations|explain)|/v1/jobs/[^/]+/predict|/v2/models/[^/]+(?:/versions/[^/]+)?/infer"
)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
REQUEST_ID = b"x-request-id"

Headers = Mapping[bytes, bytes]

# How long an answer about a key is believed: a revoked key stops working after at most this.
KEY_TRUST_SECONDS = 2.0
MAX_REMEMBERED_KEYS = 10_000


class Guard:
    """ASGI middleware; a refusal never reaches the application."""

    def __init__(self, app: ASGIApp, settings: Settings, database: Database) -> None:
        self._app = app
        self._settings = settings
        self._database = database
        self._scopes: dict[str, tuple[float, frozenset[str] | None]] = {}
        self._on_loopback = settings.bound_to_loopback
        self._open: tuple[float, bool] = (0.0, False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id("req")
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (REQUEST_ID, request_id.encode())]
            await send(message)

        headers = dict(reversed(list(scope["headers"])))  # the first of a name; servers give names in small letters
        limit = self._settings.max_upload_bytes if _is_upload(scope) else self._settings.max_json_bytes
        try:
            _check_length(headers, limit)
            if self._on_loopback:
                _check_host(headers.get(b"host", b""))
            _check_origin(scope, headers)
            trusted_until, is_open = self._open
            if not is_open or time.monotonic() >= trusted_until:
                await self._check_key(scope, headers)
        except AppError as error:
            await problem_response(error, request_id)(scope, receive, send_with_id)
            return
        await self._app(scope, _limited(receive, limit, self._settings), send_with_id)

    async def _check_key(self, scope: Scope, headers: Headers) -> None:
        if scope["path"] in OPEN_PATHS or await self._is_open():
            return
        challenge = {"WWW-Authenticate": 'Bearer realm="hyperplane"'}
        kind, _, token = _text(headers.get(b"authorization", b"")).partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Unauthorized("Send an API key: Authorization: Bearer key_….secret", headers=challenge)
        granted = await self._granted(token.strip())
        if granted is None:
            raise Unauthorized("The API key is not valid.", headers=challenge)
        needed = _needed_scope(scope)
        scope["state"]["caller"] = token.partition(".")[0].strip()
        if needed not in granted and "admin" not in granted:
            raise Forbidden(f"The API key lacks the scope '{needed}'.", code="missing_scope")

    async def _is_open(self) -> bool:
        if not self._on_loopback:
            return False
        trusted_until, is_open = self._open
        if time.monotonic() >= trusted_until:
            is_open = not await run_in_threadpool(self._any_key)
            self._open = (time.monotonic() + KEY_TRUST_SECONDS, is_open)
        return is_open

    async def _granted(self, token: str) -> frozenset[str] | None:
        trusted_until, granted = self._scopes.get(token, (0.0, None))
        if time.monotonic() >= trusted_until:
            granted = await run_in_threadpool(self._authenticate, token)
            if len(self._scopes) >= MAX_REMEMBERED_KEYS:
                self._scopes.clear()
            self._scopes[token] = (time.monotonic() + KEY_TRUST_SECONDS, granted)
        return granted

    def _any_key(self) -> bool:
        with self._database.read() as session:
            return service.any_active(session)

    def _authenticate(self, token: str) -> frozenset[str] | None:
        with self._database.read() as session:
            return service.authenticate(session, token)


def _needed_scope(scope: Scope) -> str:
    if scope["method"] == "POST" and PREDICT_PATH.fullmatch(scope["path"]):
        return "predict"
    return "read" if scope["method"] in SAFE_METHODS else "write"


def _is_upload(scope: Scope) -> bool:
    path = UPLOADS.get(scope["method"])
    return path is not None and path.fullmatch(scope["path"]) is not None


@lru_cache(maxsize=256)  # the same few names with every request
def _check_host(host: bytes) -> None:
    """On loopback only loopback's names are answered: a page that rebinds its own name to us is not."""
    if _split("Host", b"//" + host).hostname not in (*LOOPBACK_HOSTS, None):
        raise Forbidden("This service answers on loopback only; the Host header names another host.")


def _check_origin(scope: Scope, headers: Headers) -> None:
    """A browser on a foreign page may not change anything here, key or not."""
    if scope["method"] in SAFE_METHODS:
        return
    origin = headers.get(b"origin")
    foreign = origin is not None and _split("Origin", origin).netloc.lower() != _text(headers.get(b"host", b"")).lower()
    if foreign or headers.get(b"sec-fetch-site", b"").lower() == b"cross-site":
        raise Forbidden("A change from a foreign origin is refused.", code="foreign_origin")


def _check_length(headers: Headers, limit: int) -> None:
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:30]) > limit:
        raise PayloadTooLarge(f"The body may have {limit} bytes.")


def _split(header: str, address: bytes) -> SplitResult:
    try:
        return urlsplit(_text(address))
    except ValueError:
        raise Unparsable(f"The {header} header is not an address.") from None


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _limited(receive: Receive, limit: int, settings: Settings) -> Receive:
    """Count the bytes that really arrive (a chunked body says no length), and do not wait for ever for the next.

    Only the time that we wait for the client counts: a slow disk of ours is not its fault.
    """
    patience, rate = settings.body_patience_seconds, settings.body_bytes_per_second
    received, waited, complete = 0, 0.0, False

    async def counted() -> MutableMapping[str, Any]:
        nonlocal received, waited, complete
        if complete:  # what still comes is the news that the client is gone, and that may take long
            return await receive()
        began = time.monotonic()
        try:
            message = await _in_time(receive, min(patience, patience + received / rate - waited))
        except TimeoutError:
            detail = f"The body came too slowly: at least {rate:g} bytes a second, no pause of {patience:g} s."
            raise HTTPException(408, detail, {"Connection": "close"}) from None
        waited += time.monotonic() - began
        received += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if received > limit:
            raise HTTPException(413, f"The body may have {limit} bytes.")
        return message

    return counted


async def _in_time(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    """The next message; TimeoutError if it takes too long. Most are there already, and then no timer is set."""
    receiving = cast(Coroutine[Any, Any, MutableMapping[str, Any]], receive())
    try:
        blocker = receiving.send(None)
    except StopIteration as ended:
        message: MutableMapping[str, Any] = ended.value
        return message
    async with asyncio.timeout(seconds):
        return await _resumed(receiving, blocker)


@types.coroutine
def _resumed(
    started: Coroutine[Any, Any, MutableMapping[str, Any]], blocker: Any
) -> Generator[Any, Any, MutableMapping[str, Any]]:
    """Go on, as `await` would, with a coroutine that was started and waits for `blocker`."""
    try:
        while True:
            try:
                sent = yield blocker
            except BaseException as error:
                blocker = started.throw(error)
            else:
                blocker = started.send(sent)
    except StopIteration as ended:
        message: MutableMapping[str, Any] = ended.value
        return message
