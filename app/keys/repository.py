"""SQL of API keys."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.tables import KeyRow


def insert(session: Session, key: KeyRow) -> None:
    session.add(key)
    session.flush()


def get_active(session: Session, key_id: str) -> KeyRow | None:
    return session.scalar(select(KeyRow).where(KeyRow.id == key_id, KeyRow.revoked_at.is_(None)))


def any_active(session: Session) -> bool:
    return session.scalar(select(KeyRow.id).where(KeyRow.revoked_at.is_(None)).limit(1)) is not None


def list_all(session: Session) -> Sequence[KeyRow]:
    return session.scalars(select(KeyRow).order_by(KeyRow.id)).all()
