"""A fair write lock for the threads of one process: first come, first served.

SQLite allows one writer at a time. Other writers poll with growing delays, so a thread that has waited long polls less
often than a new one. Without this lock, a thread could wait half a minute while a hundred others are served.
"""

import threading
from collections import deque


class Turns:
    """A fair lock: the thread that has waited longest gets it next."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def take(self, patience_seconds: float) -> bool:
        """Acquire the lock. Returns False if that takes longer than `patience_seconds`."""
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
            if mine not in self._waiting:  # another thread passed the lock on just when the wait timed out
                return True
            self._waiting.remove(mine)
            return False

    def give(self) -> None:
        """Release the lock."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
