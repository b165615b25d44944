"""Migrations lead from an empty database to exactly the tables of `app.db.tables`, and back, on every database."""

import multiprocessing
import threading
import time
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from app.db import Database
from app.db.migrate import SCRIPTS, is_current, upgrade
from app.db.tables import Base, DatasetRow
from tests.support.builders import count_rows, dataset_row, migrated_database


def differences(database: Database) -> list[object]:
    """What Alembic would still have to do."""

    def is_comparable(_object: object, name: str | None, *_: object) -> bool:
        # SQLite does not tell that a column of an index descends; a test of its own looks at this one.
        return name != "ix_jobs_queue" or database.engine.dialect.name != "sqlite"

    with database.engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "include_object": is_comparable}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata))


def test_the_migrated_schema_is_the_one_of_the_code(database_url: str) -> None:
    with migrated_database(database_url) as database:
        assert differences(database) == []


def test_the_comparison_would_see_a_difference(database_url: str) -> None:
    with migrated_database(database_url) as database:
        with database.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE keys ADD COLUMN surplus INTEGER")
            connection.exec_driver_sql("DROP INDEX ix_jobs_dataset_id")
        assert len(differences(database)) == 2


def test_the_next_job_is_found_in_an_index_without_sorting(database_url: str) -> None:
    query = "SELECT id FROM jobs WHERE status = :status ORDER BY priority DESC, id LIMIT 1"
    with migrated_database(database_url) as database, database.engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # its planner scans a table as small as this one
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN" if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
        plan = connection.execute(text(f"{explain} {query}"), {"status": "queued"}).fetchall()
    assert "ix_jobs_queue" in str(plan)
    assert "sort" not in str(plan).lower()
    assert "b-tree" not in str(plan).lower()


def test_is_current_is_false_before_and_true_after(database_url: str) -> None:
    database = Database(database_url)
    assert not is_current(database)
    upgrade(database)
    assert is_current(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    assert not is_current(database)
    database.close()


def test_looking_at_the_version_does_not_wait_for_a_writer(database_url: str) -> None:
    with migrated_database(database_url) as database:
        writing, finished = threading.Event(), threading.Event()

        def write_slowly() -> None:
            with database.write() as session:
                session.add(dataset_row())
                session.flush()
                writing.set()
                finished.wait(20)

        thread = threading.Thread(target=write_slowly)
        thread.start()
        try:
            assert writing.wait(20)
            started = time.monotonic()
            assert is_current(database)
            assert time.monotonic() - started < 10
        finally:
            finished.set()
            thread.join()


def test_upgrading_again_changes_nothing_and_keeps_the_rows(database_url: str) -> None:
    with migrated_database(database_url) as database:
        with database.write() as session:
            session.add(dataset_row())
        upgrade(database)
        assert count_rows(database, DatasetRow) == 1


def test_downgrading_to_the_beginning_leaves_nothing(database_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with migrated_database(database_url) as database:
        with database.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "base")
        assert inspect(database.engine).get_table_names() == ["alembic_version"]
        assert not is_current(database)
        upgrade(database)
        assert differences(database) == []


def test_two_services_that_start_at_once_both_migrate(database_url: str) -> None:
    processes = multiprocessing.get_context("fork")  # they start at once, without importing anything first
    together = processes.Barrier(2)

    def start() -> None:
        database = Database(database_url)
        together.wait(30)
        upgrade(database)

    starts = [processes.Process(target=start) for _ in range(2)]
    for service in starts:
        service.start()
    for service in starts:
        service.join(60)
    assert [service.exitcode for service in starts] == [0, 0]
    database = Database(database_url)
    assert is_current(database)
    assert differences(database) == []
    database.close()


def test_a_folder_that_does_not_exist_yet_is_made(tmp_path: Path) -> None:
    with migrated_database(f"sqlite:///{tmp_path / 'new' / 'deeper' / 'hyperplane.db'}") as database:
        assert is_current(database)
