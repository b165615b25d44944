"""The SQL of models."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Executable, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from app.db.queries import newest
from app.db.tables import ModelNameRow, ModelRow


class Location(NamedTuple):
    """Where a version's file is: all that predict has to ask the database for."""

    id: str
    name: str
    version: int
    blob: str


class Filters(NamedTuple):
    """Which models a list is of; null: any."""

    name: str | None = None
    task: str | None = None
    created_after: datetime | None = None
    deleted: bool = False


NO_FILTERS = Filters()

_ALIVE = select(ModelRow).where(ModelRow.deleted_at.is_(None))

# Built once: predict by name runs one of these a request, and building them took longer than running them.
_LOCATIONS = _ALIVE.with_only_columns(ModelRow.id, ModelRow.name, ModelRow.version, ModelRow.blob)
_BY_ID = _LOCATIONS.where(ModelRow.id == bindparam("id"))
_BY_NAME = _LOCATIONS.where(ModelRow.name == bindparam("name"))
_BY_VERSION = _BY_NAME.where(ModelRow.version == bindparam("version"))
_BY_VERSIONS = _BY_NAME.where(ModelRow.version.in_(bindparam("versions", expanding=True)))
_NEWEST = _BY_NAME.order_by(ModelRow.version.desc()).limit(1)


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


def get(session: Session, model_id: str, *, with_deleted: bool = False) -> ModelRow | None:
    query = select(ModelRow) if with_deleted else _ALIVE
    return session.scalar(query.where(ModelRow.id == model_id))


def get_version(session: Session, name: str, version: int) -> ModelRow | None:
    """Also if it is deleted."""
    return session.scalar(select(ModelRow).where(ModelRow.name == name, ModelRow.version == version))


def name_exists(session: Session, name: str) -> bool:
    return session.get(ModelNameRow, name) is not None


def locate_id(connection: Connection, model_id: str) -> Location | None:
    return _location(connection, _BY_ID, {"id": model_id})


def locate_version(connection: Connection, name: str, version: int) -> Location | None:
    return _location(connection, _BY_VERSION, {"name": name, "version": version})


def locate_newest(connection: Connection, name: str) -> Location | None:
    return _location(connection, _NEWEST, {"name": name})


def locate_versions(connection: Connection, name: str, versions: Sequence[int]) -> dict[int, Location]:
    rows = connection.execute(_BY_VERSIONS, {"name": name, "versions": versions})
    return {row.version: Location(*row) for row in rows}


def list_newest(
    session: Session, limit: int, before_id: str | None = None, filters: Filters = NO_FILTERS
) -> Sequence[ModelRow]:
    equal = {ModelRow.name: filters.name, ModelRow.task: filters.task}
    query = newest(ModelRow, limit, before_id, equal, created_after=filters.created_after)
    alive = ModelRow.deleted_at.is_(None)
    return session.scalars(query.where(~alive if filters.deleted else alive)).all()


def _location(connection: Connection, statement: Executable, values: dict[str, Any]) -> Location | None:
    row = connection.execute(statement, values).first()
    return Location(*row) if row is not None else None
