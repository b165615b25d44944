"""Creates, lists, tests and deletes webhooks, and decides when a failed delivery is retried."""

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from app.config import Settings
from app.db.engine import current_time
from app.db.queries import list_events
from app.db.tables import DeliveryRow, WebhookRow
from app.errors import Conflict, NotFound, invalid_field
from app.ids import is_id, new_id
from app.webhooks import repository
from app.webhooks.address import RefusedAddress, check_url
from app.webhooks.repository import DELIVERED, GIVEN_UP, OPEN, WAITING, Claim
from app.webhooks.schemas import TEST_TYPE, WebhookRequest
from app.webhooks.sender import Outcome
from app.webhooks.signing import new_secret

GROWTH = 3.0
"""Ratio of a retry interval to the one before. Larger: fewer attempts in total. Set by hand; no measurement is
recorded."""
LONGEST_PAUSE_SECONDS = 6 * 3600.0
"""Maximum seconds between two attempts of a delivery that the receiver refuses. Larger: fewer attempts, later success.
Set by hand; no measurement is recorded."""
LONGEST_REST_SECONDS = 600.0
"""Maximum seconds between two attempts to reach a receiver that does not respond. Larger: fewer attempts, later
success. Set by hand; no measurement is recorded."""
JITTER = 0.2
"""Maximum random share that is added to a retry interval. Larger: retries of many deliveries are spread out more. Set
by hand; no measurement is recorded."""
FORGET_AFTER = timedelta(days=7)


def check_address(settings: Settings, request: WebhookRequest, field: str) -> None:
    try:
        check_url(request.url, settings.webhook_allow_private)
    except RefusedAddress as error:
        raise invalid_field(field, "refused_address", str(error)) from error


def create(session: Session, settings: Settings, request: WebhookRequest) -> WebhookRow:
    check_address(settings, request, "url")
    if repository.count_of_all_jobs(session) >= settings.max_webhooks:
        raise Conflict(
            f"There are {settings.max_webhooks} webhooks, the limit (HYPERPLANE_MAX_WEBHOOKS); delete one.",
            code="too_many_webhooks",
        )
    return _add(session, request, None)


def attach(session: Session, settings: Settings, request: WebhookRequest, job_id: str) -> WebhookRow:
    """Create a webhook for the events of one job, from its first event on."""
    check_address(settings, request, "webhook.url")
    webhook = _add(session, request, job_id)
    for event in list_events(session, job_id, 100, None):
        repository.enqueue_for(session, event, webhook)
    return webhook


def get(session: Session, webhook_id: str, *, held: bool = False) -> WebhookRow:
    """Return a webhook. With `held`, it cannot be deleted before the transaction ends."""
    webhook = repository.get(session, webhook_id, held=held) if is_id("wh", webhook_id) else None
    if webhook is None:
        raise NotFound("There is no such webhook; `GET /v1/webhooks` lists them.")
    return webhook


def list_newest(session: Session, limit: int, before_id: str | None, job_id: str | None) -> Sequence[WebhookRow]:
    return repository.list_newest(session, limit, before_id, job_id)


def list_deliveries(
    session: Session, webhook_id: str, limit: int, before_id: str | None, status: str | None
) -> Sequence[DeliveryRow]:
    get(session, webhook_id)
    return repository.list_deliveries(session, webhook_id, limit, before_id, status)


def delete(session: Session, webhook_id: str) -> None:
    session.delete(get(session, webhook_id))


def send_test(session: Session, webhook_id: str) -> DeliveryRow:
    """Queue a test message. It is sent like all other messages."""
    webhook = get(session, webhook_id, held=True)
    if webhook.disabled_at is not None:
        raise Conflict(
            "The webhook is disabled because the receiver answered 410 Gone; delete it and create a new one.",
            code="webhook_disabled",
        )
    moment = current_time(session)
    timestamp = moment.isoformat().replace("+00:00", "Z")
    payload = {"type": TEST_TYPE, "timestamp": timestamp, "data": {"webhook_id": webhook_id}}
    (delivery_id,) = repository.put(session, [webhook_id], new_id("evt"), moment, payload)
    return repository.get_delivery(session, delivery_id)


def show_delivery(delivery: DeliveryRow) -> dict[str, Any]:
    """Return the fields of `schemas.Delivery`."""
    columns = {name: getattr(delivery, name) for name in DeliveryRow.__mapper__.columns.keys()}  # noqa: SIM118
    due_at = delivery.due_at if delivery.status in OPEN else None
    return {**columns, "type": delivery.payload["type"], "due_at": due_at}


def settle(session: Session, settings: Settings, webhook_id: str, held: Claim, outcome: Outcome, failures: int) -> None:
    """Store the outcome of an attempt. `failures` is the number of consecutive attempts at this address without a
    response."""
    now = current_time(session)
    if outcome.kind == "delivered":
        repository.settle(session, held, status=DELIVERED, delivered_at=now, last_error=None)
        return
    if outcome.kind == "gone":
        repository.settle(session, held, status=GIVEN_UP, last_error=outcome.error)
        repository.disable(session, webhook_id, outcome.error or "gone")
        return
    due_at = now + _pause(settings, held.attempt, LONGEST_PAUSE_SECONDS)
    in_time = due_at < held.created_at + timedelta(seconds=settings.webhook_give_up_seconds)
    status = WAITING if in_time else GIVEN_UP
    repository.settle(session, held, status=status, due_at=due_at, last_error=outcome.error)
    if outcome.kind == "unreachable":
        repository.rest(session, webhook_id, now + _pause(settings, failures, LONGEST_REST_SECONDS))


def clear(session: Session, settings: Settings) -> None:
    now = current_time(session)
    bounds = (now - timedelta(seconds=settings.webhook_give_up_seconds), now - FORGET_AFTER)
    if repository.any_to_clear(session, *bounds):
        repository.clear(session, *bounds)


def _add(session: Session, request: WebhookRequest, job_id: str | None) -> WebhookRow:
    webhook = WebhookRow(
        id=new_id("wh"),
        url=request.url,
        events=sorted(set(request.events)),
        secret=new_secret(),
        job_id=job_id,
        created_at=current_time(session),
    )
    repository.add(session, webhook)
    return webhook


def _pause(settings: Settings, failures: int, longest: float) -> timedelta:
    """Return the interval until the next attempt: exponential back-off with jitter."""
    seconds = min(settings.webhook_retry_seconds * GROWTH ** min(max(failures - 1, 0), 50), longest)
    return timedelta(seconds=seconds * random.uniform(1 - JITTER, 1 + JITTER))
