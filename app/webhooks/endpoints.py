"""`/v1/webhooks`: addresses that receive the events of jobs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from app.db.tables import DeliveryRow, WebhookRow
from app.errors import problems
from app.names import Text
from app.web.context import InContext
from app.web.fields import WebhookInPath
from app.web.idempotency import InOnce
from app.web.pagination import InPage, Listing, listing
from app.web.thread_rooms import RoomRoute
from app.web.validation import json_only, no_body
from app.webhooks import service
from app.webhooks.schemas import Delivery, DeliveryStatus, NewWebhook, Webhook, WebhookRequest

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], dependencies=[Depends(json_only)], route_class=RoomRoute)


@router.post("", status_code=201, operation_id="create_webhook", responses=problems(400, 409, 413, 415, 507))
def create_webhook(body: WebhookRequest, context: InContext, response: Response, once: InOnce) -> NewWebhook:
    """Register an address for the events of all jobs. Only this response shows the secret that signs the messages."""
    with once.write() as session:
        webhook = service.create(session, context.settings, body)
        response.headers["Location"] = f"/v1/webhooks/{webhook.id}"
        return once.answer(NewWebhook.model_validate(webhook, from_attributes=True))


@router.get("", operation_id="list_webhooks", responses=problems())
def list_webhooks(
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    job_id: Annotated[Text | None, Query(description="Only the webhooks of this job.")] = None,
) -> Listing[Webhook]:
    """List webhooks, newest first, including those of single jobs."""
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, job_id)
    return Listing[Webhook].model_validate(listing(request, response, page, rows, _show))


@router.get("/{webhook_id}", operation_id="get_webhook", responses=problems(404))
def get_webhook(webhook_id: WebhookInPath, context: InContext) -> Webhook:
    """Get a webhook, without its secret."""
    with context.database.read() as session:
        return _show(service.get(session, webhook_id))


@router.delete("/{webhook_id}", status_code=204, operation_id="delete_webhook", responses=problems(404, 507))
def delete_webhook(webhook_id: WebhookInPath, context: InContext) -> None:
    """Delete a webhook and its deliveries. No more messages are sent to its address."""
    with context.database.write() as session:
        service.delete(session, webhook_id)


@router.post(
    "/{webhook_id}/test",
    status_code=201,
    operation_id="test_webhook",
    responses=problems(404, 409, 413, 415, 507),
    dependencies=[Depends(no_body)],
)
def test_webhook(webhook_id: WebhookInPath, once: InOnce) -> Delivery:
    """Send a message of type `webhook.test`. `GET …/deliveries` shows the outcome."""
    with once.write() as session:
        return once.answer(_show_delivery(service.send_test(session, webhook_id)))


@router.get("/{webhook_id}/deliveries", operation_id="list_webhook_deliveries", responses=problems(404))
def list_webhook_deliveries(
    webhook_id: WebhookInPath,
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    status: Annotated[DeliveryStatus | None, Query(description="Only deliveries in this state.")] = None,
) -> Listing[Delivery]:
    """List deliveries, newest first. Deliveries with the status `delivered` or `given_up` are kept for a week."""
    with context.database.read() as session:
        rows = service.list_deliveries(session, webhook_id, page.limit + 1, page.cursor_id, status)
    return Listing[Delivery].model_validate(listing(request, response, page, rows, _show_delivery))


def _show(webhook: WebhookRow) -> Webhook:
    return Webhook.model_validate(webhook, from_attributes=True)


def _show_delivery(delivery: DeliveryRow) -> Delivery:
    return Delivery.model_validate(service.show_delivery(delivery))
