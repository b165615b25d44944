"""Runs the process that compiles kernels ahead of use while a slot is idle. The supervisor owns it."""

import logging
import subprocess
import sys
import time
from collections.abc import Sequence

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "app.worker.kernels")
IDLE_SECONDS = 5.0
"""Seconds that a slot must be idle before the process starts. Larger: kernels are compiled later. Smaller: the process
starts more often in the pause between two jobs, without compiling anything. Set by hand; no measurement is recorded."""


class CompileAhead:
    """Runs at most one compiling process. The process stops before its next kernel when no slot is idle. A later
    process continues with the missing kernels.

    Missing kernels that `auto` can choose are compiled first, then all others.
    """

    def __init__(self, command: Sequence[str] = COMMAND, idle_seconds: float = IDLE_SECONDS) -> None:
        self._command, self._idle_seconds = command, idle_seconds
        self._parts = ["all"]
        """Arguments of the processes that are still to be run, in order: "first" or "all"."""
        self._has_missed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._idle_since: float | None = None

    @property
    def lacks_first(self) -> bool:
        """Whether kernels that `auto` can choose are missing."""
        return "first" in self._parts

    def miss_first(self) -> None:
        """Note that a training process lacks kernels that most jobs need. Training processes that start later report it
        again."""
        if not self._has_missed:
            self._has_missed = True
            self._parts.insert(0, "first")

    def attend(self, *, is_idle: bool) -> None:
        """Start the process, notice its end, or stop it. Called each time the supervisor wakes."""
        if not is_idle:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = time.monotonic()
        if self._process is not None:
            self._look_after(self._process, is_idle)
        elif self._parts and is_idle and time.monotonic() - (self._idle_since or 0.0) >= self._idle_seconds:
            self._process = subprocess.Popen(
                [*self._command, self._parts[0]], stdin=subprocess.PIPE, start_new_session=True
            )

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _look_after(self, process: subprocess.Popen[bytes], is_idle: bool) -> None:
        assert process.stdin is not None
        code = process.poll()
        if code is None:
            if not is_idle:
                process.stdin.close()  # the process checks its standard input before each kernel
            return
        self._process = None
        if code == 0:
            self._parts.pop(0)
        elif not process.stdin.closed:
            log.warning("compiling ahead failed (exit code %s); jobs compile the kernels that they need", code)
            self._parts.clear()
        process.stdin.close()
