"""Threads by kind of work, so that one kind never waits for another: a prediction does not queue behind a write.

Work of FastAPI's plain functions that only read runs in anyio's default threads. All else names its room.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi.routing import APIRoute

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ThreadRoom:
    """A limited number of threads for one kind of work. What does not fit waits as a coroutine and holds no thread."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = threads
        self._limiter: RunVar[CapacityLimiter] = RunVar(f"{name} threads")  # one for each event loop

    async def run(
        self, function: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = CapacityLimiter(self._threads)
            self._limiter.set(limiter)
        return await to_thread.run_sync(partial(function, *arguments, **named), limiter=limiter)


# The threads of all rooms and the default ones may each need a connection: see the pools of app/db/engine.py.
READ_THREADS = 24
"""Default threads: routes that read. More gives no more answers a second, as Python runs one thread at a time."""
MODELS = ThreadRoom("models", 4)
"""Finding the model of a prediction that is not at hand."""
PREDICTIONS = ThreadRoom("predictions", 8)
"""Parsing and scoring bodies that are too large for the event loop."""
HEALTH = ThreadRoom("health", 2)
"""`/readyz`."""
KEYS = ThreadRoom("keys", 4)
"""Looking up API keys for the first time."""
KNOWN_KEYS = ThreadRoom("known keys", 2)
"""Looking up API keys again that were valid a moment ago: unknown ones, of which there may be many, do not delay it."""
POLLS = ThreadRoom("polls", 1)
"""One look at the database for all long polls."""
WRITES = ThreadRoom("writes", 16)
"""Writes to the database. On SQLite one of them at a time is at work, and all wait while another process writes."""
FILES = ThreadRoom("files", 8)
"""Bodies of uploads to the disk."""


class RoomRoute(APIRoute):
    """A route whose plain function, if it changes something, runs in the threads for writes."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **described: Any) -> None:
        if not iscoroutinefunction(endpoint) and not SAFE_METHODS.issuperset(described.get("methods") or ()):
            endpoint = _in_room(WRITES, endpoint)
        super().__init__(path, endpoint, **described)


def _in_room(room: ThreadRoom, function: Callable[..., Result]) -> Callable[..., Any]:
    @wraps(function)
    async def run(**arguments: Any) -> Result:
        return await room.run(function, **arguments)

    return run
