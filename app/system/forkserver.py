"""Forks copies of this process, and starts the forkserver that creates its children.

A copy shares the memory of loaded modules with its parent. A new interpreter would load them again into memory of its
own. This module imports few others, so that a forkserver can start before the other imports of the process.
"""

import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from multiprocessing import forkserver, util
from multiprocessing.context import ForkServerContext
from types import ModuleType
from typing import Any

from app.system import resources
from app.system.stop_signals import STOP_SIGNALS, forget_handlers

FOR_READING = "app.datasets.reading.parser_preload"
FOR_TRAINING = "app.worker.preload"


def start_forkserver(preload: str, *, copied: bool = False) -> ForkServerContext:
    """Start the forkserver if it is not running. The forkserver imports the module `preload` while this process
    continues.

    With `copied`, the forkserver is a forked copy of this process, which must have no other thread.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    spawn = util.spawnv_passfds
    if copied:
        # multiprocessing calls this to start the forkserver and its resource tracker
        util.spawnv_passfds = _copy_passing
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawn
    return context


def settle() -> None:
    """Prepare the memory for sharing with forked copies. Call it when everything that they share is loaded."""
    gc.collect()
    gc.freeze()  # a garbage collection would write to all objects, and written pages are no longer shared
    resources.forget_code()


def copy_process(name: str, work: Callable[[], object], kept_fds: Iterable[int], stdin: int | None = None) -> int:
    """Fork a process that runs `work` and ends. Returns its process id. This process must have no other thread.

    The copy keeps the standard files and the descriptors `kept_fds`. The descriptor `stdin` replaces its standard
    input.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # block signals until the copy has signal handlers of its own
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:  # ends in os._exit, because the caller's code must not continue in the copy
            if stdin is not None:
                os.dup2(stdin, 0)
            _close_all_but({0, 1, 2, *kept_fds})
            resources.rename_process(name)
            code = _exit_code(work, before)
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _exit_code(work: Callable[[], object], signal_mask: Iterable[int]) -> int:
    """Run the work of a copy and return its exit code."""
    # a main module without a file, as with `python -c`; with a file, each child would import it again
    sys.modules["__main__"] = ModuleType("__main__")
    forget_handlers()
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    code = 0
    try:
        work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(ValueError, OSError):  # the resource tracker has closed them
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _copy_passing(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """Run the code of a new interpreter in a forked copy of this process. Replaces
    `multiprocessing.util.spawnv_passfds`."""
    code = args[-1]
    name = "hyperplane tracker" if "resource_tracker" in code else "hyperplane forkserver"
    return copy_process(name, partial(_run_beside, os.getpid(), code), passfds)


def _run_beside(parent_pid: int, code: str) -> None:
    """Run the code, and end when the parent ends. A plain forkserver detects the end of its parent only after its
    imports."""
    resources.end_with_parent(parent_pid)
    exec(code, {})


def _close_all_but(kept: Iterable[int]) -> None:
    for kept_fd, next_fd in pairwise([*sorted(kept), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(kept_fd + 1, next_fd)
