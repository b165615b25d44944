"""SIGTERM and SIGINT as a flag and a pipe, for the launcher and the supervisor.

The handler only sets a flag. It takes no lock and raises nothing, so a signal cannot block the process, whatever code
it interrupts. The interpreter's own C handler writes the byte that ends a sleep to the pipe (`signal.set_wakeup_fd`).
"""

import os
import select
import signal
from contextlib import suppress

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
READ_BYTES = 4096
"""Bytes per read of the pipe. Larger: fewer reads after many signals. Set by hand; no measurement is recorded."""


class StopSignals:
    """Handles stop signals. Create it in the main thread. From then on a stop signal does not end the process; its own
    code must."""

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
        """Return the descriptor of the pipe. It becomes readable when a signal arrives; `drain` reads it."""
        return self._reading

    def drain(self) -> None:
        """Empty the pipe, so that the next sleep on it does not end at once."""
        with suppress(BlockingIOError):
            while os.read(self._reading, READ_BYTES):
                pass

    def wait(self, seconds: float) -> bool:
        """Sleep until a stop signal arrives, at most for `seconds`. Returns whether one has arrived."""
        if not self.asked:
            select.select([self], [], [], max(0.0, seconds))
            self.drain()  # signals other than stop signals write to the pipe, too
        return self.asked

    def _note(self, _number: int, _frame: object) -> None:
        self.asked = True


def forget_handlers() -> None:
    """Restore the default signal handlers in a forked copy of the process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
