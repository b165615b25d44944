"""What this machine, or the container that it is, has of memory, and whether the kernel ran out of it.

All figures come from Linux's `/proc` and control groups; elsewhere there are none, and the callers do without.
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
MOST_FILES = 1 << 20  # where the system has no limit
PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
GROUP_TRIES = 5
KILL_FIRST = 500  # of 1000: what the kernel adds to a process's size when it looks for one to kill


def memory_bytes() -> int:
    """What this process and its children may use: the machine's memory, or less if a control group says so."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(limit for limit, _ in _limits())])


def memory_name() -> str:
    """Names the memory that `memory_bytes` tells of: processes for which it has the same name share it."""
    shared = [_text(PROC / "sys/kernel/random/boot_id") or platform.node()]
    least, group = min(((limit, folder) for limit, folder in _limits()), default=(0, None))
    if group is not None and least == memory_bytes():
        shared += [platform.node(), str(group)]  # containers see the same path, each under a name of its own
    return hashlib.sha256("\n".join(shared).encode()).hexdigest()[:NAME_LENGTH]


def raise_file_limit() -> int:
    """Raise the number of files that this process may open as far as the system allows; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else MOST_FILES


def lower_priority(niceness: int) -> None:
    """Of this process and its future children, also beside processes of other sessions.

    Linux may schedule the processes of a session as one group, whose priority is its own; that of a process then says
    nothing to other sessions. The group's is changed only by who leads the session: a shell's is not ours.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # there are no such groups here
            for _ in range(GROUP_TRIES):
                with suppress(BlockingIOError):  # all who are not root may change ten groups a second together
                    (PROC / "self/autogroup").write_text(str(niceness))
                    break
                time.sleep(0.1)


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


def end_with_parent(parent_pid: int) -> None:
    """Have the system end this process when its parent ends, whatever it is doing then (Linux)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent_pid:  # it ended before this call
            os._exit(1)


def rename_process(name: str) -> None:
    """What `ps` is to call this process, as far as its arguments leave room; a copy has those of its origin."""
    with suppress(OSError, IndexError, ValueError):
        fields = (PROC / "self/stat").read_text().rpartition(")")[2].split()
        start, past = int(fields[45]), int(fields[46])  # of the arguments, where the system reads them
        ctypes.memmove(start, name.encode()[: past - start - 1].ljust(past - start, b"\0"), past - start)


def forget_code() -> None:
    """Let go of the program code in memory that only loading needed. What is called comes back at once, from the cache.

    Only of mappings that hold nothing of our own: read and never written, not even by the dynamic linker.
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


def _limits() -> Iterator[tuple[int, Path]]:
    """What control groups allow, each with its folder."""
    for folder in _groups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(ValueError):  # "max" is no number, and no limit
                yield int(_text(folder / name)), folder


def _text(file: Path) -> str:
    """What a file says; nothing if it is not there."""
    with suppress(OSError):
        return file.read_text()
    return ""


def _named_number(file: Path, name: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.removeprefix(name).split()[0])
    return None
