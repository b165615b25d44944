"""The supervisor's handle on the process that compiles kernels ahead of use while a slot is idle."""

import logging
import subprocess
import sys
import time
from collections.abc import Sequence

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "app.worker.kernels")
IDLE_SECONDS = 5.0
"""How long a slot must have been idle, in seconds, before the process starts. Larger: kernels are there later. Smaller:
the process starts more often between two jobs that follow each other, in vain."""


class CompileAhead:
    """At most one process at a time. It ends before its next kernel once no slot is idle; numba's cache keeps the rest.

    What `auto` can take is compiled first if some of that is missing, then all else.
    """

    def __init__(self, command: Sequence[str] = COMMAND, idle_seconds: float = IDLE_SECONDS) -> None:
        self._command, self._idle_seconds = command, idle_seconds
        self._parts = ["all"]
        """What has not been compiled yet, in order."""
        self._has_missed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._idle_since: float | None = None

    @property
    def lacks_first(self) -> bool:
        """Whether some of what `auto` can take is missing."""
        return "first" in self._parts

    def miss_first(self) -> None:
        """A training process did not find the kernels that most jobs need. Later ones say so too: they are copies."""
        if not self._has_missed:
            self._has_missed = True
            self._parts.insert(0, "first")

    def attend(self, *, is_idle: bool) -> None:
        """Start the process if it is time, notice its end, or ask it to end; called every time the supervisor wakes."""
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
                process.stdin.close()  # which it looks at before each kernel
            return
        self._process = None
        if code == 0:
            self._parts.pop(0)
        elif not process.stdin.closed:
            log.warning("compiling ahead ended with code %s; jobs compile what they need", code)
            self._parts.clear()
        process.stdin.close()
