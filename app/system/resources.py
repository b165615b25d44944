"""Memory, priorities and process settings of this machine or container.

All figures come from Linux's `/proc` and control groups. On other systems there are none, and callers do without.
"""

import ctypes
import hashlib
import mmap
import os
import platform
import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")
M_MMAP_THRESHOLD, MAPPED_FROM_BYTES = -3, 1 << 20
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)")
NAME_LENGTH = 8
"""Characters of the hash in the name of a machine's memory."""
MOST_FILES = 1 << 20
"""Number of open files to assume if the system sets no limit."""
PR_SET_PDEATHSIG = 1
"""Option of prctl that sends a signal to a child when its parent dies (from <linux/prctl.h>)."""
GROUP_TRIES = 5
"""Attempts to change the priority of a session's group. Linux limits such changes to ten per second for all users."""
KILL_FIRST = 500
"""OOM score adjustment of training processes, of 1000. Larger: the kernel kills them earlier, and others later."""


def memory_bytes() -> int:
    """Return the bytes that this process and its children can use: the machine's memory, or a control group's limit."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(limit for limit, _ in _limits())])


def memory_name() -> str:
    """Return a name for the memory of `memory_bytes`. Processes with the same name share that memory."""
    shared = [_text(PROC / "sys/kernel/random/boot_id") or platform.node()]
    least, group = min(((limit, folder) for limit, folder in _limits()), default=(0, None))
    if group is not None and least == memory_bytes():
        shared += [platform.node(), str(group)]  # containers see the same path but have host names of their own
    return hashlib.sha256("\n".join(shared).encode()).hexdigest()[:NAME_LENGTH]


def raise_file_limit() -> int:
    """Raise the limit of open files of this process as far as the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else MOST_FILES


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process and its future children, also relative to processes of other sessions.

    Linux can schedule a session as one group with a priority of its own (autogroup); the priority of a process then
    counts only within its session. Only the leader of the session changes the group: that of a shell is left alone.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # the kernel has no autogroups
            for _ in range(GROUP_TRIES):
                with suppress(BlockingIOError):  # non-root users can change ten groups per second in total
                    (PROC / "self/autogroup").write_text(str(niceness))
                    break
                time.sleep(0.1)


def out_of_memory_kills() -> int:
    """Return how many processes of this control group the kernel has killed for memory. Compare it with later calls."""
    for file in (*(folder / name for folder in _groups() for name in ("memory.events", "memory.oom_control")),):
        if (count := _named_number(file, "oom_kill ")) is not None:
            return count
    return _named_number(PROC / "vmstat", "oom_kill ") or 0


def writable_bytes() -> int | None:
    """Return the writable memory of this process in bytes, as RLIMIT_DATA counts it. None: not known."""
    kilobytes = _named_number(PROC / "self/status", "VmData:")
    return None if kilobytes is None else kilobytes << 10


def offer_as_victim() -> None:
    """Let the kernel kill this process before its supervisor when memory runs out."""
    with suppress(OSError):
        (PROC / "self/oom_score_adj").write_text(str(KILL_FIRST))


def give_back_freed_memory() -> None:
    """Return freed arrays to the system at once. By default the allocator keeps those below 32 MB."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def end_with_parent(parent_pid: int) -> None:
    """Let the kernel end this process when its parent ends (Linux)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent_pid:  # the parent ended before this call
            os._exit(1)


def rename_process(name: str) -> None:
    """Set the name that `ps` shows, as far as the space of the original arguments allows."""
    with suppress(OSError, IndexError, ValueError):
        fields = (PROC / "self/stat").read_text().rpartition(")")[2].split()
        start, past = int(fields[45]), int(fields[46])  # of the arguments, where the system reads them
        ctypes.memmove(start, name.encode()[: past - start - 1].ljust(past - start, b"\0"), past - start)


def forget_code() -> None:
    """Drop program code from memory that only loading needed. Code that is called returns from the page cache.

    Only mappings that were never written are dropped, not even by the dynamic linker.
    """
    advise = getattr(ctypes.CDLL(None, use_errno=True), "madvise", None)
    try:
        lines = (PROC / "self/smaps").read_text().splitlines()
    except OSError:
        return
    first = past = 0
    for line in lines:
        heading = MAPPING.match(line)
        if heading:
            readable_file = heading[3] in ("r-xp", "r--p") and heading[4].startswith("/")
            first, past = (int(heading[1], 16), int(heading[2], 16)) if readable_file else (0, 0)
        elif line.startswith("Anonymous:") and past and advise is not None and line.split()[1] == "0":
            advise(ctypes.c_void_p(first), ctypes.c_size_t(past - first), mmap.MADV_DONTNEED)


@contextmanager
def at_most_more(extra_bytes: int) -> Iterator[None]:
    """Within the block, limit further memory to this many bytes: more raises MemoryError."""
    before, (soft, hard) = writable_bytes(), resource.getrlimit(resource.RLIMIT_DATA)
    if before is not None:
        wanted = before + extra_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _groups() -> Iterator[Path]:
    """List the folders of this process's control group: its own first, then its parents."""
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


def _limits() -> Iterator[tuple[int, Path]]:
    """List the memory limits of the control groups, each with its folder."""
    for folder in _groups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(ValueError):  # "max" means no limit
                yield int(_text(folder / name)), folder


def _text(file: Path) -> str:
    """Return the text of a file, or an empty string if it does not exist."""
    with suppress(OSError):
        return file.read_text()
    return ""


def _named_number(file: Path, name: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.removeprefix(name).split()[0])
    return None
