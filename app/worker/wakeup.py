"""How a supervisor notices new work: notifications, a pipe from the API process, and polling.

PostgreSQL sends notifications (LISTEN/NOTIFY). An API process of the same parent writes to a pipe. For SQLite the
modification time of the file shows whether anything was written since the last look, without a query.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.db import Database
from app.db.notify import Listener

READ_BYTES = 4096
"""Maximum bytes per read of the pipe. One read empties it."""
RELIABLE_SECONDS = 5.0
"""Seconds between two queries for work while notifications work. Larger: a lost notification costs more time. Set by
hand; no measurement is recorded."""
SQLITE_SUFFIXES = ("", "-wal", "-journal")


class Doorbell:
    def __init__(self, database: Database, poll_seconds: float, wake_fd: int | None = None) -> None:
        """`wake_fd`: pipe through which an API process wakes the supervisor; None: there is none."""
        self._poll_seconds = poll_seconds
        self._wake_fd = wake_fd
        if wake_fd is not None:
            os.set_blocking(wake_fd, False)
            os.set_inheritable(wake_fd, False)
        is_sqlite = database.url.get_backend_name() == "sqlite"
        self._listener = None if is_sqlite else Listener(database.url)
        self._file = Path(database.url.database) if is_sqlite and database.url.database else None
        self._seen: list[tuple[int, int] | None] = []

    @property
    def signs(self) -> list[Any]:
        """List the objects that become readable on a notification."""
        listening = None if self._listener is None else self._listener.connection
        return [one for one in (self._wake_fd, listening) if one is not None]

    @property
    def poll_seconds(self) -> float:
        """Return the seconds between two queries for work without a notification."""
        is_reliable = self._listener is not None and self._listener.connection is not None
        return max(self._poll_seconds, RELIABLE_SECONDS) if is_reliable else self._poll_seconds

    def has_rung(self) -> bool:
        """Whether a notification has arrived since the last call."""
        rung = self._wake_fd is not None and _drained(self._wake_fd)
        heard = self._listener is not None and self._listener.hear()
        return heard or rung

    def may_have_news(self) -> bool:
        """Whether the database can have changed since the last call; True if that is not known."""
        if self._file is None:
            return True
        before, self._seen = self._seen, [_state(Path(f"{self._file}{suffix}")) for suffix in SQLITE_SUFFIXES]
        return self._seen != before

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


def _drained(fd: int) -> bool:
    has_rung = False
    with suppress(BlockingIOError):
        while os.read(fd, READ_BYTES):
            has_rung = True
    return has_rung


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size
