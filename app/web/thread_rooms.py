"""Separate thread pools for each kind of work, so that, for example, a prediction does not wait for writes.

Plain endpoint functions that only read run in anyio's default threads. All other work uses one of the pools below.
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
    """A limited number of threads for one kind of work. If all are busy, a coroutine waits, without a thread."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = threads
        self._limiter: RunVar[CapacityLimiter] = RunVar(f"{name} threads")  # one limiter per event loop

    async def run(
        self, function: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = CapacityLimiter(self._threads)
            self._limiter.set(limiter)
        return await to_thread.run_sync(partial(function, *arguments, **named), limiter=limiter)


# Each thread can need a database connection. The connection pools of app/db/engine.py are sized for the sum of these
# threads. Larger pools: more requests at once, more connections.
READ_THREADS = 24
"""Number of default threads, for routes that read. Larger: more database connections, and no more throughput, because
Python runs one thread at a time."""
MODELS = ThreadRoom("models", 4)
"""Threads that look up models that are not in the cache. Larger: more lookups at once, more database connections."""
PREDICTIONS = ThreadRoom("predictions", 8)
"""Threads that parse and score bodies that would block the event loop for too long. Larger: more large predictions at
once, each slower."""
HEALTH = ThreadRoom("health", 2)
"""Threads that run the checks of `/readyz`. Larger: more simultaneous checks, more database connections."""
KEYS = ThreadRoom("keys", 4)
"""Threads that look up API keys that are not in the cache. Larger: more lookups at once, more database connections."""
KNOWN_KEYS = ThreadRoom("known keys", 2)
"""Threads that renew cached API keys. They are separate, so that many unknown keys do not delay valid ones."""
POLLS = ThreadRoom("polls", 1)
"""The thread that queries the database for all long polls."""
WRITES = ThreadRoom("writes", 16)
"""Threads that write to the database. On SQLite only one write runs at a time, and all wait while another process
writes."""
FILES = ThreadRoom("files", 8)
"""Threads that write bodies of uploads to the disk. Larger: more writes at once, on disks that can serve them."""


class RoomRoute(APIRoute):
    """A route whose plain function runs in the threads for writes, except for safe methods (GET, HEAD)."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **described: Any) -> None:
        if not iscoroutinefunction(endpoint) and not SAFE_METHODS.issuperset(described.get("methods") or ()):
            endpoint = _in_room(WRITES, endpoint)
        super().__init__(path, endpoint, **described)


def _in_room(room: ThreadRoom, function: Callable[..., Result]) -> Callable[..., Any]:
    @wraps(function)
    async def run(**arguments: Any) -> Result:
        return await room.run(function, **arguments)

    return run
