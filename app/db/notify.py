"""Wake workers when there is work. Only an optimisation: workers also poll the queue.

On PostgreSQL it is a NOTIFY in the transaction of the change, so it arrives on every machine with the commit. SQLite
has no notifications; there the API process wakes its own worker through `Database.on_announced`.
"""

import time

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

CHANNEL = "hyperplane_work"
ANNOUNCED = "announced"
RECONNECT_SECONDS = 1.0
"""Seconds between two attempts to reconnect. Larger: less load on a failing server, later notifications."""
CONNECT_SECONDS = 2
"""Seconds after which an attempt to connect fails. Larger: slow servers are reached, dead ones are noticed later."""


def announce(session: Session) -> None:
    """Wake the workers when this unit of work commits."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql(f"NOTIFY {CHANNEL}")
    else:
        session.info[ANNOUNCED] = True


class Listener:
    """A PostgreSQL connection that receives notifications. It reconnects after a break."""

    def __init__(self, url: URL) -> None:
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: psycopg.Connection | None = None
        self._next_try = 0.0

    @property
    def connection(self) -> psycopg.Connection | None:
        """Return the connection to wait on; None: not connected."""
        return self._connection

    def hear(self) -> bool:
        """Whether there can be new work: a notification arrived, or the connection was down for a while."""
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
