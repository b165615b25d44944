"""What this machine, or the container that it is, has of memory, and whether the kernel ran out of it.

All figures come from Linux's `/proc` and control groups; elsewhere there are none, and the callers do without.
"""

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")
M_MMAP_THRESHOLD, MAPPED_FROM_BYTES = -3, 1 << 20
KILL_FIRST = 500  # of 1000: what the kernel adds to a process's size when it looks for one to kill


def memory_bytes() -> int:
    """What this process and its children may use: the machine's memory, or less if a control group says so."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder in _groups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # "max" is no number, and no limit
                limits.append(int((folder / name).read_text()))
    return min(limits)


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for memory, here or in groups below; only its growth means something."""
    for file in (*(folder / name for folder in _groups() for name in ("memory.events", "memory.oom_control")),):
        if (count := _named_number(file, "oom_kill ")) is not None:
            return count
    return _named_number(PROC / "vmstat", "oom_kill ") or 0


def writable_bytes() -> int | None:
    """Writable memory that this process has asked for: what RLIMIT_DATA counts. None: nothing tells."""
    kilobytes = _named_number(PROC / "self/status", "VmData:")
    return None if kilobytes is None else kilobytes << 10


def offer_as_victim() -> None:
    """If memory runs out, this process is to be killed before those that watch it."""
    with suppress(OSError):
        (PROC / "self/oom_score_adj").write_text(str(KILL_FIRST))


def give_back_freed_memory() -> None:
    """From now on a freed array is the system's again at once. The allocator would keep those below 32 MB for later."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


@contextmanager
def at_most_more(extra_bytes: int) -> Iterator[None]:
    """Within the block, asking for so much memory beyond what is held now is a MemoryError."""
    before, (soft, hard) = writable_bytes(), resource.getrlimit(resource.RLIMIT_DATA)
    if before is not None:
        wanted = before + extra_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _groups() -> Iterator[Path]:
    """The folders of this process's control group, its own first, then those around it."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top = GROUPS / controllers
            own = top / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _named_number(file: Path, name: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.removeprefix(name).split()[0])
    return None
