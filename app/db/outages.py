"""Recognizes transient database errors: the server is down, fails over, is read-only or overloaded.

Only this module knows SQLSTATEs and SQLite's result codes. `Database` raises transient errors as `DatabaseUnavailable`,
so that a client gets 503 and a worker waits. All other errors are bugs.
"""

import sqlite3

from sqlalchemy import exc
from sqlalchemy.engine import make_url

from app.errors import DatabaseUnavailable

DATABASE_ERRORS = (DatabaseUnavailable, exc.DBAPIError)
"""Errors that a unit of work can raise because of the database. Background loops catch them and retry."""

READ_ONLY = "25006"
"""SQLSTATE of a write to a server that accepts no writes, such as a standby, or a server during a failover."""

DISK_FULL = "53100"

PASSING_CLASSES = frozenset(
    {
        "08",  # connection exceptions
        "40",  # rolled back because of a serialization failure (40001) or a deadlock (40P01)
        "53",  # too many connections (53300), out of memory, disk full
        "57",  # shutdown (57P01), crash of another backend (57P02), starting up (57P03), cancelled by a timeout (57014)
    }
)
"""Classes of SQLSTATEs (first two characters; PostgreSQL documentation, appendix A) that are transient."""
PASSING_STATES = frozenset({READ_ONLY, "55P03", "58000", "58030"})
"""Further transient SQLSTATEs: read-only, lock not available, system and I/O errors."""

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
"""Transient primary result codes of SQLite."""
PRIMARY_CODE = 0xFF
"""Mask of the primary result code, which is the lowest byte of SQLite's extended result codes."""


def passes(error: exc.SQLAlchemyError) -> bool:
    """Return whether an error is transient: the same work can succeed later."""
    if isinstance(error, exc.TimeoutError):  # all connections of the pool are in use
        return True
    if not isinstance(error, exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code is not None and code & PRIMARY_CODE in PASSING_SQLITE
    state = sqlstate(error)
    if state is None:  # the connection broke or could not be made
        return error.connection_invalidated or isinstance(error, exc.OperationalError)
    return state in PASSING_STATES or state[:2] in PASSING_CLASSES


def is_read_only(error: exc.SQLAlchemyError) -> bool:
    """Return whether the database refuses writes but can be read."""
    if isinstance(error, exc.DBAPIError) and isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & PRIMARY_CODE == sqlite3.SQLITE_READONLY
    return sqlstate(error) == READ_ONLY


def is_full(error: exc.SQLAlchemyError) -> bool:
    """Return whether the disk of the database is full."""
    if isinstance(error, exc.DBAPIError) and isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & PRIMARY_CODE == sqlite3.SQLITE_FULL
    return sqlstate(error) == DISK_FULL


def unreachable(url: str, error: DatabaseUnavailable) -> str:
    """Return one line for the terminal that names the database, quotes the driver's message and says what to do."""
    cause = getattr(error.__cause__, "orig", None) or error.detail
    said = " ".join(str(cause).split())
    shown = make_url(url).render_as_string(hide_password=True)
    return f"hyperplane: cannot use the database {shown}: {said}. Check HYPERPLANE_DATABASE_URL and that it is running."


def sqlstate(error: BaseException | None) -> str | None:
    """Return the SQLSTATE of a PostgreSQL error, or None if it has none."""
    state = getattr(getattr(error, "orig", error), "sqlstate", None)
    return state if isinstance(state, str) else None
