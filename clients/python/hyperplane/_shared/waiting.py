"""Sleeping and reading a file, for both clients."""

import time
from typing import BinaryIO

__all__ = ["async_read", "async_sleep", "read", "sleep"]

sleep = time.sleep


def read(file: BinaryIO, size: int) -> bytes:
    """Read from a file."""
    return file.read(size)


async def async_sleep(seconds: float) -> None:
    """Sleep in the event loop that is running, asyncio's or trio's."""
    import anyio

    await anyio.sleep(seconds)


async def async_read(file: BinaryIO, size: int) -> bytes:
    """Read from a file in a thread, so that a slow disk does not stop the event loop."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(file.read, size)
