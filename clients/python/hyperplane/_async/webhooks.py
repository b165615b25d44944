"""`client.webhooks`: manages webhooks, and checks the requests that they receive."""

from collections.abc import Mapping, Sequence

from hyperplane._async.pages import AsyncPages
from hyperplane._async.transport import AsyncTransport
from hyperplane._shared.events import Event
from hyperplane._shared.requests import Request, id_of, path
from hyperplane._shared.signatures import unwrap
from hyperplane._shared.types import Delivery, NewWebhook, Webhook

__all__ = ["AsyncWebhooks"]


class AsyncWebhooks:
    """Webhooks."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, url: str, events: Sequence[str] | None = None) -> NewWebhook:
        """Register a URL that receives all events, or the events of the given types. Only this response contains the
        secret."""
        body = {"url": url, **({} if events is None else {"events": [*events]})}
        return NewWebhook(await self._transport.json(Request("POST", path("v1", "webhooks"), json=body).once()))

    def list(self, *, job_id: str | None = None, limit: int | None = None) -> AsyncPages[Webhook]:
        """List webhooks."""
        params = {"job_id": job_id, "limit": limit}
        return AsyncPages(self._transport, Request("GET", path("v1", "webhooks"), params=params), Webhook)

    async def get(self, webhook: Webhook | str) -> Webhook:
        """Get a webhook."""
        return Webhook(await self._transport.json(Request("GET", path("v1", "webhooks", id_of(webhook)))))

    async def delete(self, webhook: Webhook | str) -> None:
        """Delete a webhook."""
        await self._transport.send(Request("DELETE", path("v1", "webhooks", id_of(webhook))))

    async def test(self, webhook: Webhook | str) -> Delivery:
        """Send a test event."""
        request = Request("POST", path("v1", "webhooks", id_of(webhook), "test")).once()
        return Delivery(await self._transport.json(request))

    def deliveries(
        self, webhook: Webhook | str, *, status: str | None = None, limit: int | None = None
    ) -> AsyncPages[Delivery]:
        """List the deliveries of a webhook."""
        params = {"status": status, "limit": limit}
        request = Request("GET", path("v1", "webhooks", id_of(webhook), "deliveries"), params=params)
        return AsyncPages(self._transport, request, Delivery)

    def unwrap(self, body: bytes | str, headers: Mapping[str, str], secret: str) -> Event:
        """Check the signature of a received request and return its event; see `hyperplane.unwrap`."""
        return unwrap(body, headers, secret)
