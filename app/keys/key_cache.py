"""A short-lived cache of the scopes of API keys and sessions. It stores the SHA-256 of a token, never the token."""

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
"""Seconds that a cached key is valid. A revoked key stops working after at most this time. Larger: fewer queries, later
revocation. Set by hand; no measurement is recorded."""
RENEW_FROM = 0.5
"""Share of KEY_TRUST_SECONDS after which a key in use is renewed in the background, so that no request waits for the
query. Larger: fewer queries, and less time for a renewal. Set by hand; no measurement is recorded."""
LATE_LOOK_SECONDS = 10.0
"""Extra seconds that a cached key stays valid while its renewal is running, so that a locked database does not delay
predictions. Larger: a key that is revoked during such a delay works for longer. Set by hand; no measurement is
recorded."""
MAX_VALID_KEYS = 10_000
"""Maximum number of valid keys in the cache, about 400 bytes each. Larger: fewer queries if many keys are in use, more
memory. Set by hand; no measurement is recorded."""
MAX_REJECTED_TOKENS = 1_000
"""Maximum number of rejected tokens in the cache, about 100 bytes each. Larger: fewer queries if a client repeats many
invalid tokens, more memory. Set by hand; no measurement is recorded."""

Scopes = frozenset[str]


class _Valid(NamedTuple):
    scopes: Scopes
    renew_from: float
    until: float


class KeyCache:
    """Caches the scopes of tokens for one API process, and renews those in use in the background."""

    def __init__(self, authenticate: Callable[[str], Scopes | None]) -> None:
        self._authenticate = authenticate
        self._valid: OrderedDict[bytes, _Valid] = OrderedDict()
        self._rejected: OrderedDict[bytes, float] = OrderedDict()
        self._renewals: dict[bytes, asyncio.Task[None]] = {}

    async def scopes_of(self, token: str) -> Scopes | None:
        """Return the scopes that a token grants, or None if it is not a valid key or session."""
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
        except DATABASE_ERRORS as error:  # the cached key expires, and the next request raises the error
            log.warning("renewing a cached API key failed: %s", error)
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
