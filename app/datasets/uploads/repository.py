"""SQL of resumable uploads."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import delete as sql_delete
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import UploadRow


def insert(session: Session, upload: UploadRow) -> None:
    session.add(upload)
    session.flush()


def get(session: Session, upload_id: str) -> UploadRow | None:
    return session.get(UploadRow, upload_id)


def change(session: Session, upload_id: str, **values: Any) -> bool:
    """Update an upload and reset its idle time. Returns False if the upload is deleted."""
    statement = (
        update(UploadRow)
        .where(UploadRow.id == upload_id)
        .values(updated_at=current_time(session), **values)
        .returning(UploadRow.id)
        .execution_options(synchronize_session=False)
    )
    return session.execute(statement).first() is not None


def delete(session: Session, upload_id: str) -> bool:
    statement = sql_delete(UploadRow).where(UploadRow.id == upload_id).returning(UploadRow.id)
    return session.execute(statement).first() is not None


def idle(session: Session, seconds: float) -> Sequence[str]:
    """List the ids of uploads that have received no bytes for `seconds` seconds."""
    limit = current_time(session) - timedelta(seconds=seconds)
    return session.scalars(select(UploadRow.id).where(UploadRow.updated_at < limit)).all()


def known_among(session: Session, upload_ids: Sequence[str]) -> set[str]:
    return set(session.scalars(select(UploadRow.id).where(UploadRow.id.in_(upload_ids))))
