"""Which errors of the database pass: the server is away, fails over, is read only, or has no room at the moment.

The only place that knows SQLSTATEs and SQLite's codes. `Database` asks it and raises `DatabaseUnavailable` for what
passes, so that a client gets 503 and a worker waits; every other error is a fault of ours.
"""

import sqlite3

from sqlalchemy import exc
from sqlalchemy.engine import make_url

from app.errors import DatabaseUnavailable

DATABASE_ERRORS = (DatabaseUnavailable, exc.DBAPIError)
"""All that a unit of work can raise for the database's part: what a loop in the background survives and tries again."""

READ_ONLY = "25006"
"""SQLSTATE of a write on a server that accepts none: a standby, or one that fails over."""

PASSING_CLASSES = frozenset(
    {
        "08",  # connection exceptions
        "40",  # the transaction was rolled back: serialization failure (40001), deadlock (40P01)
        "53",  # too many connections (53300), out of memory, disk full
        "57",  # shutdown (57P01), crash of another backend (57P02), starting up (57P03), cancelled by a timeout (57014)
    }
)
"""First two characters of SQLSTATEs (PostgreSQL's documentation, appendix A) of errors that pass."""
PASSING_STATES = frozenset({READ_ONLY, "55P03", "58000", "58030"})
"""Further SQLSTATEs that pass: read only, lock not available, system and I/O errors."""

PASSING_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Primary result codes of SQLite that pass."""
PRIMARY_CODE = 0xFF
"""Mask: SQLite's extended result codes hold the primary one in their lowest byte."""


def passes(error: exc.SQLAlchemyError) -> bool:
    """Whether the same work may succeed later."""
    if isinstance(error, exc.TimeoutError):  # all connections of the pool are in use
        return True
    if not isinstance(error, exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code is not None and code & PRIMARY_CODE in PASSING_SQLITE
    state = sqlstate(error)
    if state is None:  # the connection broke, or none could be made
        return error.connection_invalidated or isinstance(error, exc.OperationalError)
    return state in PASSING_STATES or state[:2] in PASSING_CLASSES


def is_read_only(error: exc.SQLAlchemyError) -> bool:
    """Whether the database can be read and refuses writes."""
    if isinstance(error, exc.DBAPIError) and isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & PRIMARY_CODE == sqlite3.SQLITE_READONLY
    return sqlstate(error) == READ_ONLY


def unreachable(url: str, error: DatabaseUnavailable) -> str:
    """One line for the terminal: which database, what the driver said, what to do."""
    cause = getattr(error.__cause__, "orig", None) or error.detail
    said = " ".join(str(cause).split())
    shown = make_url(url).render_as_string(hide_password=True)
    return f"hyperplane: cannot use the database {shown}: {said}. Check HYPERPLANE_DATABASE_URL and that it is running."


def sqlstate(error: BaseException | None) -> str | None:
    """The SQLSTATE that PostgreSQL named; None: it did not come to that."""
    state = getattr(getattr(error, "orig", error), "sqlstate", None)
    return state if isinstance(state, str) else None
