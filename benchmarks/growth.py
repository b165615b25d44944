"""By how much a process grows while it works."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["with_growth"]

Result = TypeVar("Result")


def with_growth(call: Callable[[], Result]) -> tuple[Result, int]:
    """The result, and by how many bytes this process was larger at most than before the call (Linux)."""
    ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept would be used first, and not be seen
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    return call(), _memory("VmHWM") - before


def _memory(entry: str) -> int:
    found = re.search(rf"{entry}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("the kernel does not say how much memory was used")
    return 1024 * int(found[1])
