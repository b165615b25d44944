"""Processes that are copies of this one, and the forkserver that a process's children come from.

A copy shares what is loaded with its origin; a new interpreter would load it again, and hold it again. Light on
purpose: a forkserver starts before the process's own imports, if these are not there yet.
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
    """Start it if it does not run yet; it then imports this module, and what that compiles, beside us.

    `copied`: as a copy of this process, which must have no other thread.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    spawn = util.spawnv_passfds
    if copied:
        util.spawnv_passfds = _copy_passing  # what it and its tracker of resources are started by
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawn
    return context


def settle() -> None:
    """All is loaded that copies of this process are to share."""
    gc.collect()
    gc.freeze()  # a collection would write to all of it, and what a copy writes to is its own
    resources.forget_code()


def copy_process(name: str, work: Callable[[], object], kept_fds: Iterable[int], stdin: int | None = None) -> int:
    """Fork a process that does this work and ends; returns its id. There must be no other thread.

    Of our open files it has the standard ones and those to keep; `stdin` takes the place of its standard input.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until the copy has its own handlers
    pid = os.fork()
    if pid == 0:
        code = 1
        try:  # whatever happens, nothing of what called us goes on twice
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
    """What the work of a copy ends with."""
    # a nameless main module, as of `python -c`: else each process of a forkserver would import ours anew
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
    with suppress(ValueError, OSError):  # the tracker of resources closes them
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _copy_passing(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """In place of `multiprocessing.util.spawnv_passfds`: the code is the same, the interpreter is a copy of ours."""
    code = args[-1]
    name = "hyperplane tracker" if "resource_tracker" in code else "hyperplane forkserver"
    return copy_process(name, partial(_run_beside, os.getpid(), code), passfds)


def _run_beside(parent_pid: int, code: str) -> None:
    """Run the code until the parent ends. By itself a forkserver sees that only when it has compiled all kernels."""
    resources.end_with_parent(parent_pid)
    exec(code, {})


def _close_all_but(kept: Iterable[int]) -> None:
    for kept_fd, next_fd in pairwise([*sorted(kept), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(kept_fd + 1, next_fd)
