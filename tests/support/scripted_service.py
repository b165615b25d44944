"""A service that answers the client with a list of steps, and pauses that take no time."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

__all__ = ["ScriptedService", "Step", "scripted_pauses"]

Step = int | type[Exception] | dict[str, Any] | httpx.Response


class ScriptedService(httpx.MockTransport):
    """Answers with the steps in order (a status, an exception to raise, a document or a response), then with 200."""

    def __init__(self, *steps: Step, headers: dict[str, str] | None = None) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        self.headers = headers or {}
        super().__init__(self._respond)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(request.content)
        step = self.steps.pop(0) if self.steps else {"id": "job_1", "status": "succeeded", "done": True}
        if isinstance(step, httpx.Response):
            return step
        if isinstance(step, dict):
            return httpx.Response(200, json=step)
        if isinstance(step, int):
            return httpx.Response(step, json={"detail": "no", "code": "no", "retryable": True}, headers=self.headers)
        raise step("broken")


def scripted_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A fixture: the pauses that the clients make, which take no time."""
    made: list[float] = []

    async def async_note(seconds: float) -> None:
        made.append(seconds)

    for module in ("transport", "datasets", "jobs", "uploads"):
        monkeypatch.setattr(f"hyperplane._sync.{module}.sleep", made.append)
        monkeypatch.setattr(f"hyperplane._async.{module}.async_sleep", async_note)
    yield made
