"""Retries with back-off: which errors to retry, how long to wait, when to give up."""

import time

MOST_FAILURES = 8
"""Consecutive failures without progress after which the client gives up. Larger: it survives longer outages."""
LONGEST_PAUSE_SECONDS = 10.0
"""Maximum seconds between two attempts. Larger: less load on a failing service, a later restart."""
PASSING = (408, 409, 423, 429, 503)


class Patience:
    """Exponential back-off that gives up after `MOST_FAILURES` failures without progress."""

    def __init__(self) -> None:
        self._failures = 0
        self._reached = 0

    def note_progress(self, reached: int) -> None:
        if reached > self._reached:
            self._reached = reached
            self.begin_anew()

    def begin_anew(self) -> None:
        self._failures = 0

    def wait(self, error: Exception) -> None:
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            raise error
        time.sleep(min(LONGEST_PAUSE_SECONDS, 0.1 * 2**self._failures))
