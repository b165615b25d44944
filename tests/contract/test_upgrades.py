"""Databases that older versions left keep every row when they are upgraded; those of newer versions are refused."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.util import CommandError
from sqlalchemy import JSON, Boolean, Column, Connection, DateTime, Float, Integer, MetaData, insert, select, text
from sqlalchemy.exc import IntegrityError

from app.admin.backup import BackupError, back_up, fill_from
from app.db import Database, migrate
from app.db.migrate import CHECKOUT, UnknownRevision, config_for, is_current, migrating, revision, upgrade
from app.db.tables import EventRow, JobRow
from tests.support.builders import count_rows, job_row, migrated_database, temporary_settings

DROPPED = {("jobs", "cancel_requested")}
"""Columns of older revisions whose content a migration has moved elsewhere."""

UNKNOWN = "0099"

DELETES_JOBS = """
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    op.execute("DELETE FROM jobs")
"""

Rows = dict[str, list[dict[str, Any]]]


def example(column: Column[Any], key: str) -> object:
    """A value of the column's type. Every text is the key, so that foreign keys hold."""
    kinds: list[tuple[type[Any], object]] = [
        (JSON, {"é": [1, None]}),
        (Boolean, True),
        (DateTime, datetime(2026, 2, 3, 4, 5, 6, 789, UTC)),
        (Float, 0.1),
        (Integer, 1 << 40),
    ]
    return next((value for kind, value in kinds if isinstance(column.type, kind)), key)


def tables_of(connection: Connection) -> MetaData:
    """The tables as the database has them, whichever revision it is at."""
    found = MetaData()
    found.reflect(connection)
    found.remove(found.tables["alembic_version"])
    return found


def fill(connection: Connection) -> None:
    """Write two rows into every table, with a value in every column."""
    for table in tables_of(connection).sorted_tables:
        for key in ("x", "y"):
            connection.execute(insert(table).values({column.name: example(column, key) for column in table.columns}))


def rows_of(connection: Connection) -> Rows:
    tables = tables_of(connection).sorted_tables
    return {
        table.name: sorted((dict(row) for row in connection.execute(select(table)).mappings()), key=repr)
        for table in tables
    }


def without_columns(rows: Rows, columns: set[tuple[str, str]]) -> Rows:
    return {
        table: [{name: value for name, value in row.items() if (table, name) not in columns} for row in found]
        for table, found in rows.items()
    }


def columns_of(rows: Rows) -> set[tuple[str, str]]:
    return {(table, name) for table, found in rows.items() for name in found[0]}


@pytest.mark.parametrize("start", ["0001", "0002", "0003"])
def test_an_upgrade_keeps_every_row(database_url: str, start: str) -> None:
    database = Database(database_url)
    with migrating(database) as connection:
        command.upgrade(config_for(connection), start)
        fill(connection)
        before = rows_of(connection)
    upgrade(database)
    assert is_current(database)
    with database.engine.connect() as connection:
        after = {table: rows for table, rows in rows_of(connection).items() if table in before}
    assert after.keys() == before.keys()
    gone, new = columns_of(before) - columns_of(after), columns_of(after) - columns_of(before)
    assert gone <= DROPPED
    assert without_columns(after, new) == without_columns(before, gone)
    assert {row["request"] for row in after["jobs"]} == ({"cancel"} if gone else {"x", "y"})
    database.close()


def test_foreign_keys_are_checked_again_after_an_upgrade(database_url: str) -> None:
    database = Database(database_url)
    upgrade(database)
    event = EventRow(id="evt_1", job_id="job_missing", type="t", data={}, created_at=datetime.now(UTC))
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(event)
    database.close()


def test_a_migration_that_breaks_foreign_keys_changes_nothing(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with migrated_database(database_url) as database:
        job = job_row()
        with database.write() as session:
            session.add(job)
            session.flush()
            session.add(EventRow(id="evt_1", job_id=job.id, type="t", data={}, created_at=datetime.now(UTC)))
        head = revision(database)
        shutil.copytree(CHECKOUT, tmp_path / "migrations")
        (tmp_path / "migrations" / "versions" / "9999_delete_jobs.py").write_text(DELETES_JOBS.format(head=head))
        monkeypatch.setattr(migrate, "PACKAGED", tmp_path / "migrations")
        with pytest.raises((CommandError, IntegrityError), match=r"foreign key|ForeignKeyViolation"):
            upgrade(database)
        assert revision(database) == head
        assert count_rows(database, JobRow) == 1


def mark_as_newer(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :unknown"), {"unknown": UNKNOWN})


def test_the_database_of_a_newer_version_is_refused_and_left_alone(database_url: str, tmp_path: Path) -> None:
    with migrated_database(database_url) as database:
        settings = temporary_settings(tmp_path / "data", database_url=database_url)
        back_up(settings, tmp_path / "backup")
        mark_as_newer(database)
        with pytest.raises(UnknownRevision, match=UNKNOWN):
            upgrade(database)
        with pytest.raises(BackupError, match=UNKNOWN):
            fill_from(settings, tmp_path / "backup")
        assert revision(database) == UNKNOWN


@pytest.mark.parametrize("words", [["migrate"], ["keys", "list"], ["serve", "--port", "0"]])
def test_commands_refuse_the_database_of_a_newer_version_in_one_line(tmp_path: Path, words: list[str]) -> None:
    with migrated_database(f"sqlite:///{tmp_path / 'hyperplane.db'}") as database:
        mark_as_newer(database)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *words],
        env=environment | {"HYPERPLANE_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"hyperplane: the database is at schema revision {UNKNOWN}")
    assert len(done.stderr.splitlines()) == 1
