"""Solving time: what limits, traces and results count by. The clock stands still while numba compiles or loads kernels.

It listens to the events of numba's compiler lock, which is held while a kernel is compiled or read from the cache on
disk. A run in a fresh process therefore has the same time as one whose kernels are there. `solvers` reads it wherever
seconds are counted, the app's worker for the limit of a job.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

__all__ = ["NotCompiled", "only_cached", "solving_time", "watch_compilation"]

LOADING = "numba:compiler_lock"
"""The kind of event that covers compiling and reading from the cache."""
COMPILING = "numba:compile"
"""The kind of event that covers compiling alone. Numba compiles one kernel at a time, and its callees within it."""


class NotCompiled(Exception):
    """A kernel is not in numba's cache, where only cached ones are wanted."""


class _SolvingClock(event.Listener):
    """Wall time without the union of the intervals in which any thread compiles or loads kernels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depths: dict[int, int] = {}
        """By thread: how many of its intervals are open. They nest."""
        self._stands_since = 0.0
        self._stood = 0.0

    def on_start(self, _event: Any) -> None:
        thread = threading.get_ident()
        with self._lock:
            if not self._depths:
                self._stands_since = time.perf_counter()
            self._depths[thread] = self._depths.get(thread, 0) + 1

    def on_end(self, _event: Any) -> None:
        thread = threading.get_ident()
        with self._lock:
            if self._depths.get(thread, 0) > 1:
                self._depths[thread] -= 1
            else:
                self._close(thread)

    def now(self) -> float:
        with self._lock:
            # A thread that asks for the time is not compiling. An interrupt can lose the end of an interval.
            self._close(threading.get_ident())
            moment = self._stands_since if self._depths else time.perf_counter()
            return moment - self._stood

    def _close(self, thread: int) -> None:
        if self._depths.pop(thread, None) is not None and not self._depths:
            self._stood += time.perf_counter() - self._stands_since


_CLOCK = _SolvingClock()
event.register(LOADING, _CLOCK)  # type: ignore[no-untyped-call]  # numba has no types


def solving_time() -> float:
    """Seconds on a clock that stands still while kernels are compiled or loaded in this process.

    Only differences have a meaning. Not to be called by a listener of numba's events.
    """
    return _CLOCK.now()


class _Watch(event.Listener):
    def __init__(self, began: Callable[[], object], ended: Callable[[], object]) -> None:
        self._began, self._ended = began, ended
        self._depth = 0

    def on_start(self, _event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began()

    def on_end(self, _event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._ended()


@contextmanager
def watch_compilation(began: Callable[[], object], ended: Callable[[], object]) -> Iterator[None]:
    """Within it, call `began` before a kernel is compiled and `ended` after it, in the thread that compiles.

    Kernels that are read from the cache are not reported. An error of `began` stops the compilation.
    """
    with event.install_listener(COMPILING, _Watch(began, ended)):
        yield


@contextmanager
def only_cached() -> Iterator[None]:
    """Within it, a call that would have to compile a kernel raises NotCompiled."""

    def refuse() -> None:
        raise NotCompiled

    with watch_compilation(refuse, lambda: None):
        yield
