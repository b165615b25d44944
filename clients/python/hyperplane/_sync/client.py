# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""The client of one service."""

from types import TracebackType

import httpx

from hyperplane._shared.answers import Answer
from hyperplane._shared.requests import Address, Request, path
from hyperplane._shared.retries import MOST_RETRIES
from hyperplane._shared.types import Solver, System
from hyperplane._sync.aliases import Aliases
from hyperplane._sync.datasets import Datasets
from hyperplane._sync.jobs import Jobs
from hyperplane._sync.models import Models
from hyperplane._sync.service import OpenInference, Sessions
from hyperplane._sync.transport import Transport
from hyperplane._sync.uploads import Uploads
from hyperplane._sync.webhooks import Webhooks

__all__ = ["Client"]


class Client:
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
        http_client: httpx.Client | None = None,
    ) -> None:
        self._transport = Transport(Address.of(url, api_key), timeout, max_retries, http_client)
        self.uploads = Uploads(self._transport)
        self.datasets = Datasets(self._transport, self.uploads)
        self.jobs = Jobs(self._transport)
        self.models = Models(self._transport, self.jobs)
        self.aliases = Aliases(self._transport)
        self.webhooks = Webhooks(self._transport)
        self.session = Sessions(self._transport)
        self.open_inference = OpenInference(self._transport)

    @property
    def url(self) -> str:
        """The URL of the service."""
        return self._transport.address.url

    def solvers(self) -> list[Solver]:
        """List the solvers of the service."""
        found = self._transport.json(Request("GET", path("v1", "solvers")))
        return [Solver(one) for one in found["data"]]

    def system(self) -> System:
        """Get the state of the service."""
        return System(self._transport.json(Request("GET", path("v1", "system"))))

    def livez(self) -> Answer:
        """Check that the service responds."""
        return self._transport.answer(Request("GET", "/livez"))

    def readyz(self) -> Answer:
        """Check that the service is ready. Raises `ServiceUnavailable` if it is not."""
        return self._transport.answer(Request("GET", "/readyz"))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
