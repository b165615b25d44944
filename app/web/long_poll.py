"""Waiting for the end of something without holding a thread: long polls, and what a `Prefer` header asks for."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

from anyio import sleep
from fastapi import Query
from starlette.concurrency import run_in_threadpool

MAX_WAIT_SECONDS = 60.0
FIRST_LOOK_SECONDS = 0.02
SLOWEST_LOOK_SECONDS = 0.5
PREFERENCE = re.compile(r'(?:^|,)\s*([^\s=;,"]+)\s*(?:=\s*"?([^\s;,"]*)"?)?')
SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
LATE_BY = 0.05  # of what was waited for: nobody minds, and looks become rarer

Wait = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_SECONDS, description="answer when it is done, or after this many seconds"),
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


async def wait_until_done(look: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Look, in a thread each time, until what is seen is `done` or the seconds are over."""
    began = time.monotonic()
    while True:
        seen = await run_in_threadpool(look)
        waited = time.monotonic() - began
        if seen["done"] or waited >= seconds or _ending.is_set():
            return seen
        pause = min(max(FIRST_LOOK_SECONDS, LATE_BY * waited), SLOWEST_LOOK_SECONDS)
        await sleep(min(pause, seconds - waited))


def preferred_wait(prefer: str | None, default: float = 0.0) -> float:
    """The seconds that `Prefer: wait=N` or `respond-async` asks for. What makes no sense is ignored (RFC 7240)."""
    asked = dict(reversed(PREFERENCE.findall((prefer or "").lower())))  # the first of equal ones counts
    if seconds := SECONDS.fullmatch(asked.get("wait", "")):
        return min(float(seconds[0]), MAX_WAIT_SECONDS)
    return 0.0 if "respond-async" in asked else default
