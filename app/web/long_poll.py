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
"""Maximum seconds of a long poll. Larger: fewer repeated requests, and proxies can close the connection first. 60 s is
the default timeout of many proxies."""
FIRST_LOOK_SECONDS = 0.02
"""Seconds from the start of a long poll to its first query, and between two rounds of the task that answers long polls.
Larger: less load, later responses for short jobs. Set by hand; no measurement is recorded."""
SLOWEST_LOOK_SECONDS = 0.5
"""Maximum seconds between two queries for a long poll. Larger: less load, later responses for long jobs. Set by hand;
no measurement is recorded."""
PREFERENCE = re.compile(r'(?:^|,)\s*([^\s=;,"]+)\s*(?:=\s*"?([^\s;,"]*)"?)?')
SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
LATE_BY = 0.05
"""Interval between two queries for a long poll, as a share of the time that it has waited: after 4 s it is 0.2 s.
Larger: less load, later responses. Set by hand; no measurement is recorded."""
LONGEST_LOOK_SECONDS = 2.0
"""Maximum seconds to wait for a query. After that, long polls whose time is over are answered without the result of the
query. Larger: late responses while the database is slow. Set by hand; no measurement is recorded."""
ENDED_AT_ONCE = 8
"""Maximum long polls that are answered in one round of FIRST_LOOK_SECONDS. Larger: a thousand long polls of one job end
sooner, and delay predictions more. Set by hand; no measurement is recorded."""
IDS_A_QUERY = 500
"""Maximum number of ids in one query. Larger: fewer queries. Must be below the parameter limits of both databases."""

# A function that returns the ids, among the given ones, whose rows are not done.
Unfinished = Callable[[Session, Sequence[str]], set[str]]

Wait = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_SECONDS, description="Long poll: maximum seconds to wait until `done` is true."),
]
PreferWait = Annotated[
    str | None, Header(description="`wait=N`: send the response when the job is done, or after N seconds (at most 60).")
]


_ending = threading.Event()


def end_waits() -> None:
    """Answer all waiting long polls now, because the process is shutting down."""
    _ending.set()


async def wait_for(work: asyncio.Task[Any], seconds: float) -> None:
    """Wait until the task is done, at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not work.done() and not _ending.is_set() and (left := deadline - time.monotonic()) > 0:
        await asyncio.wait({work}, timeout=min(left, SLOWEST_LOOK_SECONDS))


class _Poll:
    """A request that waits for a row to be done."""

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
        self._unfinished = unfinished  # by the prefix of the ids
        self._polls: set[_Poll] = set()
        self._ending: deque[_Poll] = deque()
        self._task: asyncio.Task[None] | None = None
        self._look: asyncio.Task[set[str]] | None = None

    async def wait(self, row_id: str, seconds: float) -> None:
        """Wait until the row is done or deleted, at most `seconds`."""
        poll = _Poll(row_id, seconds)
        self._polls.add(poll)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            await poll.over.wait()
        finally:
            self._polls.discard(poll)

    async def _watch(self) -> None:
        """Answer long polls in rounds of FIRST_LOOK_SECONDS, until none is left."""
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
        finally:  # end all polls, because this task no longer answers them
            for poll in (*self._polls, *self._ending):
                poll.over.set()

    async def _over(self, due: Sequence[_Poll]) -> list[_Poll]:
        """Return the long polls whose row is done or whose time is over. Schedule the others again, with growing
        intervals."""
        if self._look is None:
            self._look = asyncio.create_task(POLLS.run(self._done_among, {poll.row_id for poll in due}))
        await wait_for(self._look, LONGEST_LOOK_SECONDS)
        done: set[str] = set()
        if self._look.done():
            look, self._look = self._look, None
            try:
                done = look.result()
            except DATABASE_ERRORS as error:
                log.warning("a query for long polls failed, retrying: %s", error)
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
    """Read a row in a thread. If it is not `done`, wait at most `seconds` until it is, and read it once more."""
    seen = await run_in_threadpool(look)
    if seen["done"] or seconds <= 0 or _ending.is_set():
        return seen
    await watch.wait(row_id, seconds)
    return await run_in_threadpool(look)


def preferred_wait(prefer: str | None, default: float = 0.0) -> float:
    """Return the seconds to wait according to the header Prefer: N for `wait=N`, 0 for `respond-async`. Invalid
    preferences are ignored (RFC 7240)."""
    # the first of several preferences with one name counts
    asked = dict(reversed(PREFERENCE.findall((prefer or "").lower())))
    if seconds := SECONDS.fullmatch(asked.get("wait", "")):
        return min(float(seconds[0]), MAX_WAIT_SECONDS)
    return 0.0 if "respond-async" in asked else default
