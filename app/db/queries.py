"""Queries that several features share: a page of the newest rows of a table, and the events of a job."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.db.tables import Base, EventRow

Row = TypeVar("Row", bound=Base)


def newest(
    table: type[Row],
    limit: int,
    before_id: str | None,
    equal: Mapping[Any, Any] | None = None,
    *,
    created_after: datetime | None = None,
    labels: Mapping[str, str] | None = None,
) -> Select[Row]:
    """Select a page of rows, newest first, older than `before_id`.

    `equal` maps columns to required values; a column whose value is None is not filtered.
    """
    # every table has an id; callers pass `created_after` or `labels` only for tables with those columns
    columns: Any = table
    query = select(table).order_by(columns.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(columns.id < before_id)
    query = query.where(*(column == value for column, value in (equal or {}).items() if value is not None))
    if created_after is not None:
        query = query.where(columns.created_at > created_after)
    for key, value in (labels or {}).items():
        query = query.where(columns.labels[key].as_string() == value)
    return query


def list_events(session: Session, job_id: str, limit: int, after_id: str | None) -> Sequence[EventRow]:
    """List the events of a job, oldest first, that come after the event `after_id`."""
    query = select(EventRow).where(EventRow.job_id == job_id).order_by(EventRow.id).limit(limit)
    if after_id is not None:
        query = query.where(EventRow.id > after_id)
    return session.scalars(query).all()
