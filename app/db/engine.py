"""Database engine and unit of work: `with database.write() as session: ...` commits once, at its end.

On SQLite a writer takes the write lock when it begins (`BEGIN IMMEDIATE`), so two writers wait for each other and
cannot deadlock. The threads of one process queue for the lock (write_queue.py). `synchronous=FULL` makes commits
durable. WAL mode is used from SQLite 3.51.3 on, because older versions can corrupt a WAL that several processes write
or checkpoint at the same time.

Transient errors (outages.py) are raised as `DatabaseUnavailable`. If the connection breaks during a commit, the outcome
is looked up (commit_outcome.py), and no error is raised if the commit happened.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import DateTime, Dialect, create_engine, event, func, select
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator

from app.db import commit_outcome, outages
from app.db.commit_outcome import OutcomeUnknown, UnitOfWork
from app.db.notify import ANNOUNCED
from app.db.write_queue import Turns
from app.errors import DatabaseFull, DatabaseUnavailable

log = logging.getLogger(__name__)

SAFE_WAL_VERSION = (3, 51, 3)
LOCK_WAIT_MS = 30_000
"""Maximum milliseconds that a write waits for SQLite's lock. Larger: fewer 503 responses under load, longer waits. Set
by hand; no measurement is recorded."""
POOL = {"pool_size": 10, "max_overflow": 50}
"""Database connections of a process: 10 stay open, and 50 more are opened under load. Larger: more load on the server.
The maximum must be at least the number of threads that can need a connection (app/web/thread_rooms.py). Otherwise
threads wait for the connections of other requests."""
RESERVED_POOL = {"pool_size": 2, "max_overflow": 14}
"""Separate connections for predictions, API keys and health checks, so that these do not wait for other requests.
Larger: more load on the server. Set by hand; no measurement is recorded."""
PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
"""TCP options that detect a dead PostgreSQL host after about 25 s. Values are in seconds, `tcp_user_timeout` in
milliseconds. Larger: a longer interruption of the network is survived, and a dead host is detected later. With the
defaults of Linux, a query would wait for about 15 minutes. Parameters of the database URL override these."""

NO_ANSWER = "The database does not respond; retry later."
READ_ONLY = "The database is read-only at the moment; nothing was changed. Retry later."
FULL = "The disk of the database is full; nothing was changed."
OUTCOME_UNKNOWN = (
    "The connection to the database broke while the change was stored, and whether it was stored is not known. "
    "Check whether it exists, or send the request again with the same Idempotency-Key."
)


class UtcDateTime(TypeDecorator[datetime]):
    """A column type for times in UTC. It adds the zone on SQLite, which stores none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time to be stored must have a time zone, such as datetime.now(UTC)")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Database:
    """Provides sessions and connections. `read()` never writes. `write()` commits when its block ends without an error.

    Every method raises DatabaseUnavailable for transient errors.
    """

    def __init__(self, url: str) -> None:
        self.url = _with_patience(make_url(url))
        self.engine = _create_engine(self.url, **POOL)
        self._readers = self.engine.execution_options(sqlite_begin="BEGIN")
        self._turns = Turns() if self.url.get_backend_name() == "sqlite" else None
        self._reserved = _create_engine(self.url, **RESERVED_POOL)
        self._reserved_readers = self._reserved.execution_options(sqlite_begin="BEGIN")
        self._lookers = self._reserved.execution_options(sqlite_begin=None)
        for engine in (self.engine, self._reserved):
            event.listen(engine, "handle_error", self._leave_read_only_server)
        self.on_announced: Callable[[], None] | None = None
        """Called after a commit that announces new work, on databases without notifications (notify.py)."""

    @contextmanager
    def read(self) -> Iterator[Session]:
        with raising_unavailable(), Session(self._readers, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def reserved_read(self) -> Iterator[Session]:
        """Open a session like `read()`, on a connection that is reserved for API keys and health checks."""
        with raising_unavailable(), Session(self._reserved_readers, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """Open a reserved connection without a transaction, for predictions. It costs a third of the time of
        `read()`."""
        with raising_unavailable(), self._lookers.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Session]:
        with raising_unavailable(), UnitOfWork(self.engine, expire_on_commit=False) as session:
            with self._turn():
                try:
                    yield session
                    session.flush()
                except BaseException:
                    session.rollback()
                    raise
                self._commit(session)
            if self.on_announced is not None and session.info.get(ANNOUNCED):
                self.on_announced()

    def _commit(self, session: Session) -> None:
        """Commit. Returns if the commit happened and raises if it did not, even if the connection breaks meanwhile."""
        commit = commit_outcome.about_to_commit(session)
        try:
            session.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                session.rollback()
                raise
            log.warning("the connection broke during a commit: %s", error.orig)
            # No rollback, because it would expire the rows, which the caller can still need.
            try:
                was_committed = commit_outcome.was_committed(self.engine, commit)
            except OutcomeUnknown:
                raise DatabaseUnavailable(OUTCOME_UNKNOWN, code="outcome_unknown") from error
            if not was_committed:
                raise

    def check_writable(self) -> None:
        """Raise DatabaseUnavailable if the database accepts no writes. Does not write."""
        if self.url.get_backend_name() == "sqlite":
            file = self.url.database
            if file and os.path.exists(file) and not os.access(file, os.W_OK):
                raise DatabaseUnavailable(READ_ONLY)
            return
        with self.look() as connection:
            read_only = select(func.pg_is_in_recovery() | (func.current_setting("transaction_read_only") == "on"))
            if connection.scalar(read_only):
                connection.invalidate()
                self._drop_connections()
                raise DatabaseUnavailable(READ_ONLY)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the write lock of this process on SQLite. Do nothing on other databases."""
        if self._turns is None:
            yield
            return
        if not self._turns.take(LOCK_WAIT_MS / 1000):
            raise DatabaseUnavailable("The database is locked by other writes; nothing was changed. Retry later.")
        try:
            yield
        finally:
            self._turns.give()

    def close(self) -> None:
        self._drop_connections()

    def _leave_read_only_server(self, context: ExceptionContext) -> None:
        """Close all connections after the server has become read-only, so that new ones reach the new primary."""
        if outages.sqlstate(context.original_exception) == outages.READ_ONLY:
            context.is_disconnect = True
            self._drop_connections()

    def _drop_connections(self) -> None:
        """Close all idle connections of both pools."""
        self.engine.dispose()
        self._reserved.dispose()


@contextmanager
def raising_unavailable() -> Iterator[None]:
    """Raise transient errors as DatabaseUnavailable."""
    try:
        yield
    except SQLAlchemyError as error:
        if not outages.passes(error):
            raise
        log.warning("database unavailable: %s", getattr(error, "orig", error))
        if outages.is_full(error):
            raise DatabaseFull(FULL) from error
        raise DatabaseUnavailable(READ_ONLY if outages.is_read_only(error) else NO_ANSWER) from error


def current_time(session: Session) -> datetime:
    """Return the time that leases are compared with: the time of the server on PostgreSQL, of this machine on
    SQLite."""
    if session.get_bind().dialect.name == "postgresql":
        answer = session.scalar(select(func.clock_timestamp()))
        assert isinstance(answer, datetime)
        return answer.astimezone(UTC)
    return datetime.now(UTC)


def _with_patience(url: URL) -> URL:
    return url if url.get_backend_name() == "sqlite" else url.set(query={**PATIENCE, **url.query})


def _create_engine(url: URL, pool_size: int, max_overflow: int) -> Engine:
    # NaN is not valid JSON, so raise here and not in a client that parses it.
    serialize = partial(json.dumps, allow_nan=False, separators=(",", ":"))
    if url.get_backend_name() != "sqlite":
        return create_engine(
            url, json_serializer=serialize, pool_pre_ping=True, pool_size=pool_size, max_overflow=max_overflow
        )
    engine = create_engine(url, json_serializer=serialize, pool_size=pool_size, max_overflow=max_overflow)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # keeps the driver from beginning deferred transactions
    journal = "WAL" if sqlite3.sqlite_version_info >= SAFE_WAL_VERSION else "TRUNCATE"
    for pragma in (
        f"busy_timeout={LOCK_WAIT_MS}",
        f"journal_mode={journal}",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    begin = connection.get_execution_options().get("sqlite_begin", "BEGIN IMMEDIATE")
    if begin is not None:
        connection.exec_driver_sql(begin)
