"""Memory, priorities and process settings of this machine or container.

All figures come from `/proc` and the control groups of Linux. On other systems they are unknown, and the functions
return None or a default.
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
"""Characters of the hash that `memory_name` returns. Larger: longer names, fewer collisions. Set by hand; no
measurement is recorded."""
MOST_FILES = 1 << 20
"""Number of open files to assume if the system has no limit. Larger: more connections are accepted. Set by hand; no
measurement is recorded."""
PR_SET_PDEATHSIG = 1
"""Option of prctl that sends a signal to a child when its parent dies (from <linux/prctl.h>)."""
GROUP_TRIES = 5
"""Attempts to change the priority of a session's autogroup. Larger: more likely to succeed, slower start. Linux allows
users other than root ten such changes per second in total."""
KILL_FIRST = 500
"""OOM score adjustment of training processes; the maximum is 1000. Larger: when memory runs out, the kernel prefers to
kill training processes to others. Set by hand; no measurement is recorded."""


def memory_bytes() -> int:
    """Return the memory in bytes that this process and its children can use: the memory of the machine, or the limit of
    a control group."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(limit for limit, _ in _limits())])


def memory_name() -> str:
    """Return a name for the memory that `memory_bytes` measures. Processes with the same name share this memory."""
    shared = [_text(PROC / "sys/kernel/random/boot_id") or platform.node()]
    least, group = min(((limit, folder) for limit, folder in _limits()), default=(0, None))
    if group is not None and least == memory_bytes():
        shared += [platform.node(), str(group)]  # two containers can have the same path, but their host names differ
    return hashlib.sha256("\n".join(shared).encode()).hexdigest()[:NAME_LENGTH]


def raise_file_limit() -> int:
    """Raise the limit of open files of this process as far as the system allows. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else MOST_FILES


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process and its future children, also relative to processes of other sessions.

    Linux can schedule a session as one group with a priority of its own (autogroup). The priority of a process then
    counts only within its session. The group's priority is changed only if this process leads the session, so that the
    session of a user's shell is left alone.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # the kernel has no autogroups
            for _ in range(GROUP_TRIES):
                with suppress(BlockingIOError):  # users other than root can change ten groups per second in total
                    (PROC / "self/autogroup").write_text(str(niceness))
                    break
                time.sleep(0.1)


def out_of_memory_kills() -> int:
    """Return the number of processes of this control group that the kernel has killed for lack of memory. The
    difference between two calls shows new kills."""
    for file in (*(folder / name for folder in _groups() for name in ("memory.events", "memory.oom_control")),):
        if (count := _named_number(file, "oom_kill ")) is not None:
            return count
    return _named_number(PROC / "vmstat", "oom_kill ") or 0


def writable_bytes() -> int | None:
    """Return the writable memory of this process in bytes, as RLIMIT_DATA counts it, or None if it is unknown."""
    kilobytes = _named_number(PROC / "self/status", "VmData:")
    return None if kilobytes is None else kilobytes << 10


def offer_as_victim() -> None:
    """Make the kernel kill this process before its supervisor when memory runs out."""
    with suppress(OSError):
        (PROC / "self/oom_score_adj").write_text(str(KILL_FIRST))


def give_back_freed_memory() -> None:
    """Make the allocator return the memory of freed arrays to the system at once. By default it keeps arrays below 32
    MB."""
    with suppress(OSError, AttributeError):  # the C library has no mallopt
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def end_with_parent(parent_pid: int) -> None:
    """Make the kernel kill this process when its parent ends. Linux only."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent_pid:  # the parent ended before this call
            os._exit(1)


def rename_process(name: str) -> None:
    """Set the name that `ps` shows. It is cut to the length of the original arguments."""
    with suppress(OSError, IndexError, ValueError):
        fields = (PROC / "self/stat").read_text().rpartition(")")[2].split()
        start, past = int(fields[45]), int(fields[46])  # addresses of the arguments, where `ps` reads them
        ctypes.memmove(start, name.encode()[: past - start - 1].ljust(past - start, b"\0"), past - start)


def forget_code() -> None:
    """Release the memory of program code that was needed only during imports. Code that is called later is loaded again
    from the page cache.

    Releases only mappings that nothing has written to, not even the dynamic linker.
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
    """Limit the memory that the `with` block can allocate to `extra_bytes`. Allocating more raises MemoryError."""
    before, (soft, hard) = writable_bytes(), resource.getrlimit(resource.RLIMIT_DATA)
    if before is not None:
        wanted = before + extra_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _groups() -> Iterator[Path]:
    """Yield the folder of this process's control group, then the folders of its parent groups."""
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
    """Yield the memory limit and the folder of each control group that has a limit."""
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
