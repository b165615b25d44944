"""Parse server-sent events, line by line."""

import json
from typing import Any

from hyperplane._shared.answers import Answer

__all__ = ["EVENT_STREAM", "SILENCE_SECONDS", "Event", "EventParser"]

EVENT_STREAM = "text/event-stream"
SILENCE_SECONDS = 45.0
"""Seconds without a byte after which a stream counts as broken. Larger: a dead connection is detected later. Three
times the 15 s between two pings of the service."""


class Event(Answer):
    """Something that happened to a job."""

    type: str
    data: Answer

    @property
    def id(self) -> str | None:
        """Id of the event; None for the final `done` of a stream."""
        return self.get("id")


class EventParser:
    """Collects the lines of a stream into events. An event that was cut off is dropped, as the standard demands."""

    def __init__(self) -> None:
        self._fields: dict[str, list[str]] = {}

    def feed(self, line: str) -> Event | None:
        """Take the next line. Returns the event that it ends, if any."""
        if line:
            name, _, value = line.partition(":")
            if name:  # else a comment: a ping
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        data: Any = json.loads("\n".join(fields["data"]))
        is_end = fields.get("event", [""])[-1] == "done"
        return Event({"type": "done", "data": data} if is_end else data)
