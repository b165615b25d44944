"""Lists as every resource has them: the newest rows first, a page at a time, narrowed by what the client names."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, select

from app.db.tables import Base

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
    """Rows older than the one that the page before ended with. `equal`: columns and their values, None for any."""
    columns: Any = table  # each has an id; those that are filtered by time or labels have these too
    query = select(table).order_by(columns.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(columns.id < before_id)
    query = query.where(*(column == value for column, value in (equal or {}).items() if value is not None))
    if created_after is not None:
        query = query.where(columns.created_at > created_after)
    for key, value in (labels or {}).items():
        query = query.where(columns.labels[key].as_string() == value)
    return query
