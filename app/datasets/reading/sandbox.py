"""Runs one function in a child process under limits on memory and CPU time, and returns its result."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from app.datasets.formats import InvalidFile, InvalidOption, TooLarge
from app.system.resources import writable_bytes


@dataclass(frozen=True)
class Limits:
    """Limits of a child process: private memory in bytes in addition to its memory at the start, and CPU seconds.
    Mapped files do not count as private memory."""

    memory_bytes: int = 2 << 30
    cpu_seconds: int = 600


def do_nothing() -> None:
    return


def run_limited(reply: Connection, limits: Limits, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Call the function and send its result, or its expected error, to the parent. Any other exception ends the
    process."""
    _limit(limits)
    try:
        reply.send(function(*arguments))
    except (InvalidFile, InvalidOption, TooLarge, OSError, MemoryError) as error:
        reply.send(error)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if (held := writable_bytes()) is not None:  # None: the memory at the start is unknown, so no limit is set
        most_bytes = held + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
