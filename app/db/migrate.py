"""Migrates the database schema with Alembic. It is called from code, so that an installed package can migrate its
database.

In a checkout, the migration scripts are in `alembic/`. In a wheel, they are next to this module, in `migrations/`.
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
"""Permissions of a new SQLite file: only its owner can read it, because it contains hashes of API keys and secrets of
webhooks. Existing files keep their permissions."""

# Key of the advisory lock on PostgreSQL that lets one process at a time migrate. The number is arbitrary but must not
# change.
POSTGRESQL_LOCK = 7_165_318_227


class OldSchema(Exception):
    """Raised when the database has no schema, or the schema of an older version. The message is for the user."""


class UnknownRevision(Exception):
    """Raised when the database has a schema that this version does not know. The message is for the user."""


def upgrade(database: Database) -> None:
    """Migrate the schema to the newest version. Several processes can call it at the same time.

    Raises UnknownRevision, and changes nothing, if a newer version of the code has migrated the database.
    """
    with migrating(database) as connection:
        config = config_for(connection)
        _refuse_unknown(connection, ScriptDirectory.from_config(config))
        command.upgrade(config, "head")


def check_current(database: Database) -> None:
    """Raise OldSchema or UnknownRevision if the schema is not the one of this version. Changes nothing and creates no
    file."""
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
    """Open one transaction for all migrations, in one process at a time. `alembic/env.py` calls this for the command
    `alembic`."""
    if database.url.get_backend_name() == "sqlite" and database.url.database:
        file = Path(database.url.database)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(PRIVATE_MODE)  # SQLite creates its journal and WAL files with the same mode
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
    """Return Alembic's configuration for a connection whose transaction the caller commits."""
    config = _config()
    config.attributes["connection"] = connection
    return config


def revision(database: Database) -> str | None:
    """Return the revision of the database's schema, or None if the database has no schema."""
    with database.reserved_read() as session:  # used by health checks, so it must not wait for a writer on SQLite
        return MigrationContext.configure(session.connection()).get_current_revision()


def is_current(database: Database) -> bool:
    """Return whether the schema is the one of this version."""
    return revision(database) == ScriptDirectory.from_config(_config()).get_current_head()


@contextmanager
def _tables_can_be_replaced(connection: Connection) -> Iterator[None]:
    """Switch off foreign keys on SQLite during migrations.

    Alembic's batch mode copies a table, drops it and renames the copy. With foreign keys on, the drop would fail or
    delete the rows that refer to the table. The switch must be outside of a transaction, because SQLite ignores it
    inside. `alembic/env.py` checks the foreign keys after each migration.
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
        if (
            folder / "env.py"
        ).is_file():  # without this check, CHECKOUT of an installed package would be the folder of the library alembic
            return folder
    raise FileNotFoundError(
        f"no migrations in {PACKAGED} or {CHECKOUT}: the installation is incomplete; install the package again"
    )
