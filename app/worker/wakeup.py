"""How a supervisor learns that there may be work: what it can sleep on, and what a look costs when there is none.

PostgreSQL rings (LISTEN/NOTIFY). A parent that also runs the API rings through a pipe. A SQLite file that nobody has
written to since the last look holds nothing new, and the system's word for that costs no query.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.db import Database
from app.db.notify import Listener

READ_BYTES = 4096
RELIABLE_SECONDS = 5.0
"""How long a bell that rings by itself is trusted without a look."""
SQLITE_SUFFIXES = ("", "-wal", "-journal")


class Doorbell:
    def __init__(self, database: Database, poll_seconds: float, wake_fd: int | None = None) -> None:
        """`wake_fd` is the end of a pipe through which a parent lets others ring."""
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
        """What becomes readable when it rings."""
        listening = None if self._listener is None else self._listener.connection
        return [one for one in (self._wake_fd, listening) if one is not None]

    @property
    def poll_seconds(self) -> float:
        """How often to look for work that nobody rang for."""
        is_reliable = self._listener is not None and self._listener.connection is not None
        return max(self._poll_seconds, RELIABLE_SECONDS) if is_reliable else self._poll_seconds

    def has_rung(self) -> bool:
        """Whether it rang since this was last asked."""
        rung = self._wake_fd is not None and _drained(self._wake_fd)
        heard = self._listener is not None and self._listener.hear()
        return heard or rung

    def may_have_news(self) -> bool:
        """Whether anything was written since this was last asked; True if that cannot be told."""
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
