"""Following a job: its events as a stream, replayed from the table and then told as they are written.

A stream remembers nothing that the client does not have: it goes on, on any replica, behind the event whose id the
client names. While it waits it holds neither a thread nor a connection to the database: one look, a few
times a second, finds out for all streams of the process which of them there is news for.
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
from app.jobs.schemas import Event, JobSummary

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
PING_SECONDS = 15.0
EVENTS_A_READ = 200
RECONNECT_MS = 1000
BEFORE_ALL = ""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nobody on the way may keep or collect events
EVENTS_ANSWER = {
    "description": "A page of events, or a stream of them that ends with an event `done`",
    "content": {EventSourceResponse.media_type: {"schema": {"type": "string"}}},
}


def wants_stream(request: Request) -> bool:
    accepted = request.headers.get("accept", "").split(",")
    return any(one.partition(";")[0].strip().lower() == EventSourceResponse.media_type for one in accepted)


class EventFeed:
    """The streams of one API process: how many there are, and when each has something to read."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._open_streams = 0
        self._waiting: dict[asyncio.Event, tuple[str, str]] = {}
        self._lookout: asyncio.Task[None] | None = None
        self.closing = False

    def open(self, job_id: str, after_id: str | None) -> "EventStream":
        """A stream of the job's events behind the given one, to be sent as the answer."""
        if self._open_streams >= self._settings.max_event_streams:
            limit = self._settings.max_event_streams
            raise Unavailable(f"{limit} event streams are open already; try again later.", code="too_many_streams")
        self._open_streams += 1
        return EventStream(self, self._database, job_id, after_id or BEFORE_ALL, self._settings.body_patience_seconds)

    def on_closed(self) -> None:
        self._open_streams -= 1

    def close(self) -> None:
        """The process is about to stop: streams end, and their clients go on elsewhere."""
        self.closing = True

    async def news(self, job_id: str, after_id: str, seconds: float) -> bool:
        """Wait for a newer event; False: there was none for so many seconds."""
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
        """While anybody waits: one question to the database for all of them."""
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


class EventStream(EventSourceResponse):
    """One client's stream. Counted as open until it has ended, however it ends."""

    def __init__(
        self, feed: EventFeed, database: Database, job_id: str, after_id: str, patience_seconds: float
    ) -> None:
        super().__init__(self._messages(), headers=HEADERS)
        self._feed = feed
        self._database = database
        self._job_id = job_id
        self._after_id = after_id
        self._patience_seconds = patience_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.on_closed()

    async def stream_response(self, send: Send) -> None:
        """Send, but do not wait for ever for a client that no longer reads."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._patience_seconds):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.info("a client of %s's events does not read them: its stream ends", self._job_id)

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
        """The job, and then its events: if it has ended, its last event is among them."""
        with self._database.read() as session:
            job = repository.get(session, self._job_id)
            return job, list_events(session, self._job_id, EVENTS_A_READ, self._after_id)
