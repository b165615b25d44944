"""Wakes workers when a commit makes new work. This is only an optimization, because workers also poll the queue.

On PostgreSQL the transaction sends a NOTIFY, which reaches the workers of every machine with the commit. SQLite has no
notifications; there the API process wakes its own worker through `Database.on_announced`.
"""

import time

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

CHANNEL = "hyperplane_work"
ANNOUNCED = "announced"
RECONNECT_SECONDS = 1.0
"""Seconds between two attempts to reconnect. Larger: less load on a failing server, later notifications. Set by hand;
no measurement is recorded."""
CONNECT_SECONDS = 2
"""Timeout of an attempt to connect, in seconds. Larger: slower servers are reached, dead servers are detected later.
Set by hand; no measurement is recorded."""


def announce(session: Session) -> None:
    """Wake the workers when this unit of work commits."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql(f"NOTIFY {CHANNEL}")
    else:
        session.info[ANNOUNCED] = True


class Listener:
    """A PostgreSQL connection that receives notifications. It reconnects after the connection breaks."""

    def __init__(self, url: URL) -> None:
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: psycopg.Connection | None = None
        self._next_try = 0.0

    @property
    def connection(self) -> psycopg.Connection | None:
        """Return the connection to wait on, or None while it is not connected."""
        return self._connection

    def hear(self) -> bool:
        """Return whether there can be new work: a notification has arrived, or notifications can have been lost because
        the connection was down."""
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
