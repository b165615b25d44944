"""Event streams of jobs: stored events first, then new ones as they are written.

A stream has no state on the server: a client continues on any replica after the event whose id it sends. A waiting
stream holds neither a thread nor a database connection: every LOOK_SECONDS one query finds the jobs with new events for
all streams of the process.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence

from fastapi import Request
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope, Send

from app.config import Settings
from app.db import Database
from app.db.job_state import JobStatus
from app.db.outages import DATABASE_ERRORS
from app.db.queries import list_events
from app.db.tables import EventRow, JobRow
from app.errors import Unavailable
from app.jobs import repository, service
from app.jobs.response_schemas import Event, JobSummary

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""Seconds between two queries for new events. Larger: later events, less load. Set by hand; no measurement is
recorded."""
PING_SECONDS = 15.0
"""Seconds without an event after which a stream sends a comment, so that proxies and clients keep the connection.
Larger: less traffic, and proxies can close the connection. nginx's default read timeout is 60 s."""
EVENTS_A_READ = 200
"""Maximum events of one query. Larger: fewer queries for long histories, more memory. Set by hand; no measurement is
recorded."""
RECONNECT_MS = 1000
"""Milliseconds that clients are asked to wait before they reconnect (the field `retry` of server-sent events). Larger:
less load after a restart of the server, later events. Set by hand; no measurement is recorded."""
BEFORE_ALL = ""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Response headers that keep proxies from caching and buffering events."""
EVENTS_ANSWER = {
    "description": "A page of events, or a stream of events that ends with an event `done`.",
    "content": {EventSourceResponse.media_type: {"schema": {"type": "string"}}},
}


def wants_stream(request: Request) -> bool:
    accepted = request.headers.get("accept", "").split(",")
    return any(one.partition(";")[0].strip().lower() == EventSourceResponse.media_type for one in accepted)


class EventFeed:
    """The event streams of an API process: limits their number, and wakes those with new events."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._open_streams = 0
        self._waiting: dict[asyncio.Event, tuple[str, str]] = {}
        self._lookout: asyncio.Task[None] | None = None
        self.closing = False

    def open(self, job_id: str, after_id: str | None) -> "EventStream":
        """Return a streaming response of the job's events after the given one."""
        if self._open_streams >= self._settings.max_event_streams:
            limit = self._settings.max_event_streams
            raise Unavailable(
                f"All {limit} event streams are in use (HYPERPLANE_MAX_EVENT_STREAMS); retry later, or poll.",
                code="too_many_streams",
            )
        self._open_streams += 1
        return EventStream(self, self._database, job_id, after_id or BEFORE_ALL, self._settings.body_patience_seconds)

    def on_closed(self) -> None:
        self._open_streams -= 1

    def close(self) -> None:
        """End all streams because the process is shutting down. Clients continue on another one."""
        self.closing = True

    async def news(self, job_id: str, after_id: str, seconds: float) -> bool:
        """Wait for a newer event; return False if there is none within `seconds`."""
        woken = asyncio.Event()
        self._waiting[woken] = (job_id, after_id)
        if self._lookout is None or self._lookout.done():
            self._lookout = asyncio.create_task(self._look_out())
        try:
            async with asyncio.timeout(seconds):
                return await woken.wait()
        except TimeoutError:
            return False
        finally:
            del self._waiting[woken]

    async def _look_out(self) -> None:
        """Query the database for all waiting streams at once, while there are any."""
        while self._waiting:
            await asyncio.sleep(LOOK_SECONDS)
            asked = dict(self._waiting)
            try:
                told = await run_in_threadpool(self._with_news, sorted(set(asked.values())))
            except DATABASE_ERRORS as error:
                log.warning("events of jobs are not read: %s", error)
                continue
            for woken, seen in asked.items():
                if seen in told or self.closing:
                    woken.set()

    def _with_news(self, seen: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        with self._database.read() as session:
            return repository.jobs_with_news(session, seen)


class PatientStream(EventSourceResponse):
    """A stream that ends when its client does not take a message within `patience_seconds`."""

    def __init__(self, messages: AsyncIterator[bytes], patience_seconds: float, subject: str) -> None:
        super().__init__(messages, headers=HEADERS)
        self._patience_seconds = patience_seconds
        self._subject = subject

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._patience_seconds):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.info("the event stream of %s ends: its client does not read", self._subject)


class EventStream(PatientStream):
    """One client's stream. Any end, even an error, lowers the count of open streams."""

    def __init__(
        self, feed: EventFeed, database: Database, job_id: str, after_id: str, patience_seconds: float
    ) -> None:
        super().__init__(self._messages(), patience_seconds, job_id)
        self._feed = feed
        self._database = database
        self._job_id = job_id
        self._after_id = after_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.on_closed()

    async def _messages(self) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=RECONNECT_MS)
        while not self._feed.closing:
            try:
                job, events = await run_in_threadpool(self._read)
            except DATABASE_ERRORS as error:
                log.warning("events of jobs are not read: %s", error)
                job, events = None, []
            for event in events:
                shown = Event.model_validate(event, from_attributes=True)
                yield format_sse_event(id=shown.id, event=shown.type, data_str=shown.model_dump_json())
                self._after_id = shown.id
            if len(events) == EVENTS_A_READ:
                continue
            if job is not None and JobStatus(job.status).done:
                summary = JobSummary.model_validate(service.summarize(job))
                yield format_sse_event(event="done", data_str=summary.model_dump_json())
                return
            if not await self._feed.news(self._job_id, self._after_id, PING_SECONDS):
                yield format_sse_event(comment=f"ping {time.time():.0f}")

    def _read(self) -> tuple[JobRow | None, Sequence[EventRow]]:
        """Read the job first and then its events: if the job has ended, its last event is included."""
        with self._database.read() as session:
            job = repository.get(session, self._job_id)
            return job, list_events(session, self._job_id, EVENTS_A_READ, self._after_id)
