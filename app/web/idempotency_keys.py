"""SQL of idempotency keys. A row without a status is a claim of a running request. The claim expires if it is not
renewed."""

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import IdempotencyRow


def take(session: Session, caller: str, key: str, request_sha256: str, seconds: float) -> IdempotencyRow | None:
    """Claim a key. Returns None if the claim succeeded, else the row of the request that has the key.

    Waits for an open transaction that claims the same key. On PostgreSQL, the insert below waits for it.
    """
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    while True:
        now = current_time(session)
        session.execute(delete(IdempotencyRow).where(_is(caller, key), IdempotencyRow.expires_at <= now))
        claim = insert(IdempotencyRow).values(
            caller=caller,
            key=key,
            request_sha256=request_sha256,
            created_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        if session.execute(claim.on_conflict_do_nothing().returning(IdempotencyRow.key)).first() is not None:
            return None
        if earlier := session.scalar(
            select(IdempotencyRow).where(_is(caller, key))
        ):  # None if the key was just freed; then claim it again
            return earlier


def change(session: Session, caller: str, key: str, claimed_as: str, seconds: float, **values: Any) -> bool:
    """Update the claim `claimed_as` and extend it by `seconds`. Returns False if another request has taken the key
    over."""
    statement = (
        update(IdempotencyRow)
        .where(_is_claim(caller, key, claimed_as))
        .values(expires_at=current_time(session) + timedelta(seconds=seconds), **values)
        .returning(IdempotencyRow.key)
        .execution_options(synchronize_session=False)
    )
    return session.execute(statement).first() is not None


def give_up(session: Session, caller: str, key: str, claimed_as: str) -> None:
    session.execute(delete(IdempotencyRow).where(_is_claim(caller, key, claimed_as)))


def any_expired(session: Session) -> bool:
    expired = IdempotencyRow.expires_at <= current_time(session)
    return session.scalar(select(IdempotencyRow.key).where(expired).limit(1)) is not None


def delete_expired(session: Session) -> None:
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.expires_at <= current_time(session)))


def _is(caller: str, key: str) -> ColumnElement[bool]:
    return and_(IdempotencyRow.caller == caller, IdempotencyRow.key == key)


def _is_claim(caller: str, key: str, claimed_as: str) -> ColumnElement[bool]:
    return and_(_is(caller, key), IdempotencyRow.status.is_(None), IdempotencyRow.request_sha256 == claimed_as)
