"""What API keys and sessions grant, remembered for a short time. Only the SHA-256 of a token is kept."""

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
"""Seconds that an answer about a key is believed: a revoked key stops working after at most this. Larger: fewer looks
at the database."""
RENEW_FROM = 0.5
"""Share of that time after which a key in use is looked up again, so that its requests never wait for it."""
LATE_LOOK_SECONDS = 10.0
"""Seconds that a key is believed beyond its time while a look that began within it has not ended: a locked database
does not hold up predictions. Larger: a key that is revoked just then works for longer."""
MAX_VALID_KEYS = 10_000
"""Valid keys that are remembered, about 400 bytes each."""
MAX_REJECTED_TOKENS = 1_000
"""Rejected tokens that are remembered, 100 bytes each. Larger: a client that repeats many bad tokens costs less."""

Scopes = frozenset[str]


class _Valid(NamedTuple):
    scopes: Scopes
    renew_from: float
    until: float


class KeyCache:
    """Answers from memory where it can. One for each API process."""

    def __init__(self, authenticate: Callable[[str], Scopes | None]) -> None:
        self._authenticate = authenticate
        self._valid: OrderedDict[bytes, _Valid] = OrderedDict()
        self._rejected: OrderedDict[bytes, float] = OrderedDict()
        self._renewals: dict[bytes, asyncio.Task[None]] = {}

    async def scopes_of(self, token: str) -> Scopes | None:
        """What the token grants; None: it is no valid key."""
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
            log.warning("API keys are not looked up: %s", error)
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
