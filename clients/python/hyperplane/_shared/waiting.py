"""Sleeping, reading a file and other work that blocks, for both clients."""

import time
from collections.abc import Callable
from typing import BinaryIO, TypeVar

__all__ = ["LONG_POLL_SECONDS", "async_call", "async_read", "async_sleep", "call", "read", "sleep"]

LONG_POLL_SECONDS = 30.0
"""Seconds that one request waits for the end of a job or of reading a file. Larger: fewer requests; a proxy can cut it
off. Set by hand; nginx's default read timeout is 60 s."""

T = TypeVar("T")

sleep = time.sleep


def read(file: BinaryIO, size: int) -> bytes:
    """Read from a file."""
    return file.read(size)


def call(work: Callable[..., T], *arguments: object) -> T:
    """Call a function."""
    return work(*arguments)


async def async_sleep(seconds: float) -> None:
    """Sleep in the event loop that is running, asyncio's or trio's."""
    import anyio

    await anyio.sleep(seconds)


async def async_read(file: BinaryIO, size: int) -> bytes:
    """Read from a file in a thread, so that a slow disk does not stop the event loop."""
    return await async_call(file.read, size)


async def async_call(work: Callable[..., T], *arguments: object) -> T:
    """Call a function that reads, writes or converts much in a thread, so that it does not stop the event loop."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(work, *arguments)
