"""Whose turn it is to write, among the threads of one process: first come, first served.

SQLite lets one write at a time and has the others look again, ever more rarely: who has waited long loses to
whoever comes, and may wait for half a minute while a hundred others are served.
"""

import threading
from collections import deque


class Turns:
    """A lock that goes to whoever has waited longest."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def take(self, patience_seconds: float) -> bool:
        """Wait for one's turn; False: it did not come in time."""
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=patience_seconds):
            return True
        with self._guard:
            if mine not in self._waiting:  # it came just now
                return True
            self._waiting.remove(mine)
            return False

    def give(self) -> None:
        """End one's turn."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
