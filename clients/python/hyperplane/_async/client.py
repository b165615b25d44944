"""The client of one service."""

from types import TracebackType

import httpx

from hyperplane._async.aliases import AsyncAliases
from hyperplane._async.datasets import AsyncDatasets
from hyperplane._async.jobs import AsyncJobs
from hyperplane._async.models import AsyncModels
from hyperplane._async.service import AsyncOpenInference, AsyncSessions
from hyperplane._async.transport import AsyncTransport
from hyperplane._async.uploads import AsyncUploads
from hyperplane._async.webhooks import AsyncWebhooks
from hyperplane._shared.answers import Answer
from hyperplane._shared.requests import Address, Request, path
from hyperplane._shared.retries import MOST_RETRIES
from hyperplane._shared.types import Solver, System

__all__ = ["AsyncClient"]


class AsyncClient:
    """A client of one service, with one connection pool.

    The defaults are the environment variables HYPERPLANE_URL (else http://127.0.0.1:8000) and HYPERPLANE_API_KEY.
    Requests that can be repeated safely are retried after failures, at most `max_retries` times without progress.
    `timeout`: seconds that a request waits for the next byte (default 120), or an `httpx.Timeout`. `http_client`: your
    own HTTP client, with its proxies, certificates and timeouts. It is neither changed nor closed.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | httpx.Timeout | None = None,
        max_retries: int = MOST_RETRIES,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._transport = AsyncTransport(Address.of(url, api_key), timeout, max_retries, http_client)
        self.uploads = AsyncUploads(self._transport)
        self.datasets = AsyncDatasets(self._transport, self.uploads)
        self.jobs = AsyncJobs(self._transport)
        self.models = AsyncModels(self._transport, self.jobs)
        self.aliases = AsyncAliases(self._transport)
        self.webhooks = AsyncWebhooks(self._transport)
        self.session = AsyncSessions(self._transport)
        self.open_inference = AsyncOpenInference(self._transport)

    @property
    def url(self) -> str:
        """The URL of the service."""
        return self._transport.address.url

    async def solvers(self) -> list[Solver]:
        """List the solvers of the service."""
        found = await self._transport.json(Request("GET", path("v1", "solvers")))
        return [Solver(one) for one in found["data"]]

    async def system(self) -> System:
        """Get the state of the service."""
        return System(await self._transport.json(Request("GET", path("v1", "system"))))

    async def livez(self) -> Answer:
        """Check that the service responds."""
        return await self._transport.answer(Request("GET", "/livez"))

    async def readyz(self) -> Answer:
        """Check that the service is ready. Raises `ServiceUnavailable` if it is not."""
        return await self._transport.answer(Request("GET", "/readyz"))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
