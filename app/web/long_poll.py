"""Waiting for the end of something without holding a thread: long polls, and what a `Prefer` header asks for."""

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
FIRST_LOOK_SECONDS = 0.02
SLOWEST_LOOK_SECONDS = 0.5
PREFERENCE = re.compile(r'(?:^|,)\s*([^\s=;,"]+)\s*(?:=\s*"?([^\s;,"]*)"?)?')
SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
LATE_BY = 0.05  # of what was waited for: nobody minds, and looks become rarer
LONGEST_LOOK_SECONDS = 2.0
"""Seconds that a look at the database may take. After it the polls whose time is over are answered all the same."""
ENDED_AT_ONCE = 8
"""Polls that are answered in one turn of the watch (20 ms). Larger: a thousand polls of one job end sooner, and hold up
predictions for longer."""
IDS_A_QUERY = 500

# Those of the ids whose rows may still change.
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
    """The process is to end: whoever waits is answered with what there is."""
    _ending.set()


async def wait_for(work: asyncio.Task[Any], seconds: float) -> None:
    """Wait until the work is done or the seconds are over."""
    deadline = time.monotonic() + seconds
    while not work.done() and not _ending.is_set() and (left := deadline - time.monotonic()) > 0:
        await asyncio.wait({work}, timeout=min(left, SLOWEST_LOOK_SECONDS))


class _Poll:
    """One request that waits."""

    def __init__(self, row_id: str, seconds: float) -> None:
        self.row_id = row_id
        self.began = time.monotonic()
        self.ends_at = self.began + seconds
        self.look_at = self.began + FIRST_LOOK_SECONDS
        self.over = asyncio.Event()


class DoneWatch:
    """Waits for rows to be done, on behalf of all long polls of one API process.

    One task looks, and asks the database one question for all whose look is due. A poll that waits holds no thread and
    no connection to the database.
    """

    def __init__(self, database: Database, unfinished: Mapping[str, Unfinished]) -> None:
        self._database = database
        self._unfinished = unfinished  # by the kind of the id
        self._polls: set[_Poll] = set()
        self._ending: deque[_Poll] = deque()
        self._task: asyncio.Task[None] | None = None
        self._look: asyncio.Task[set[str]] | None = None

    async def wait(self, row_id: str, seconds: float) -> None:
        """Until the row is done or gone, or the seconds are over."""
        poll = _Poll(row_id, seconds)
        self._polls.add(poll)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            await poll.over.wait()
        finally:
            self._polls.discard(poll)

    async def _watch(self) -> None:
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
        finally:  # nobody may wait for a watch that has ended
            for poll in (*self._polls, *self._ending):
                poll.over.set()

    async def _over(self, due: Sequence[_Poll]) -> list[_Poll]:
        """Those whose row is done or whose time is over. The others are looked at again later, ever less often."""
        if self._look is None:
            self._look = asyncio.create_task(POLLS.run(self._done_among, {poll.row_id for poll in due}))
        await wait_for(self._look, LONGEST_LOOK_SECONDS)
        done: set[str] = set()
        if self._look.done():
            look, self._look = self._look, None
            try:
                done = look.result()
            except DATABASE_ERRORS as error:
                log.warning("long polls wait: %s", error)
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
    """Look, in a thread; if what is seen is not `done`, look once more when it is or the seconds are over."""
    seen = await run_in_threadpool(look)
    if seen["done"] or seconds <= 0 or _ending.is_set():
        return seen
    await watch.wait(row_id, seconds)
    return await run_in_threadpool(look)


def preferred_wait(prefer: str | None, default: float = 0.0) -> float:
    """The seconds that `Prefer: wait=N` or `respond-async` asks for. What makes no sense is ignored (RFC 7240)."""
    asked = dict(reversed(PREFERENCE.findall((prefer or "").lower())))  # the first of equal ones counts
    if seconds := SECONDS.fullmatch(asked.get("wait", "")):
        return min(float(seconds[0]), MAX_WAIT_SECONDS)
    return 0.0 if "respond-async" in asked else default
