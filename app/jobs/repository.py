"""SQL of jobs and their events. Every write to a running job is fenced by its claim."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, and_, func, or_, select, true, update
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from app.db.engine import current_time
from app.db.job_state import EVENT_TYPES, FINAL, JobStatus, Request, check_transition
from app.db.notify import announce
from app.db.queries import newest
from app.db.tables import EventRow, JobRow
from app.ids import following_id, new_id
from app.webhooks import repository as outbox

OWNER_SEPARATOR = "/"
"""Separator in the owner of a lease, `{memory name}/{supervisor id}`. Owners with the same memory name share memory
(resources.memory_name)."""
ORS_A_QUERY = 200
"""Maximum OR terms of a query. Larger: fewer queries. SQLite limits the depth of an expression to 1000."""


@dataclass(frozen=True)
class Claim:
    """The right of a worker to a job. Valid while the job has this fencing number."""

    job_id: str
    fence: int
    peak_bytes: int = field(default=0, compare=False)
    """Estimated memory of the job in bytes; 0: not known."""


@dataclass(frozen=True)
class Room:
    """Memory of a training machine in bytes: in total, and left by the running jobs."""

    whole: int
    free: int


@dataclass(frozen=True)
class Filters:
    """Filters of a list; None and empty mean all."""

    status: str | None = None
    type: str | None = None
    name: str | None = None
    task: str | None = None
    created_after: datetime | None = None
    labels: dict[str, str] | None = None


def unfinished_among(session: Session, job_ids: Sequence[str]) -> set[str]:
    """Return those of the ids whose jobs are not done."""
    return set(session.scalars(select(JobRow.id).where(JobRow.id.in_(job_ids), JobRow.status.not_in(FINAL))))


def insert(session: Session, job: JobRow) -> None:
    session.add(job)
    session.flush()
    append_event(session, job.id, "job.queued", {})
    announce(session)


def get(session: Session, job_id: str, *, with_trace: bool = False, lock: bool = False) -> JobRow | None:
    """Return a job. With `lock` its row is locked until this unit of work ends."""
    options = [undefer(JobRow.trace)] if with_trace else []
    return session.get(JobRow, job_id, options=options, with_for_update=lock or None, populate_existing=lock)


def list_newest(session: Session, limit: int, before_id: str | None, filters: Filters) -> Sequence[JobRow]:
    equal = {JobRow.status: filters.status, JobRow.type: filters.type, JobRow.model_name: filters.name}
    query = newest(JobRow, limit, before_id, equal, created_after=filters.created_after, labels=filters.labels)
    if filters.task is not None:
        named = [column["task"].as_string() == filters.task for column in (JobRow.spec, JobRow.result)]
        query = query.where(or_(*named))
    return session.scalars(query).all()


def queue_position(session: Session, job: JobRow) -> int:
    """Return the number of queued jobs before this one."""
    ahead = (JobRow.priority > job.priority) | ((JobRow.priority == job.priority) & (JobRow.id < job.id))
    query = select(func.count()).where(JobRow.status == JobStatus.QUEUED, ahead)
    return session.scalar(query) or 0


def any_claimable(session: Session, room: Room | None = None) -> bool:
    """Whether there is a job to claim. Takes no lock."""
    needed = session.scalar(_next_queued(JobRow.peak_bytes, room))
    return needed is not None and (room is None or needed <= room.free)


def claim(session: Session, owner: str, lease_seconds: float, room: Room | None = None) -> Claim | None:
    """Claim the next queued job in one statement, so that no two workers get the same one.

    If the next job fits the machine but not the memory that is free now, nothing is claimed: a smaller job must not
    overtake it, or a large job would never start.
    """
    now = current_time(session)
    # SQLite ignores FOR UPDATE; it has one writer
    waiting = _next_queued(JobRow.id, room).with_for_update(skip_locked=True).scalar_subquery()
    fits = true() if room is None else JobRow.peak_bytes <= room.free
    statement = (
        update(JobRow)
        .where(JobRow.id == waiting, fits)
        .values(
            status=JobStatus.RUNNING,
            fence=JobRow.fence + 1,
            attempt=JobRow.attempt + 1,
            lease_owner=owner,
            lease_expires_at=now + timedelta(seconds=lease_seconds),
            started_at=func.coalesce(JobRow.started_at, now),
        )
        .returning(JobRow.id, JobRow.fence, JobRow.attempt, JobRow.peak_bytes)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).first()
    if row is None:
        return None
    append_event(session, row.id, "job.running", {"attempt": row.attempt})
    return Claim(row.id, row.fence, row.peak_bytes)


def needed_beside(session: Session, owner: str, *, lock: bool = False) -> int:
    """Return the estimated memory of the running jobs of other supervisors on the same machine, in bytes.

    With `lock` other supervisors of the machine wait until this unit of work ends, so that two never claim the same
    memory.
    """
    machine = owner.partition(OWNER_SEPARATOR)[0]
    if lock and session.get_bind().dialect.name == "postgresql":  # SQLite has one writer
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(machine))))
    there = JobRow.lease_owner.startswith(f"{machine}{OWNER_SEPARATOR}", autoescape=True)
    query = select(func.sum(JobRow.peak_bytes)).where(
        JobRow.status == JobStatus.RUNNING, there, JobRow.lease_owner != owner
    )
    return int(session.scalar(query) or 0)


def _next_queued(column: InstrumentedAttribute[Any], room: Room | None) -> Select[Any]:
    query = select(column).where(JobRow.status == JobStatus.QUEUED)
    if room is not None:
        query = query.where(JobRow.peak_bytes <= room.whole)
    return query.order_by(JobRow.priority.desc(), JobRow.id).limit(1)


def extend_leases(session: Session, claims: Sequence[Claim], lease_seconds: float) -> list[Claim]:
    """Renew these claims; return those that are lost."""
    expires = current_time(session) + timedelta(seconds=lease_seconds)
    return [one for one in claims if not update_claimed(session, one, lease_expires_at=expires)]


def requests(session: Session, claims: Sequence[Claim]) -> dict[Claim, Request]:
    """Return the pending requests of clients for these running jobs."""
    by_id = {one.job_id: one for one in claims}
    query = select(JobRow.id, JobRow.request).where(JobRow.id.in_(by_id), JobRow.request.is_not(None))
    return {by_id[row.id]: row.request for row in session.execute(query)}


def any_expired(session: Session) -> bool:
    silent = JobRow.lease_expires_at < current_time(session)
    return session.scalar(select(JobRow.id).where(JobRow.status == JobStatus.RUNNING, silent).limit(1)) is not None


def expired(session: Session) -> list[tuple[Claim, str | None]]:
    """Return the running jobs with expired leases, and the owners of the leases.

    A job whose row is locked by a write is skipped.
    """
    query = (
        select(JobRow.id, JobRow.fence, JobRow.lease_owner)
        .where(JobRow.status == JobStatus.RUNNING, JobRow.lease_expires_at < current_time(session))
        .with_for_update(skip_locked=True)
    )
    return [(Claim(row.id, row.fence), row.lease_owner) for row in session.execute(query)]


def update_claimed(session: Session, held: Claim, **values: Any) -> bool:
    """Update a running job if the claim is valid. Returns False if it is not."""
    return _update(session, held.job_id, JobStatus.RUNNING, values, fence=held.fence)


def update_locked(session: Session, job: JobRow, **values: Any) -> None:
    """Update a job that this unit of work has locked."""
    written = _update(session, job.id, JobStatus(job.status), values)
    assert written, "the job was not locked"
    announce(session)
    session.refresh(job)


def _update(session: Session, job_id: str, before: JobStatus, values: dict[str, Any], fence: int | None = None) -> bool:
    if "status" in values:
        check_transition(before, values["status"])
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.status == before)
    if fence is not None:
        statement = statement.where(JobRow.fence == fence)
    written = statement.values(**values).returning(JobRow.id).execution_options(synchronize_session=False)
    return session.execute(written).first() is not None


def append_event(session: Session, job_id: str, kind: str, data: dict[str, Any]) -> None:
    """Add an event. A client that follows a job's events by their ids misses none.

    The job's row stays locked until this unit of work ends, so events of a job are committed one after another, and the
    id of each sorts after the earlier ones, even if the clock of another process is ahead.
    """
    assert kind in EVENT_TYPES, kind
    session.execute(select(JobRow.id).where(JobRow.id == job_id).with_for_update())
    event_id = new_id("evt")
    of_job = (
        EventRow.job_id.concat("") == job_id
    )  # search by primary key: few events have newer ids, while the job can have many events
    if newest := session.scalar(select(func.max(EventRow.id)).where(EventRow.id >= event_id, of_job)):
        event_id = following_id(newest)
    moment: datetime = current_time(session)
    event = EventRow(id=event_id, job_id=job_id, type=kind, data=data, created_at=moment)
    session.add(event)
    outbox.enqueue(session, event)


def jobs_with_news(session: Session, seen: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the jobs among these (job, id of the last seen event) that have a newer event."""
    found = set()
    for start in range(0, len(seen), ORS_A_QUERY):
        part = seen[start : start + ORS_A_QUERY]
        newer = or_(*(and_(EventRow.job_id == job_id, EventRow.id > after) for job_id, after in part))
        newest = select(EventRow.job_id, func.max(EventRow.id)).where(newer).group_by(EventRow.job_id)
        by_job = dict(session.execute(newest).all())
        found |= {(job_id, after) for job_id, after in part if by_job.get(job_id, after) > after}
    return found
