"""Follow a job by its event stream, with reconnects."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from app.client.api_errors import ApiError, Json
from app.client.retries import PASSING, Patience

STREAM = "text/event-stream"
SILENCE_SECONDS = 45.0
"""Seconds without a byte after which a stream counts as broken. The server sends a ping every 15 s."""


class Jobs:
    """Operations on jobs that need more than one request; `Client.jobs`."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def watch(self, job_id: str, after_id: str | None = None) -> Iterator[Json]:
        """Yield the events of a job as they happen, each once, until the job is done. The last has the type `done`.

        Reconnects after a broken connection and continues after the last event. Starts after `after_id`, if given.
        """
        patience = Patience()
        while True:
            try:
                for event in self._stream(job_id, after_id, patience):
                    after_id = event.get("id", after_id)
                    yield event
                    if event["type"] == "done":
                        return
                patience.wait(httpx.RemoteProtocolError("the event stream ended before the job"))
            except httpx.TransportError as error:
                patience.wait(error)
            except ApiError as error:
                if error.problem.get("status") not in PASSING:
                    raise
                patience.wait(error)

    def _stream(self, job_id: str, after_id: str | None, patience: Patience) -> Iterator[Json]:
        headers = {"Accept": STREAM} | ({"Last-Event-ID": after_id} if after_id else {})
        timeout = httpx.Timeout(self._http.timeout.connect, read=SILENCE_SECONDS)
        with self._http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers, timeout=timeout) as response:
            if response.is_error:
                raise ApiError(json.loads(response.read()))
            patience.begin_anew()
            yield from _parsed(response.iter_lines())


def _parsed(lines: Iterator[str]) -> Iterator[Json]:
    """Parse the events of a stream. The server writes the data of each event on one line."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            data: Any = json.loads(fields["data"])
            yield {"type": "done", "data": data} if fields["event"] == "done" else data
        fields = {}
