"""SIGTERM and SIGINT as a flag and a pipe, for the launcher and the supervisor.

The handler sets a flag and nothing else. It takes no lock and raises nothing, so a second signal inside it, or one
inside any other code of the main thread, cannot block the process. The interpreter's own C handler writes the byte that
ends a sleep (`signal.set_wakeup_fd`).
"""

import os
import select
import signal
from contextlib import suppress

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
READ_BYTES = 4096
"""Bytes per read of the pipe."""


class StopSignals:
    """Handles stop signals. Create it in the main thread; then the process ends only when its own code does so."""

    def __init__(self) -> None:
        self.asked = False
        """Whether a stop signal has arrived."""
        self._reading, writing = os.pipe()
        for fd in (self._reading, writing):
            os.set_blocking(fd, False)
            os.set_inheritable(fd, False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Becomes readable when a signal arrives; read it with `drain`."""
        return self._reading

    def drain(self) -> None:
        """Empty the pipe, so that the next sleep on it does not end at once."""
        with suppress(BlockingIOError):
            while os.read(self._reading, READ_BYTES):
                pass

    def wait(self, seconds: float) -> bool:
        """Sleep until a stop signal arrives, at most for `seconds`; return whether one has arrived."""
        if not self.asked:
            select.select([self], [], [], max(0.0, seconds))
            self.drain()  # other signals write to the pipe too
        return self.asked

    def _note(self, _number: int, _frame: object) -> None:
        self.asked = True


def forget_handlers() -> None:
    """Restore the default signal handlers in a forked copy of the process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
