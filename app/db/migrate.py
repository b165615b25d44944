"""Schema migrations by Alembic, driven from code so that an installed package can migrate itself."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.db.engine import Database

SCRIPTS = Path(__file__).parent / "migrations"

# Any fixed number: two services that start at once on one PostgreSQL must not migrate at once.
POSTGRESQL_LOCK = 7_165_318_227


def upgrade(database: Database) -> None:
    """Bring the schema to the newest version; safe to call from several processes at once."""
    if database.url.get_backend_name() == "sqlite" and database.url.database:
        Path(database.url.database).parent.mkdir(parents=True, exist_ok=True)
    with database.engine.connect() as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({POSTGRESQL_LOCK})")
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def revision(database: Database) -> str | None:
    """The name of the schema that the database has; None: it has none."""
    with database.read() as session:  # a look must not wait for a writer of SQLite
        return MigrationContext.configure(session.connection()).get_current_revision()


def is_current(database: Database) -> bool:
    """Whether the schema is exactly the one that this code was written for."""
    return revision(database) == ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    return config
