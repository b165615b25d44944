"""Schema migrations by Alembic, driven from code so that an installed package can migrate itself.

The scripts are in `alembic/` at the top of a checkout; a wheel carries them beside this module, as `migrations/`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from app.db.engine import Database, raising_unavailable

PACKAGED = Path(__file__).parent / "migrations"
CHECKOUT = Path(__file__).parents[2] / "alembic"

PRIVATE_MODE = 0o600
"""Permissions of a new SQLite file: it holds hashes of keys and secrets of webhooks. One that exists keeps its own."""

# Any fixed number: two services that start at once on one PostgreSQL must not migrate at once.
POSTGRESQL_LOCK = 7_165_318_227


class OldSchema(Exception):
    """The database has no schema yet, or that of an older version. The message is for the user."""


class UnknownRevision(Exception):
    """The database has a schema that this version of the code has no migration for. The message is for the user."""


def upgrade(database: Database) -> None:
    """Bring the schema to the newest version; safe to call from several processes at once.

    Raises UnknownRevision, and changes nothing, where a newer version of the code has migrated the database.
    """
    with migrating(database) as connection:
        config = config_for(connection)
        _refuse_unknown(connection, ScriptDirectory.from_config(config))
        command.upgrade(config, "head")


def check_current(database: Database) -> None:
    """Raise OldSchema or UnknownRevision if the schema is not that of this code. Changes nothing, creates no file."""
    shown = database.url.render_as_string(hide_password=True)
    missing = OldSchema(f"{shown} does not have the schema of this version; run `hyperplane migrate` first")
    if database.url.get_backend_name() == "sqlite" and not Path(database.url.database or "").exists():
        raise missing
    with database.read() as session:
        _refuse_unknown(session.connection(), ScriptDirectory.from_config(_config()))
    if not is_current(database):
        raise missing


@contextmanager
def migrating(database: Database) -> Iterator[Connection]:
    """One transaction for all migrations, in one process at a time. `alembic/env.py` calls it for the command line."""
    if database.url.get_backend_name() == "sqlite" and database.url.database:
        file = Path(database.url.database)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(PRIVATE_MODE)  # SQLite gives its other files the same mode
    with (
        raising_unavailable(),
        database.engine.connect() as connection,
        _tables_can_be_replaced(connection),
        connection.begin(),
    ):
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({POSTGRESQL_LOCK})")
        yield connection


def config_for(connection: Connection) -> Config:
    """Alembic's settings for work in a transaction that the caller commits."""
    config = _config()
    config.attributes["connection"] = connection
    return config


def revision(database: Database) -> str | None:
    """The name of the schema that the database has; None: it has none."""
    with database.reserved_read() as session:  # for health checks; on SQLite it must not wait for a writer
        return MigrationContext.configure(session.connection()).get_current_revision()


def is_current(database: Database) -> bool:
    """Whether the schema is exactly the one that this code was written for."""
    return revision(database) == ScriptDirectory.from_config(_config()).get_current_head()


@contextmanager
def _tables_can_be_replaced(connection: Connection) -> Iterator[None]:
    """Switch off foreign keys on SQLite, where batch mode copies a table, drops it and renames the copy.

    The drop would delete the rows that refer to the table, or fail. SQLite ignores the switch inside a transaction.
    `alembic/env.py` checks the keys after each migration.
    """
    driver = connection.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        yield
        return
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


def _refuse_unknown(connection: Connection, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    unknown = sorted(set(MigrationContext.configure(connection).get_current_heads()) - known)
    if unknown:
        raise UnknownRevision(
            f"the database is at schema revision {unknown[0]}, which this version does not know; its newest is "
            f"{scripts.get_current_head()}. A newer version of Hyperplane migrated the database: run that version, "
            "or restore a backup into an empty database"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    return config


def _scripts() -> Path:
    for folder in (PACKAGED, CHECKOUT):
        if (folder / "env.py").is_file():  # beside an installed package, CHECKOUT is the folder of the library
            return folder
    raise FileNotFoundError(f"no migrations in {PACKAGED} or {CHECKOUT}: the installation is incomplete")
