# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""`client.webhooks`: manages webhooks, and checks the requests that they receive."""

from collections.abc import Mapping, Sequence

from hyperplane._shared.events import Event
from hyperplane._shared.requests import Request, id_of, path
from hyperplane._shared.signatures import unwrap
from hyperplane._shared.types import Delivery, NewWebhook, Webhook
from hyperplane._sync.pages import Pages
from hyperplane._sync.transport import Transport

__all__ = ["Webhooks"]


class Webhooks:
    """Webhooks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, url: str, events: Sequence[str] | None = None) -> NewWebhook:
        """Register a URL that receives all events, or the events of the given types. Only this response contains the
        secret."""
        body = {"url": url, **({} if events is None else {"events": [*events]})}
        return NewWebhook(self._transport.json(Request("POST", path("v1", "webhooks"), json=body).once()))

    def list(self, *, job_id: str | None = None, limit: int | None = None) -> Pages[Webhook]:
        """List webhooks."""
        params = {"job_id": job_id, "limit": limit}
        return Pages(self._transport, Request("GET", path("v1", "webhooks"), params=params), Webhook)

    def get(self, webhook: Webhook | str) -> Webhook:
        """Get a webhook."""
        return Webhook(self._transport.json(Request("GET", path("v1", "webhooks", id_of(webhook)))))

    def delete(self, webhook: Webhook | str) -> None:
        """Delete a webhook."""
        self._transport.send(Request("DELETE", path("v1", "webhooks", id_of(webhook))))

    def test(self, webhook: Webhook | str) -> Delivery:
        """Send a test event."""
        request = Request("POST", path("v1", "webhooks", id_of(webhook), "test")).once()
        return Delivery(self._transport.json(request))

    def deliveries(
        self, webhook: Webhook | str, *, status: str | None = None, limit: int | None = None
    ) -> Pages[Delivery]:
        """List the deliveries of a webhook."""
        params = {"status": status, "limit": limit}
        request = Request("GET", path("v1", "webhooks", id_of(webhook), "deliveries"), params=params)
        return Pages(self._transport, request, Delivery)

    def unwrap(self, body: bytes | str, headers: Mapping[str, str], secret: str) -> Event:
        """Check the signature of a received request and return its event; see `hyperplane.unwrap`."""
        return unwrap(body, headers, secret)
