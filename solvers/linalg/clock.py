"""The clock of solving time, by which limits, traces and results are measured. It stops while numba compiles or loads
kernels.

It listens to the events of numba's compiler lock, which is held while a kernel is compiled or read from the cache on
disk. A run in a new process therefore reports the same time as a run whose kernels are already loaded. `solvers` uses
this clock wherever it counts seconds; the app's worker uses it for the time limit of a job.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

__all__ = ["NotCompiled", "only_cached", "solving_time", "watch_compilation"]

LOADING = "numba:compiler_lock"
"""Numba's event for compiling a kernel or reading it from the cache."""
COMPILING = "numba:compile"
"""Numba's event for compiling alone. Numba compiles one kernel at a time, together with its callees."""


class NotCompiled(Exception):
    """A kernel is not in numba's cache, although only cached kernels were allowed."""


class _SolvingClock(event.Listener):
    """Wall time minus the time in which any thread compiles or loads kernels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depths: dict[int, int] = {}
        """For each thread, the number of nested intervals in which it compiles or loads kernels."""
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
            # A thread that asks for the time is not compiling. If it has an open interval, an interrupt prevented the
            # end event.
            self._close(threading.get_ident())
            moment = self._stands_since if self._depths else time.perf_counter()
            return moment - self._stood

    def _close(self, thread: int) -> None:
        if self._depths.pop(thread, None) is not None and not self._depths:
            self._stood += time.perf_counter() - self._stands_since


_CLOCK = _SolvingClock()
event.register(LOADING, _CLOCK)  # type: ignore[no-untyped-call]  # numba has no types


def solving_time() -> float:
    """Return the seconds on a clock that stops while this process compiles or loads kernels.

    Only differences between two calls are meaningful. Listeners of numba's events must not call this function.
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
    """Call `began` before and `ended` after each compilation of a kernel, in the thread that compiles.

    Kernels that are read from the cache are not reported. An exception in `began` stops the compilation.
    """
    with event.install_listener(COMPILING, _Watch(began, ended)):
        yield


@contextmanager
def only_cached() -> Iterator[None]:
    """Raise NotCompiled for every call in this context that would have to compile a kernel."""

    def refuse() -> None:
        raise NotCompiled

    with watch_compilation(refuse, lambda: None):
        yield
