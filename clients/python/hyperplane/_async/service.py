"""The service itself: health, sessions of the dashboard, and the Open Inference Protocol."""

from typing import Any

from hyperplane._async.transport import AsyncTransport
from hyperplane._shared.answers import Answer
from hyperplane._shared.requests import Request, path
from hyperplane._shared.types import Session

__all__ = ["AsyncOpenInference", "AsyncSessions"]


class AsyncSessions:
    """Sessions of the dashboard: a cookie instead of a key."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def get(self) -> Session:
        """Get the session of this client's cookie, and whether the service needs a key."""
        return Session(await self._transport.json(Request("GET", path("v1", "session"))))

    async def create(self, api_key: str) -> Session:
        """Sign in with a key."""
        request = Request("POST", path("v1", "session"), json={"key": api_key}, repeatable=True)
        return Session(await self._transport.json(request))

    async def delete(self, csrf_token: str | None = None) -> None:
        """Sign out."""
        headers = {"X-CSRF-Token": csrf_token} if csrf_token else {}
        await self._transport.send(Request("DELETE", path("v1", "session"), headers=headers))


class AsyncOpenInference:
    """The Open Inference Protocol (`/v2`)."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def live(self) -> Answer:
        """Whether the service runs."""
        return await self._transport.answer(Request("GET", "/v2/health/live"))

    async def ready(self) -> Answer:
        """Whether the service can predict."""
        return await self._transport.answer(Request("GET", "/v2/health/ready"))

    async def server(self) -> Answer:
        """Get the name, version and extensions of the server."""
        return await self._transport.answer(Request("GET", "/v2"))

    async def model(self, name: str, version: str | None = None) -> Answer:
        """Get the inputs and outputs of a model."""
        return await self._transport.answer(Request("GET", _place(name, version)))

    async def model_ready(self, name: str, version: str | None = None) -> Answer:
        """Whether a model can predict."""
        return await self._transport.answer(Request("GET", _place(name, version, "ready")))

    async def infer(self, name: str, body: dict[str, Any], version: str | None = None) -> Answer:
        """Predict with a body of the protocol: `{"inputs": [{"name", "shape", "datatype", "data"}]}`."""
        request = Request("POST", _place(name, version, "infer"), json=body, repeatable=True)
        return await self._transport.answer(request)


def _place(name: str, version: str | None, *rest: str) -> str:
    versions = () if version is None else ("versions", str(version))
    return path("v2", "models", name, *versions, *rest)
