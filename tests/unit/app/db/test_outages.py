"""Which errors of the database pass: one table for both databases."""

import os
import sqlite3
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import exc, text

from app.db import Database
from app.db.outages import is_full, is_read_only, passes
from app.errors import DatabaseUnavailable


@pytest.mark.parametrize(
    "state",
    ["25006", "40001", "40P01", "53100", "53300", "55P03", "57014", "57P01", "57P02", "57P03", "58030", "08006"],
)
def test_states_of_postgresql_that_pass(state: str) -> None:
    error = wrapped(psycopg.errors.lookup(state)("made up"))
    assert passes(error)
    assert is_read_only(error) == (state == "25006")
    assert is_full(error) == (state == "53100")


@pytest.mark.parametrize("state", ["23505", "42P01", "42601", "22P02", "22003", "XX000", "25P02"])
def test_states_of_postgresql_that_are_faults_of_ours(state: str) -> None:
    assert not passes(wrapped(psycopg.errors.lookup(state)("made up")))


def test_a_connection_that_broke_or_was_never_made_passes() -> None:
    assert passes(wrapped(psycopg.OperationalError("connection refused")))
    assert passes(exc.TimeoutError("QueuePool limit"))
    assert not passes(wrapped(psycopg.InterfaceError("misused")))
    broken = exc.DBAPIError("SELECT 1", None, psycopg.InterfaceError("closed"), connection_invalidated=True)
    assert passes(broken)


@pytest.mark.parametrize(
    ("name", "passing"),
    [
        ("SQLITE_BUSY", True),
        ("SQLITE_BUSY_SNAPSHOT", True),
        ("SQLITE_LOCKED", True),
        ("SQLITE_READONLY_DBMOVED", True),
        ("SQLITE_IOERR_FSYNC", True),
        ("SQLITE_FULL", True),
        ("SQLITE_CANTOPEN", True),
        ("SQLITE_ERROR", False),
        ("SQLITE_CONSTRAINT_UNIQUE", False),
        ("SQLITE_CORRUPT", False),
    ],
)
def test_codes_of_sqlite(name: str, passing: bool) -> None:
    raw = sqlite3.OperationalError("made up")
    raw.sqlite_errorcode = getattr(sqlite3, name)
    assert passes(wrapped(raw)) == passing
    assert is_full(wrapped(raw)) == (name == "SQLITE_FULL")


def test_units_of_work_raise_what_passes_and_nothing_else(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'absent' / 'test.sqlite3'}")
    for unit in (database.read, database.write):
        with pytest.raises(DatabaseUnavailable), unit() as session:
            session.execute(text("SELECT 1"))
    with pytest.raises(DatabaseUnavailable), database.look() as connection:
        connection.execute(text("SELECT 1"))
    there = Database(f"sqlite:///{tmp_path / 'test.sqlite3'}")
    with pytest.raises(exc.OperationalError, match="no such table"), there.read() as session:
        session.execute(text("SELECT * FROM nowhere"))
    there.close()


def test_a_file_that_cannot_be_written_to_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite3'}")
    with database.look() as connection:
        connection.execute(text("SELECT 1"))
    database.check_writable()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write to any file
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        database.check_writable()
    database.close()


def wrapped(raw: Exception) -> exc.DBAPIError:
    """As SQLAlchemy raises it."""
    driver = sqlite3 if isinstance(raw, sqlite3.Error) else psycopg
    error = exc.DBAPIError.instance("SELECT 1", None, raw, driver.Error)
    assert isinstance(error, exc.DBAPIError)
    return error
