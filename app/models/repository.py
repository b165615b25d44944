"""The SQL of models."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.db.tables import ModelNameRow, ModelRow


def next_version(session: Session, name: str) -> int:
    """Count the name's versions up by one, atomically, also when two jobs finish at once."""
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement = (
        insert(ModelNameRow)
        .values(name=name, last_version=1)
        .on_conflict_do_update(index_elements=["name"], set_={"last_version": ModelNameRow.last_version + 1})
        .returning(ModelNameRow.last_version)
    )
    return session.execute(statement).scalar_one()


def insert(session: Session, model: ModelRow) -> None:
    session.add(model)
    session.flush()


def get(session: Session, model_id: str) -> ModelRow | None:
    return session.scalar(select(ModelRow).where(ModelRow.id == model_id, ModelRow.deleted_at.is_(None)))


def get_version(session: Session, name: str, version: int | None) -> ModelRow | None:
    """A version of a name, or its newest one; deleted ones do not count."""
    query = select(ModelRow).where(ModelRow.name == name, ModelRow.deleted_at.is_(None))
    if version is not None:
        query = query.where(ModelRow.version == version)
    return session.scalar(query.order_by(ModelRow.version.desc()).limit(1))


def list_newest(session: Session, limit: int, before_id: str | None, name: str | None) -> Sequence[ModelRow]:
    query = select(ModelRow).where(ModelRow.deleted_at.is_(None)).order_by(ModelRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(ModelRow.id < before_id)
    if name is not None:
        query = query.where(ModelRow.name == name)
    return session.scalars(query).all()
