"""A short-lived cache of the scopes of API keys and sessions. It keeps the SHA-256 of a token, never the token."""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from app.db.outages import DATABASE_ERRORS
from app.keys import service, session_store
from app.web.thread_rooms import KEYS, KNOWN_KEYS

log = logging.getLogger(__name__)

KEY_TRUST_SECONDS = 2.0
"""Seconds that a cached key is valid: a revoked key stops working after at most this time. Larger: fewer queries."""
RENEW_FROM = 0.5
"""Share of that time after which a key in use is renewed in the background, so that no request waits for it."""
LATE_LOOK_SECONDS = 10.0
"""Extra seconds that a cached key stays valid while its renewal is running: a locked database does not delay
predictions. Larger: a key that is revoked during such a delay works for longer."""
MAX_VALID_KEYS = 10_000
"""Maximum valid keys in the cache, about 400 bytes each. More keys in use cause more queries."""
MAX_REJECTED_TOKENS = 1_000
"""Maximum rejected tokens in the cache, 100 bytes each. Larger: a client that repeats many bad tokens costs less."""

Scopes = frozenset[str]


class _Valid(NamedTuple):
    scopes: Scopes
    renew_from: float
    until: float


class KeyCache:
    """The cache of one API process."""

    def __init__(self, authenticate: Callable[[str], Scopes | None]) -> None:
        self._authenticate = authenticate
        self._valid: OrderedDict[bytes, _Valid] = OrderedDict()
        self._rejected: OrderedDict[bytes, float] = OrderedDict()
        self._renewals: dict[bytes, asyncio.Task[None]] = {}

    async def scopes_of(self, token: str) -> Scopes | None:
        """Return the scopes that the token grants; None: it is not a valid key or session."""
        if not service.can_be_key(token) and not session_store.can_be_session(token):
            return None
        digest, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), time.monotonic()
        known = self._valid.get(digest)
        is_late = known is not None and digest in self._renewals and now < known.until + LATE_LOOK_SECONDS
        if known is not None and (now < known.until or is_late):
            if now >= known.renew_from and digest not in self._renewals:
                self._renewals[digest] = asyncio.create_task(self._renew(digest, token))
            return known.scopes
        if now < self._rejected.get(digest, 0.0):
            return None
        scopes = await KEYS.run(self._authenticate, token)
        self._remember(digest, scopes, now)
        return scopes

    async def _renew(self, digest: bytes, token: str) -> None:
        now = time.monotonic()
        try:
            self._remember(digest, await KNOWN_KEYS.run(self._authenticate, token), now)
        except DATABASE_ERRORS as error:  # cached answers expire; the next request then gets the error
            log.warning("could not renew an API key: %s", error)
        finally:
            del self._renewals[digest]

    def _remember(self, digest: bytes, scopes: Scopes | None, asked_at: float) -> None:
        until = asked_at + KEY_TRUST_SECONDS
        self._valid.pop(digest, None)
        self._rejected.pop(digest, None)
        if scopes is None:
            self._rejected[digest] = until
            _bound(self._rejected, MAX_REJECTED_TOKENS)
        else:
            self._valid[digest] = _Valid(scopes, asked_at + RENEW_FROM * KEY_TRUST_SECONDS, until)
            _bound(self._valid, MAX_VALID_KEYS)


def _bound(
    remembered: OrderedDict[bytes, object] | OrderedDict[bytes, float] | OrderedDict[bytes, _Valid], most: int
) -> None:
    while len(remembered) > most:
        remembered.popitem(last=False)
