"""SQL of webhooks and their outbox.

waiting ──claim──▶ sending ──2xx──▶ delivered
   ▲                  │ └──too old, or the receiver is gone──▶ given_up
   └───retry later────┘   (also when its process died: `due_at` is the lease of the sender)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.job_state import JobStatus
from app.db.queries import newest
from app.db.tables import DeliveryRow, EventRow, JobRow, WebhookRow
from app.ids import new_id

WAITING, SENDING, DELIVERED, GIVEN_UP = "waiting", "sending", "delivered", "given_up"
OPEN = (WAITING, SENDING)

SUMMARY = {
    name: getattr(JobRow, name)
    for name in ("id", "type", "status", "progress", "dataset_id", "model_id", "relative_gap", "attempt", "error")
} | {"model": JobRow.model_name, "labels": JobRow.labels}


@dataclass(frozen=True)
class Claim:
    """The right to send a delivery. A claim is valid while the delivery has this attempt number."""

    delivery_id: str
    attempt: int
    url: str
    secret: str
    message_id: str
    created_at: datetime
    payload: dict[str, Any]


def add(session: Session, webhook: WebhookRow) -> None:
    session.add(webhook)
    session.flush()


def get(session: Session, webhook_id: str, *, held: bool = False) -> WebhookRow | None:
    """Return a webhook or None. With `held`, it cannot be deleted before the transaction ends."""
    lock = {"read": True, "key_share": True} if held else None
    return session.get(WebhookRow, webhook_id, with_for_update=lock)


def get_delivery(session: Session, delivery_id: str) -> DeliveryRow:
    return session.get_one(DeliveryRow, delivery_id)


def list_newest(session: Session, limit: int, before_id: str | None, job_id: str | None) -> Sequence[WebhookRow]:
    return session.scalars(newest(WebhookRow, limit, before_id, {WebhookRow.job_id: job_id})).all()


def count_of_all_jobs(session: Session) -> int:
    query = select(func.count()).where(WebhookRow.job_id.is_(None), WebhookRow.disabled_at.is_(None))
    return session.scalar(query) or 0


def list_deliveries(
    session: Session, webhook_id: str, limit: int, before_id: str | None, status: str | None
) -> Sequence[DeliveryRow]:
    equal = {DeliveryRow.webhook_id: webhook_id, DeliveryRow.status: status}
    return session.scalars(newest(DeliveryRow, limit, before_id, equal)).all()


def enqueue(session: Session, event: EventRow) -> None:
    """Add an event to the outbox of each webhook that subscribes to it, in the transaction of the event.

    A webhook that is being deleted is skipped. A webhook that is found cannot be deleted before the transaction ends.
    """
    of_job = or_(WebhookRow.job_id.is_(None), WebhookRow.job_id == event.job_id)
    subscribed = select(WebhookRow.id, WebhookRow.events).where(WebhookRow.disabled_at.is_(None), of_job)
    found = session.execute(subscribed.with_for_update(read=True, key_share=True))
    if wanted := [row.id for row in found if _wants(row.events, event)]:
        put(session, wanted, event.id, event.created_at, _payload(session, event))


def enqueue_for(session: Session, event: EventRow, webhook: WebhookRow) -> None:
    """Add a past event to the outbox of a new webhook."""
    if _wants(webhook.events, event):
        put(session, [webhook.id], event.id, event.created_at, _payload(session, event))


def put(
    session: Session, webhook_ids: Sequence[str], event_id: str, moment: datetime, payload: dict[str, Any]
) -> list[str]:
    """Create deliveries of one message to these webhooks. Returns the ids of the deliveries."""
    common = {"event_id": event_id, "payload": payload, "status": WAITING, "due_at": moment, "created_at": moment}
    rows = [{"id": new_id("dlv"), "webhook_id": webhook_id, **common} for webhook_id in webhook_ids]
    session.execute(insert(DeliveryRow), rows)
    return [str(row["id"]) for row in rows]


def due_webhooks(session: Session, limit: int) -> list[str]:
    """List the ids of webhooks with due deliveries. Locks nothing."""
    return list(session.scalars(select(DeliveryRow.webhook_id).where(_due(session)).distinct().limit(limit)))


def due_deliveries(session: Session, webhook_id: str, limit: int) -> list[str]:
    """List the ids of due deliveries of a webhook. The events of a job are in the order in which they happened."""
    query = select(DeliveryRow.id).where(DeliveryRow.webhook_id == webhook_id, _due(session))
    return list(session.scalars(query.order_by(DeliveryRow.event_id).limit(limit)))


def claim(session: Session, webhook_id: str, delivery_id: str, lease_seconds: float) -> Claim | None:
    """Claim a delivery. Returns None if it is settled, or if another process is sending to this webhook."""
    webhook = session.scalar(
        select(WebhookRow)
        .where(WebhookRow.id == webhook_id, WebhookRow.disabled_at.is_(None))
        .with_for_update(key_share=True, skip_locked=True)  # this lock does not block inserts into the outbox
    )
    now = current_time(session)
    held = and_(DeliveryRow.webhook_id == webhook_id, DeliveryRow.status == SENDING, DeliveryRow.due_at > now)
    if webhook is None or session.scalar(select(DeliveryRow.id).where(held).limit(1)) is not None:
        return None
    statement = (
        update(DeliveryRow)
        .where(DeliveryRow.id == delivery_id, DeliveryRow.status.in_(OPEN))
        .values(status=SENDING, attempt=DeliveryRow.attempt + 1, due_at=now + timedelta(seconds=lease_seconds))
        .returning(DeliveryRow.attempt, DeliveryRow.event_id, DeliveryRow.created_at, DeliveryRow.payload)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).first()
    if row is None:
        return None
    return Claim(delivery_id, row.attempt, webhook.url, webhook.secret, row.event_id, row.created_at, row.payload)


def settle(session: Session, held: Claim, **values: Any) -> bool:
    """Store the outcome of an attempt. Returns False if the claim is no longer valid."""
    ours = and_(DeliveryRow.id == held.delivery_id, DeliveryRow.status == SENDING, DeliveryRow.attempt == held.attempt)
    statement = update(DeliveryRow).where(ours).values(**values).returning(DeliveryRow.webhook_id)
    return session.execute(statement.execution_options(synchronize_session=False)).first() is not None


def give_back(session: Session, held: Claim) -> None:
    """Release an unfinished delivery, so that another process can send it now. The attempt does not count."""
    settle(session, held, status=WAITING, attempt=held.attempt - 1, due_at=current_time(session))


def rest(session: Session, webhook_id: str, until: datetime) -> None:
    """Delay all waiting deliveries of a webhook whose receiver does not respond, at least until this time."""
    waits = and_(DeliveryRow.webhook_id == webhook_id, DeliveryRow.status == WAITING, DeliveryRow.due_at < until)
    session.execute(update(DeliveryRow).where(waits).values(due_at=until))


def disable(session: Session, webhook_id: str, reason: str) -> None:
    """Disable a webhook and give up its waiting deliveries."""
    session.execute(
        update(WebhookRow)
        .where(WebhookRow.id == webhook_id, WebhookRow.disabled_at.is_(None))
        .values(disabled_at=current_time(session))
    )
    _give_up(session, and_(DeliveryRow.webhook_id == webhook_id, DeliveryRow.status == WAITING), reason)


def any_to_clear(session: Session, give_up_before: datetime, forget_before: datetime) -> bool:
    old = or_(_too_old(give_up_before), _settled_before(forget_before))
    return session.scalar(select(DeliveryRow.id).where(old).limit(1)) is not None


def clear(session: Session, give_up_before: datetime, forget_before: datetime) -> None:
    """Give up waiting deliveries from before `give_up_before`, and delete deliveries that were settled before
    `forget_before`."""
    _give_up(session, _too_old(give_up_before), "gave up: not delivered within HYPERPLANE_WEBHOOK_GIVE_UP_SECONDS")
    session.execute(delete(DeliveryRow).where(_settled_before(forget_before)))


def _wants(events: Sequence[str], event: EventRow) -> bool:
    return not {event.type, "*", "job.*"}.isdisjoint(events)


def _payload(session: Session, event: EventRow) -> dict[str, Any]:
    columns = [column.label(name) for name, column in SUMMARY.items()]
    job = session.execute(select(*columns).where(JobRow.id == event.job_id)).one()
    summary = {**job._mapping, "done": JobStatus(job.status).done}
    timestamp = event.created_at.isoformat().replace("+00:00", "Z")
    return {
        "type": event.type,
        "timestamp": timestamp,
        "data": {**summary, "event_id": event.id, "event": event.data},
    }


def _due(session: Session) -> ColumnElement[bool]:
    return and_(DeliveryRow.status.in_(OPEN), DeliveryRow.due_at <= current_time(session))


def _too_old(moment: datetime) -> ColumnElement[bool]:
    return and_(DeliveryRow.status == WAITING, DeliveryRow.created_at < moment)


def _settled_before(moment: datetime) -> ColumnElement[bool]:
    return and_(DeliveryRow.status.in_((DELIVERED, GIVEN_UP)), DeliveryRow.created_at < moment)


def _give_up(session: Session, which: ColumnElement[bool], reason: str) -> None:
    last_error = func.coalesce(DeliveryRow.last_error, reason)
    session.execute(update(DeliveryRow).where(which).values(status=GIVEN_UP, last_error=last_error))
