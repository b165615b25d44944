"""Alembic's entry point, for `app.db.migrate` and for the command `alembic`.

`app.db.migrate` passes a connection inside a transaction. The command `alembic` passes none: this module then connects
to the database of HYPERPLANE_DATABASE_URL or HYPERPLANE_DATA_DIR, like the service.
"""

import logging
from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from alembic.operations.ops import MigrationScript
from alembic.runtime.migration import MigrationContext, MigrationInfo
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.engine import Connection, make_url

from app.config import Settings
from app.db import Database, UtcDateTime
from app.db.migrate import migrating
from app.db.tables import Base, Json

config = context.config


def number_revision(_context: MigrationContext, _revision: object, directives: list[MigrationScript]) -> None:
    """Give a new revision the next number. Write no file if autogenerate found no difference.

    Revisions are always numbered: `--rev-id` has no effect.
    """
    for script in list(directives):
        is_generated = getattr(config.cmd_opts, "autogenerate", False)
        if is_generated and script.upgrade_ops is not None and script.upgrade_ops.is_empty():
            config.print_stdout("The database matches app.db.tables: no revision was written.")
            directives.remove(script)
        else:
            numbers = [int(known.revision) for known in ScriptDirectory.from_config(config).walk_revisions()]
            script.rev_id = f"{max(numbers, default=0) + 1:04d}"


def render_type(kind: str, item: Any, autogen: AutogenContext) -> str | Literal[False]:
    """Render the column types of `app.db` as types of SQLAlchemy, so that old migrations run after those types
    change."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and item is Json:
        autogen.imports.add("from sqlalchemy.dialects.postgresql import JSONB")
        return 'sa.JSON().with_variant(JSONB(), "postgresql")'
    return False


def is_comparable(_object: object, name: str | None, *_: object) -> bool:
    """Return False for the index `ix_jobs_queue`. SQLite does not report that one of its columns is descending, so
    autogenerate would find a difference each time. A test checks the index."""
    return name != "ix_jobs_queue" or context.get_context().dialect.name != "sqlite"


def check_foreign_keys(ctx: MigrationContext, step: MigrationInfo, **_: object) -> None:
    """Raise if a migration broke a foreign key. `app.db.migrate` turns SQLite's own check off during migrations."""
    if ctx.connection is None or ctx.dialect.name != "sqlite":
        return
    broken = ctx.connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise CommandError(
            f"Revision {step.up_revision_id} broke the foreign key of {len(broken)} rows; nothing was changed. "
            f"The first, as table, rowid, parent: {', '.join(map(str, broken[0][:3]))}."
        )


OPTIONS: dict[str, Any] = {
    "target_metadata": Base.metadata,
    "render_as_batch": True,
    "transactional_ddl": True,
    "compare_server_default": True,
    "include_object": is_comparable,
    "render_item": render_type,
    "process_revision_directives": number_revision,
    "on_version_apply": check_foreign_keys,
}


def run(connection: Connection) -> None:
    context.configure(connection=connection, **OPTIONS)
    context.run_migrations()


def print_sql(dialect: str) -> None:
    """Print the statements instead of running them. Not possible on SQLite, where batch mode reads the tables."""
    if dialect == "sqlite":
        raise CommandError("--sql does not work on SQLite. Set HYPERPLANE_DATABASE_URL to a PostgreSQL URL.")
    context.configure(dialect_name=dialect, literal_binds=True, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


def run_from_command_line() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for chatty in (
        "alembic.ddl.impl",
        "alembic.runtime.plugins",
    ):  # silence the warning about the index that is_comparable skips
        logging.getLogger(chatty).setLevel(logging.ERROR)
    url = Settings().resolved_database_url
    if context.is_offline_mode():
        print_sql(make_url(url).get_backend_name())
        return
    database = Database(url)
    try:
        with migrating(database) as connection:
            run(connection)
    finally:
        database.close()


handed_over: Connection | None = config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    run_from_command_line()
