"""API keys, of the form `key_….secret`. The part before the dot is the id of the row. Only the SHA-256 of the 256-bit
secret is stored."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Literal

from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import KeyRow
from app.errors import NotFound
from app.ids import is_id, new_id
from app.keys import repository

Scope = Literal["read", "write", "predict", "admin"]

MAX_TOKEN_LENGTH = 128
"""Maximum characters of a key. Longer tokens are rejected without a query. A key has 74: an id of 30, a dot and a
secret of 43; the rest is for longer secrets."""


def create(session: Session, name: str | None, scopes: Sequence[Scope]) -> str:
    """Create a key and return it. It cannot be shown again, because only its hash is stored."""
    secret = secrets.token_urlsafe(32)
    key = KeyRow(
        id=new_id("key"),
        name=name,
        secret_sha256=_digest(secret),
        scopes=list(scopes),
        created_at=current_time(session),
    )
    repository.insert(session, key)
    return f"{key.id}.{secret}"


def can_be_key(token: str) -> bool:
    """Return whether a token has the form of a key. Other tokens are rejected without a query."""
    return len(token) <= MAX_TOKEN_LENGTH and is_id("key", token.partition(".")[0])


def authenticate(session: Session, token: str) -> frozenset[str] | None:
    """Return the scopes that a token grants, or None if it is not a valid key."""
    key_id, _, secret = token.partition(".")
    key = repository.get_active(session, key_id) if is_id("key", key_id) else None
    expected = key.secret_sha256 if key else ""
    if not hmac.compare_digest(_digest(secret), expected) or key is None:
        return None
    return frozenset(key.scopes)


def any_active(session: Session) -> bool:
    return repository.any_active(session)


def list_all(session: Session) -> Sequence[KeyRow]:
    return repository.list_all(session)


def revoke(session: Session, key_id: str) -> None:
    key = repository.get_active(session, key_id) if is_id("key", key_id) else None
    if key is None:
        raise NotFound("There is no active key with this id; `hyperplane keys list` shows all keys.")
    key.revoked_at = current_time(session)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
