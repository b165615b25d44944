"""What runs in a child process: one function, under limits on memory and processor time, and its reply."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from app.datasets.formats import InvalidFile, InvalidOption, TooLarge
from app.system.resources import writable_bytes


@dataclass(frozen=True)
class Limits:
    """What a child may use: private memory beyond what it starts with (mapped files are free), processor seconds."""

    memory_bytes: int = 2 << 30
    cpu_seconds: int = 600


def do_nothing() -> None:
    return


def run_limited(reply: Connection, limits: Limits, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Send back what the function returns or how it refused. Any other exception ends the process."""
    _limit(limits)
    try:
        reply.send(function(*arguments))
    except (InvalidFile, InvalidOption, TooLarge, OSError, MemoryError) as error:
        reply.send(error)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if (held := writable_bytes()) is not None:  # without it nothing tells what the process starts with
        most_bytes = held + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
