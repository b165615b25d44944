"""SQL of datasets. The attempt number of a dataset is a fencing token: it protects a dataset that is being parsed from
writes of a process that has lost its lease."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Text, Update, and_, cast, func, or_, select, true, type_coerce, update
from sqlalchemy.orm import Session, defer

from app.db.engine import current_time
from app.db.job_state import JobStatus
from app.db.queries import newest
from app.db.tables import DatasetRow, JobRow

WITHOUT_HEAVY = (defer(DatasetRow.columns), defer(DatasetRow.arrays), defer(DatasetRow.label_names))


@dataclass(frozen=True)
class Claim:
    """The right of a process to parse a dataset's file. A claim is valid while the row has this attempt number."""

    dataset_id: str
    attempt: int


@dataclass(frozen=True)
class Filters:
    """Filters of a list of datasets. None or empty: no filter."""

    status: str | None = None
    name: str | None = None
    task: str | None = None
    created_after: datetime | None = None
    labels: dict[str, str] | None = None


def insert(session: Session, dataset: DatasetRow) -> None:
    session.add(dataset)
    session.flush()


def get(session: Session, dataset_id: str) -> DatasetRow | None:
    return session.get(DatasetRow, dataset_id)


def get_light(session: Session, dataset_id: str) -> DatasetRow | None:
    """Return a dataset. Fields whose size grows with the number of columns or classes are loaded only on access."""
    return session.get(DatasetRow, dataset_id, options=WITHOUT_HEAVY)


def get_without_columns(session: Session, dataset_id: str) -> DatasetRow | None:
    return session.get(DatasetRow, dataset_id, options=[defer(DatasetRow.columns)])


def columns_from(
    session: Session, dataset_id: str, first: int, limit: int, role: str | None = None
) -> list[dict[str, Any]]:
    """Return at most `limit` columns, from number `first` on. The database selects them, because parsing 300,000
    columns here would take 0.4 s and block all threads.

    On SQLite this ends the transaction of the session, so the session must only read.
    """
    if session.get_bind().dialect.name != "postgresql":
        where = "key >= ? AND key < ?" if role is None else "json_extract(value, '$.role') = ? LIMIT ? OFFSET ?"
        numbers = (first, first + limit) if role is None else (role, limit, first)
        found = _ask_apart(session, dataset_id, f"SELECT value FROM json_each(?) WHERE {where}", *numbers)
        return [json.loads(text) for (text,) in found]
    elements = func.jsonb_array_elements(DatasetRow.columns)
    element = elements.table_valued("value", with_ordinality="number").render_derived()
    place = element.c.number - 1
    value = cast(element.c.value, Text)
    query = select(value).select_from(DatasetRow).join(element, true()).where(DatasetRow.id == dataset_id)
    if role is None:
        query = query.where(place >= first, place < first + limit)
    else:
        found_role = func.jsonb_extract_path_text(element.c.value, "role")
        query = query.where(found_role == role).offset(first).limit(limit)
    return [json.loads(text) for text in session.scalars(query.order_by(place))]


def count_columns(session: Session, dataset_id: str) -> int:
    if session.get_bind().dialect.name != "postgresql":
        counted = _ask_apart(session, dataset_id, "SELECT json_array_length(?)")
        return int(counted[0][0]) if counted else 0
    length = func.jsonb_array_length(DatasetRow.columns)
    return session.scalar(select(length).where(DatasetRow.id == dataset_id)) or 0


def _ask_apart(session: Session, dataset_id: str, query: str, *arguments: int | str) -> list[Any]:
    """Query the JSON of the columns in a separate in-memory SQLite database.

    Parsing 30 MB of JSON takes 0.3 s. In a transaction on the database file, commits would wait for that time, and new
    reads would wait for the commits.
    """
    stored = type_coerce(DatasetRow.columns, Text).label("columns_text")
    text = session.scalar(select(stored).where(DatasetRow.id == dataset_id))
    session.commit()
    if text is None:
        return []
    with closing(sqlite3.connect(":memory:")) as apart:
        return apart.execute(query, (text, *arguments)).fetchall()


def hold(session: Session, dataset_id: str) -> bool:
    """Prevent the deletion of a dataset until this unit of work ends. Returns False if it is already deleted. Several
    units of work can hold a dataset."""
    query = select(DatasetRow.id).where(DatasetRow.id == dataset_id).with_for_update(read=True, key_share=True)
    return session.scalar(query) is not None


def lock(session: Session, dataset_id: str) -> None:
    """Lock a dataset exclusively until this unit of work ends. Waits for units of work that `hold` it."""
    session.execute(select(DatasetRow.id).where(DatasetRow.id == dataset_id).with_for_update())


def get_by_fingerprint(session: Session, fingerprint: str) -> DatasetRow | None:
    query = select(DatasetRow).where(DatasetRow.fingerprint == fingerprint).options(*WITHOUT_HEAVY)
    return session.scalar(query)


def list_newest(session: Session, limit: int, before_id: str | None, filters: Filters) -> Sequence[DatasetRow]:
    equal = {DatasetRow.status: filters.status, DatasetRow.name: filters.name, DatasetRow.task_hint: filters.task}
    query = newest(DatasetRow, limit, before_id, equal, created_after=filters.created_after, labels=filters.labels)
    return session.scalars(query.options(*WITHOUT_HEAVY)).all()


def unfinished_among(session: Session, dataset_ids: Sequence[str]) -> set[str]:
    """Return the ids, among the given ones, of datasets that are still being parsed."""
    query = select(DatasetRow.id).where(DatasetRow.id.in_(dataset_ids), DatasetRow.status == "processing")
    return set(session.scalars(query))


def delete(session: Session, dataset: DatasetRow) -> None:
    session.delete(dataset)


def update_claimed(session: Session, claim: Claim, **values: Any) -> bool:
    """Update a dataset that is being parsed. Returns False, and changes nothing, if the claim is no longer valid or the
    dataset is deleted."""
    return session.execute(_claimed(claim).values(**values).returning(DatasetRow.id)).first() is not None


def extend_leases(session: Session, claims: Sequence[Claim], lease_seconds: float) -> None:
    expires = current_time(session) + timedelta(seconds=lease_seconds)
    for claim in claims:
        session.execute(_claimed(claim).values(lease_expires_at=expires))


def any_silent(session: Session) -> bool:
    query = select(DatasetRow.id).where(_silent(session)).limit(1)
    return session.scalar(query) is not None


def claim_silent(session: Session, lease_seconds: float, alive: Collection[str] = ()) -> list[Claim]:
    """Take over all datasets with expired leases, except `alive`: the ids of datasets that this process parses
    itself."""
    now = current_time(session)
    query = select(DatasetRow.id, DatasetRow.attempt).where(_silent(session)).with_for_update(skip_locked=True)
    claims = []
    for row in session.execute(query).all():
        if row.id in alive:
            continue
        values = {"attempt": row.attempt + 1, "lease_expires_at": now + timedelta(seconds=lease_seconds)}
        if update_claimed(session, Claim(row.id, row.attempt), **values):
            claims.append(Claim(row.id, row.attempt + 1))
    return claims


def replace_arrays(session: Session, dataset_id: str, **values: Any) -> bool:
    """Replace the arrays of a ready dataset and their description. Returns False if the dataset is deleted."""
    ready = DatasetRow.id == dataset_id, DatasetRow.status == "ready"
    statement = update(DatasetRow).where(*ready).values(**values).returning(DatasetRow.id)
    return session.execute(statement.execution_options(synchronize_session=False)).first() is not None


def set_statistics(session: Session, dataset_id: str, before: str | None, sha256: str) -> bool:
    """Store the hash of the statistics' blob. Returns False if another process did so first, or the dataset is
    deleted."""
    free = DatasetRow.id == dataset_id, DatasetRow.statistics.is_not_distinct_from(before)
    statement = update(DatasetRow).where(*free).values(statistics=sha256).returning(DatasetRow.id)
    return session.execute(statement.execution_options(synchronize_session=False)).first() is not None


def set_issues(session: Session, dataset_id: str, found: list[dict[str, Any]]) -> None:
    statement = update(DatasetRow).where(DatasetRow.id == dataset_id).values(issues=found)
    session.execute(statement.execution_options(synchronize_session=False))


def expired(session: Session) -> Sequence[DatasetRow]:
    """List invalid datasets whose retention period is over."""
    return session.scalars(select(DatasetRow).where(DatasetRow.expires_at < current_time(session))).all()


def _silent(session: Session) -> ColumnElement[bool]:
    return and_(DatasetRow.status == "processing", DatasetRow.lease_expires_at < current_time(session))


def _claimed(claim: Claim) -> Update:
    return (
        update(DatasetRow)
        .where(
            DatasetRow.id == claim.dataset_id,
            DatasetRow.attempt == claim.attempt,
            DatasetRow.status == "processing",
        )
        .execution_options(synchronize_session=False)
    )


def count_unfinished_jobs(session: Session, dataset_id: str) -> int:
    """Count the unfinished jobs that train or test on the dataset."""
    active = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.PAUSED)
    tests_on_it = JobRow.spec["split"]["test_dataset_id"].as_string() == dataset_id
    is_needed = or_(JobRow.dataset_id == dataset_id, tests_on_it)
    query = select(func.count()).where(JobRow.status.in_(active), is_needed)
    return session.scalar(query) or 0
