"""SQL of models."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Executable, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from app.db.queries import newest
from app.db.tables import ModelNameRow, ModelRow
from app.models.metrics.headline import HEADLINES


class Location(NamedTuple):
    """A version and the SHA-256 of its file. Predict reads nothing else about a model from the database."""

    id: str
    name: str
    version: int
    blob: str


class Filters(NamedTuple):
    """Filters of a list; None: no filter."""

    name: str | None = None
    task: str | None = None
    created_after: datetime | None = None
    deleted: bool = False


NO_FILTERS = Filters()

_ALIVE = select(ModelRow).where(ModelRow.deleted_at.is_(None))

# Built once, because every prediction by name runs one of these statements, and building one took longer than running
# it.
_LOCATIONS = _ALIVE.with_only_columns(ModelRow.id, ModelRow.name, ModelRow.version, ModelRow.blob)
_BY_ID = _LOCATIONS.where(ModelRow.id == bindparam("id"))
_BY_NAME = _LOCATIONS.where(ModelRow.name == bindparam("name"))
_BY_VERSION = _BY_NAME.where(ModelRow.version == bindparam("version"))
_BY_VERSIONS = _BY_NAME.where(ModelRow.version.in_(bindparam("versions", expanding=True)))
_NEWEST = _BY_NAME.order_by(ModelRow.version.desc()).limit(1)


def next_version(session: Session, name: str) -> int:
    """Increment the version counter of a name atomically, and return it."""
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
    """Return a version, deleted or not."""
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


def figures(session: Session, model_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the figures that a list shows for each model. The database extracts them from the cards, which are
    large."""
    paths: dict[str, Any] = {"relative_gap": ModelRow.card[("certificate", "relative_gap")].as_float()}
    paths |= {f"headline.{name}": ModelRow.card[("headline", name)].as_string() for name in ("name", "rows")}
    paths["headline.value"] = ModelRow.card[("headline", "value")].as_float()
    for rows in ("test", "train"):
        for name in set(HEADLINES.values()):
            paths[f"{rows}.{name}"] = ModelRow.card[("metrics", rows, name)].as_float()
    named = [path.label(label) for label, path in paths.items()]
    query = select(ModelRow.id, ModelRow.task, *named).where(ModelRow.id.in_(model_ids))
    return {row.id: _figures(row._mapping) for row in session.execute(query)}


def _figures(row: Any) -> dict[str, Any]:
    if row["headline.value"] is not None:
        told = {name: row[f"headline.{name}"] for name in ("name", "value", "rows")}
        return {"relative_gap": row["relative_gap"], "headline": told}
    name = HEADLINES.get(row["task"], "accuracy")  # cards of older versions have no headline
    known = [(rows, row[f"{rows}.{name}"]) for rows in ("test", "train") if row[f"{rows}.{name}"] is not None]
    headline = {"name": name, "value": known[0][1], "rows": known[0][0]} if known else None
    return {"relative_gap": row["relative_gap"], "headline": headline}


def _location(connection: Connection, statement: Executable, values: dict[str, Any]) -> Location | None:
    row = connection.execute(statement, values).first()
    return Location(*row) if row is not None else None
