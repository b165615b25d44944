"""SQL of aliases and their history."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import AliasChangeRow, AliasRow, ModelNameRow

# Built once, because every prediction by alias runs it.
_SETTING = select(AliasRow.targets, AliasRow.shadow).where(
    AliasRow.name == bindparam("name"), AliasRow.alias == bindparam("alias")
)


class Setting(NamedTuple):
    """The value of an alias: all that predict needs."""

    targets: list[Any]
    shadow: int | None


def setting(connection: Connection, name: str, alias: str) -> Setting | None:
    row = connection.execute(_SETTING, {"name": name, "alias": alias}).first()
    return Setting(*row) if row is not None else None


def lock_name(session: Session, name: str) -> bool:
    """Lock the aliases and versions of a model name until this unit of work ends.

    Returns False if there is no model of this name.
    """
    query = select(ModelNameRow.name).where(ModelNameRow.name == name).with_for_update()
    return session.scalar(query) is not None


def get(session: Session, name: str, alias: str) -> AliasRow | None:
    return session.get(AliasRow, (name, alias))


def of_name(session: Session, name: str, limit: int | None = None, after: str | None = None) -> Sequence[AliasRow]:
    query = select(AliasRow).where(AliasRow.name == name).order_by(AliasRow.alias).limit(limit)
    if after is not None:
        query = query.where(AliasRow.alias > after)
    return session.scalars(query).all()


def using(session: Session, name: str, version: int) -> list[str]:
    """List the aliases that send or mirror requests to a version."""
    rows = of_name(session, name)
    return [row.alias for row in rows if version == row.shadow or version in (one["version"] for one in row.targets)]


def last_change(
    session: Session, name: str, alias: str, before: int | None = None, *, is_set: bool = False
) -> AliasChangeRow | None:
    """Return the newest change (before a revision); with `is_set` the newest that did not delete the alias."""
    query = _changes(name, alias, before)
    for change in session.scalars(query):
        if change.targets is not None or not is_set:
            return change
    return None


def change_at(session: Session, name: str, alias: str, revision: int) -> AliasChangeRow | None:
    return session.get(AliasChangeRow, (name, alias, revision))


def changes(session: Session, name: str, alias: str, limit: int, before: int | None) -> Sequence[AliasChangeRow]:
    return session.scalars(_changes(name, alias, before).limit(limit)).all()


def write(
    session: Session, name: str, alias: str, revision: int, targets: list[Any] | None, shadow: int | None
) -> None:
    """Set the alias (targets of None: delete it) and add the change to its history."""
    moment = current_time(session)
    values = {"name": name, "alias": alias, "revision": revision, "shadow": shadow}
    session.add(AliasChangeRow(targets=targets, created_at=moment, **values))
    row = get(session, name, alias)
    if targets is None:
        assert row is not None
        session.delete(row)
    elif row is None:
        session.add(AliasRow(targets=targets, updated_at=moment, **values))
    else:
        row.revision, row.targets, row.shadow, row.updated_at = revision, targets, shadow, moment
    session.flush()


def _changes(name: str, alias: str, before: int | None) -> Select[AliasChangeRow]:
    query = select(AliasChangeRow).where(AliasChangeRow.name == name, AliasChangeRow.alias == alias)
    if before is not None:
        query = query.where(AliasChangeRow.revision < before)
    return query.order_by(AliasChangeRow.revision.desc())
