"""Sessions of signed-in browsers. A session token is `ses_….secret`, is stored in a cookie, and is valid only while its
API key is.

The database has only the SHA-256 of the secret. Any API process can check a session, but a copy of the database does
not contain a valid token. The CSRF token is derived from the secret. A page of another origin cannot read the cookie,
so it cannot compute the CSRF token.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import KeyRow, SessionRow
from app.ids import is_id, new_id
from app.keys import service

COOKIE = "hyperplane_session"
CSRF_HEADER = "X-CSRF-Token"
SESSION_SECONDS = 12 * 3600
"""Seconds that a session lasts. Larger: fewer sign-ins, and a stolen cookie works for longer. Set by hand to a working
day."""


@dataclass(frozen=True)
class SignedIn:
    """A valid session or key: its id, its scopes and its expiry."""

    key_id: str
    scopes: frozenset[str]
    expires_at: datetime | None = None


def can_be_session(token: str) -> bool:
    """Return whether a token has the form of a session token. Other tokens are rejected without a query."""
    return len(token) <= service.MAX_TOKEN_LENGTH and is_id("ses", token.partition(".")[0])


def open_session(session: Session, key_token: str) -> str | None:
    """Create a session for a key. Returns its token, or None if the key is not valid. Deletes expired sessions."""
    if not service.can_be_key(key_token) or service.authenticate(session, key_token) is None:
        return None
    now = current_time(session)
    session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
    secret = secrets.token_urlsafe(32)
    row = SessionRow(
        id=new_id("ses"),
        key_id=key_token.partition(".")[0],
        secret_sha256=_digest(secret),
        created_at=now,
        expires_at=now + timedelta(seconds=SESSION_SECONDS),
    )
    session.add(row)
    session.flush()
    return f"{row.id}.{secret}"


def close_session(session: Session, token: str) -> None:
    """End a session in all API processes. An invalid token is ignored."""
    if find(session, token) is not None:
        session.execute(delete(SessionRow).where(SessionRow.id == token.partition(".")[0]))


def find(session: Session, token: str) -> SignedIn | None:
    """Return the session of a token with the scopes of its key, or None if the session or the key is not valid."""
    session_id, _, secret = token.partition(".")
    if not can_be_session(token):
        return None
    now = current_time(session)
    query = (
        select(SessionRow.secret_sha256, SessionRow.expires_at, KeyRow.id, KeyRow.scopes)
        .join(KeyRow, KeyRow.id == SessionRow.key_id)
        .where(SessionRow.id == session_id, SessionRow.expires_at > now, KeyRow.revoked_at.is_(None))
    )
    row = session.execute(query).first()
    if row is None or not hmac.compare_digest(_digest(secret), row.secret_sha256):
        return None
    return SignedIn(row.id, frozenset(row.scopes), row.expires_at)


def authenticate(session: Session, token: str) -> frozenset[str] | None:
    """Return the scopes that a key or a session token grants, or None if the token is not valid."""
    if not can_be_session(token):
        return service.authenticate(session, token)
    signed_in = find(session, token)
    return signed_in.scopes if signed_in is not None else None


def csrf_token(token: str) -> str:
    """Return the CSRF token of a session, which a page must send with every change that the cookie authorizes."""
    return hmac.new(token.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest()


def is_csrf_token(token: str, sent: str) -> bool:
    return hmac.compare_digest(csrf_token(token).encode(), sent.encode("utf-8", "surrogatepass"))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
