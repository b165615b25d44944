"""`GET /v1/events`: the events of all jobs as one stream, for pages that follow many jobs over one connection."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence

from fastapi import APIRouter, Response
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import Field
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from app.config import Settings
from app.db import Database
from app.db.outages import DATABASE_ERRORS
from app.db.tables import EventRow
from app.errors import Unavailable, invalid_field, problems
from app.ids import is_id, lowest_id
from app.jobs.events import LOOK_SECONDS, PING_SECONDS, RECONNECT_MS, PatientStream
from app.jobs.response_schemas import Event
from app.web.context import InContext
from app.web.fields import LastEventId

log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1/events", tags=["jobs"])

LATE_SECONDS = 10.0
"""Maximum seconds between the creation of an event's id and its visibility, because of slow commits and clocks that
differ between machines. Larger: more rows are read again with every query. Set by hand; no measurement is recorded."""
EVENTS_A_READ = 1_000
"""Maximum events of one query. Larger: fewer queries for a long replay, more memory. Set by hand; no measurement is
recorded."""
MOST_WAITING = 5_000
"""Events that a slow client may lag behind before its stream ends. It can reconnect and replay. Larger: more memory.
Set by hand; no measurement is recorded."""


class JobEvent(Event):
    """An event of one of the jobs."""

    job_id: str = Field(description="The job that it happened to.")


class AllEvents:
    """The streams of all events in one API process. One query serves all of them."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._streams: set[AllEventsStream] = set()
        self._lookout: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._seen: frozenset[str] = frozenset()
        self.closing = False

    def open(self, after_id: str | None) -> "AllEventsStream":
        limit = self._settings.max_event_streams
        if len(self._streams) >= limit:
            raise Unavailable(
                f"All {limit} event streams are in use (HYPERPLANE_MAX_EVENT_STREAMS); "
                "retry later, or poll `GET /v1/jobs`.",
                code="too_many_streams",
            )
        return AllEventsStream(self, after_id, self._settings.body_patience_seconds)

    def add(self, stream: "AllEventsStream") -> None:
        self._streams.add(stream)
        if self.closing:
            self._started.set()
            stream.end()
        elif self._lookout is None or self._lookout.done():
            self._started = asyncio.Event()
            self._lookout = asyncio.create_task(self._look_out())

    async def started(self) -> None:
        """Wait until the first query has run, so that no later event is missed."""
        await self._started.wait()

    def discard(self, stream: "AllEventsStream") -> None:
        self._streams.discard(stream)

    def close(self) -> None:
        """End all streams because the process is shutting down. Clients continue on another one."""
        self.closing = True
        for stream in self._streams:
            stream.end()

    async def read(self, after_id: str) -> AsyncIterator[JobEvent]:
        """Yield the stored events after this one, oldest first, read page by page."""
        while True:
            page = await run_in_threadpool(self._read_page, after_id)
            for event in page:
                yield event
            if len(page) < EVENTS_A_READ:
                return
            after_id = page[-1].id

    def _read_page(self, after_id: str) -> list[JobEvent]:
        query = select(EventRow).where(EventRow.id > after_id).order_by(EventRow.id).limit(EVENTS_A_READ)
        with self._database.read() as session:
            return [JobEvent.model_validate(row, from_attributes=True) for row in session.scalars(query)]

    async def _look_out(self) -> None:
        while self._streams and not self.closing:
            try:
                found = [event async for event in self.read(lowest_id("evt", time.time() - LATE_SECONDS))]
            except DATABASE_ERRORS as error:
                log.warning("events of jobs are not read: %s", error)
            else:
                news = [event for event in found if event.id not in self._seen]
                self._seen = frozenset(event.id for event in found)
                for stream in list(self._streams) if self._started.is_set() else []:
                    stream.put(news)
                self._started.set()
            await asyncio.sleep(LOOK_SECONDS)


class AllEventsStream(PatientStream):
    """One client's stream of all events: after the event that it names, or from now on."""

    def __init__(self, feed: AllEvents, after_id: str | None, patience_seconds: float) -> None:
        super().__init__(self._messages(), patience_seconds, "all jobs")
        self._feed = feed
        self._after_id = after_id
        self._queue: asyncio.Queue[JobEvent | None] = asyncio.Queue(MOST_WAITING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._feed.add(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.discard(self)

    def put(self, events: Sequence[JobEvent]) -> None:
        """Queue these events for the client. The stream of a client that reads far too slowly ends."""
        try:
            for event in events:
                self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._feed.discard(self)
            self.end()

    def end(self) -> None:
        """End the stream after the events that are queued. If the queue is full, the newest one is dropped. The client
        receives the others without a gap, so it can resume after the last one."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for event in waiting[: self._queue.maxsize - 1]:
            self._queue.put_nowait(event)
        self._queue.put_nowait(None)

    async def _messages(self) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=RECONNECT_MS)
        await self._feed.started()
        yield format_sse_event(comment="following")
        since = lowest_id("evt", time.time() - 2 * LATE_SECONDS)  # the queue contains no older event
        known: set[str] = set()
        if self._after_id:
            async for event in self._feed.read(self._after_id):
                if event.id > since:
                    known.add(event.id)
                yield _formatted(event)
        while True:
            try:
                async with asyncio.timeout(PING_SECONDS):
                    queued = await self._queue.get()
            except TimeoutError:
                yield format_sse_event(comment=f"ping {time.time():.0f}")
                continue
            if queued is None:
                return
            if queued.id not in known:
                yield _formatted(queued)


@router.get(
    "",
    operation_id="stream_events",
    response_model=None,
    response_class=Response,
    responses={
        200: {
            "description": "Events of all jobs",
            "content": {EventSourceResponse.media_type: {"schema": {"type": "string"}}},
        },
        **problems(),
    },
)
async def stream_events(
    context: InContext,
    last_event_id: LastEventId = None,
) -> AllEventsStream:
    """Stream the events of all jobs as server-sent events, each with its `job_id`.

    The stream starts with the next event, or after `Last-Event-ID`. Events of one job are in order. The stream does not
    end by itself; a comment every 15 s shows that it is open.
    """
    if last_event_id and not is_id("evt", last_event_id):
        raise invalid_field("Last-Event-ID", "invalid_event_id", "is not the id of an event")
    return context.part(AllEvents).open(last_event_id or None)


def _formatted(event: JobEvent) -> bytes:
    return format_sse_event(id=event.id, event=event.type, data_str=event.model_dump_json())
