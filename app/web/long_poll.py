"""Long polls and the `Prefer` header: wait until a row is done without holding a thread."""

import asyncio
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from anyio import sleep
from fastapi import Header, Query
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.db import Database
from app.db.outages import DATABASE_ERRORS
from app.web.thread_rooms import POLLS

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 60.0
"""Maximum seconds of a long poll. Larger: fewer repeated requests; proxies tend to cut off after 60 s or more."""
FIRST_LOOK_SECONDS = 0.02
"""Seconds from the start of a poll to its first query, and between two rounds of the task that answers polls. Larger:
less load, later responses to short jobs."""
SLOWEST_LOOK_SECONDS = 0.5
"""Maximum seconds between two queries for a poll. Larger: less load, later responses to long jobs."""
PREFERENCE = re.compile(r'(?:^|,)\s*([^\s=;,"]+)\s*(?:=\s*"?([^\s;,"]*)"?)?')
SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
LATE_BY = 0.05
"""Delay of a response as a share of the time waited so far: a poll that has waited 4 s is queried every 0.2 s."""
LONGEST_LOOK_SECONDS = 2.0
"""Maximum seconds to wait for a query. After that, polls whose time is over are answered without its result."""
ENDED_AT_ONCE = 8
"""Maximum polls that are answered in one round (20 ms). Larger: a thousand polls of one job end sooner, and
delay predictions for longer."""
IDS_A_QUERY = 500
"""Maximum ids of one query, below the parameter limits of both databases."""

# Returns those of the ids whose rows are not done.
Unfinished = Callable[[Session, Sequence[str]], set[str]]

Wait = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_SECONDS, description="Wait up to this many seconds until `done` is true (long poll)."),
]
PreferWait = Annotated[
    str | None, Header(description="`wait=N`: send the response when the job is done, or after N seconds (at most 60).")
]


_ending = threading.Event()


def end_waits() -> None:
    """Answer all waiting polls now, because the process is shutting down."""
    _ending.set()


async def wait_for(work: asyncio.Task[Any], seconds: float) -> None:
    """Wait until the work is done or the seconds are over."""
    deadline = time.monotonic() + seconds
    while not work.done() and not _ending.is_set() and (left := deadline - time.monotonic()) > 0:
        await asyncio.wait({work}, timeout=min(left, SLOWEST_LOOK_SECONDS))


class _Poll:
    """A waiting request."""

    def __init__(self, row_id: str, seconds: float) -> None:
        self.row_id = row_id
        self.began = time.monotonic()
        self.ends_at = self.began + seconds
        self.look_at = self.began + FIRST_LOOK_SECONDS
        self.over = asyncio.Event()


class DoneWatch:
    """Waits for rows to be done, on behalf of all long polls of one API process.

    One task queries the database for all polls that are due. A waiting poll holds no thread and no connection.
    """

    def __init__(self, database: Database, unfinished: Mapping[str, Unfinished]) -> None:
        self._database = database
        self._unfinished = unfinished  # by the prefix of the id
        self._polls: set[_Poll] = set()
        self._ending: deque[_Poll] = deque()
        self._task: asyncio.Task[None] | None = None
        self._look: asyncio.Task[set[str]] | None = None

    async def wait(self, row_id: str, seconds: float) -> None:
        """Wait until the row is done or deleted, or the seconds are over."""
        poll = _Poll(row_id, seconds)
        self._polls.add(poll)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            await poll.over.wait()
        finally:
            self._polls.discard(poll)

    async def _watch(self) -> None:
        """Answer polls, in rounds of FIRST_LOOK_SECONDS, until none is left."""
        try:
            while self._polls or self._ending:
                await sleep(FIRST_LOOK_SECONDS)
                now = time.monotonic()
                due = [poll for poll in self._polls if poll.look_at <= now or _ending.is_set()]
                over = await self._over(due) if due else []
                self._ending += over
                self._polls.difference_update(over)
                for _ in range(min(ENDED_AT_ONCE, len(self._ending))):
                    self._ending.popleft().over.set()
        finally:  # no poll must wait for a watch that has ended
            for poll in (*self._polls, *self._ending):
                poll.over.set()

    async def _over(self, due: Sequence[_Poll]) -> list[_Poll]:
        """Return the polls whose row is done or whose time is over. Schedule the others again, ever less often."""
        if self._look is None:
            self._look = asyncio.create_task(POLLS.run(self._done_among, {poll.row_id for poll in due}))
        await wait_for(self._look, LONGEST_LOOK_SECONDS)
        done: set[str] = set()
        if self._look.done():
            look, self._look = self._look, None
            try:
                done = look.result()
            except DATABASE_ERRORS as error:
                log.warning("long polls could not query the database: %s", error)
        now, over = time.monotonic(), []
        for poll in due:
            pause = min(max(FIRST_LOOK_SECONDS, LATE_BY * (now - poll.began)), SLOWEST_LOOK_SECONDS)
            poll.look_at = min(now + pause, poll.ends_at)
            if poll.row_id in done or now >= poll.ends_at or _ending.is_set():
                over.append(poll)
        return over

    def _done_among(self, row_ids: set[str]) -> set[str]:
        by_kind: dict[str, list[str]] = {}
        for row_id in row_ids:
            by_kind.setdefault(row_id.partition("_")[0], []).append(row_id)
        with self._database.read() as session:
            return row_ids.difference(
                *(
                    self._unfinished[kind](session, ids[first : first + IDS_A_QUERY])
                    for kind, ids in by_kind.items()
                    for first in range(0, len(ids), IDS_A_QUERY)
                )
            )


async def wait_until_done(
    watch: DoneWatch, row_id: str, look: Callable[[], dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """Read the row in a thread. If it is not `done`, wait, and read it once more when it is or the time is over."""
    seen = await run_in_threadpool(look)
    if seen["done"] or seconds <= 0 or _ending.is_set():
        return seen
    await watch.wait(row_id, seconds)
    return await run_in_threadpool(look)


def preferred_wait(prefer: str | None, default: float = 0.0) -> float:
    """Return the seconds of `Prefer: wait=N` or `respond-async`. Invalid preferences are ignored (RFC 7240)."""
    asked = dict(reversed(PREFERENCE.findall((prefer or "").lower())))  # of equal names the first one counts
    if seconds := SECONDS.fullmatch(asked.get("wait", "")):
        return min(float(seconds[0]), MAX_WAIT_SECONDS)
    return 0.0 if "respond-async" in asked else default
