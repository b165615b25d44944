"""Telling whoever waits for work that there is some. A hint and nothing more: who misses it looks by himself.

On PostgreSQL it is a NOTIFY in the transaction that it tells of, so it arrives with the commit, on every machine.
SQLite has nothing like it; there the process that writes most, the API, can be given a way to wake its own worker.
"""

import time

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

CHANNEL = "hyperplane_work"
ANNOUNCED = "announced"
RECONNECT_SECONDS = 1.0
CONNECT_SECONDS = 2


def announce(session: Session) -> None:
    """Wake the workers once this unit of work is committed."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql(f"NOTIFY {CHANNEL}")
    else:
        session.info[ANNOUNCED] = True


class Listener:
    """A connection to PostgreSQL that hears announcements. It may break, and comes back when the server does."""

    def __init__(self, url: URL) -> None:
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: psycopg.Connection | None = None
        self._next_try = 0.0

    @property
    def connection(self) -> psycopg.Connection | None:
        """What can be waited on; None: nothing is heard at present."""
        return self._connection

    def hear(self) -> bool:
        """Whether there may be news: an announcement, or a time in which none could be heard."""
        if self._connection is None:
            return self._connect()
        try:
            return bool(list(self._connection.notifies(timeout=0)))
        except psycopg.Error:
            self.close()
            return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> bool:
        if time.monotonic() < self._next_try:
            return False
        try:
            self._connection = psycopg.connect(self._address, autocommit=True, connect_timeout=CONNECT_SECONDS)
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
        except psycopg.Error:
            self.close()
            self._next_try = time.monotonic() + RECONNECT_SECONDS
            return False
        return True
