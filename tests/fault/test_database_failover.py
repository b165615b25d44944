"""PostgreSQL becomes read only, breaks connections in a commit, restarts: 503 at worst, nothing lost, nothing twice."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, make_url, select, text

from app.db import Database
from app.db.tables import JobRow
from app.errors import DatabaseUnavailable
from app.jobs import repository
from app.main import create_app
from app.web.context import context_of
from tests.soak.run import Plan, soak_postgresql
from tests.support.builders import InProcess, checked_problem, job_row, migrated_database, temporary_settings
from tests.support.postgres import PrivateServer, fresh_database, private_server
from tests.support.serving import wait_until

IN_SYNC_WAIT = "wait_event = 'SyncRep'"
IN_TRIGGER = "wait_event = 'PgSleep'"
SLEEP_IN_COMMIT = """
CREATE FUNCTION sleep_in_commit() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION sleep_in_commit()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    with private_server() as server:
        yield server


@pytest.fixture
def database(server: PrivateServer) -> Iterator[Database]:
    with fresh_database(server.url) as url, migrated_database(url) as database:
        yield database


def test_a_read_only_server_is_a_reason_to_try_again(server: PrivateServer, database: Database, tmp_path: Path) -> None:
    app = create_app(temporary_settings(tmp_path, database_url=database.url.render_as_string(hide_password=False)))
    context_of(app).readers_warm = lambda: True
    http = InProcess(app)
    hook = {"url": "https://example.com/hook"}
    assert http.get("/readyz").status_code == 200
    server.set_read_only(on=True)
    try:
        wait_until(lambda: http.get("/readyz").status_code == 503, 10, "the server to be read only")
        assert "read-only" in http.get("/readyz").json()["checks"]["database"]
        refused = http.post("/v1/webhooks", json=hook)
        problem = checked_problem(refused, 503)
        assert (problem["code"], problem["retryable"]) == ("unavailable", True)
        assert "read-only" in problem["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert http.get("/v1/jobs").status_code == 200, "reads are answered"
    finally:
        server.set_read_only(on=False)
    wait_until(lambda: http.get("/readyz").status_code == 200, 10, "the server to accept writes")
    assert http.post("/v1/webhooks", json=hook).status_code == 201
    context_of(app).database.close()


def test_no_pool_keeps_connections_to_a_read_only_server(database: Database) -> None:
    """Keys, health checks and predictions have connections of their own."""

    def server_processes() -> list[int | None]:
        with database.read() as reading, database.reserved_read() as reserved, database.look() as looking:
            return [one.scalar(select(func.pg_backend_pid())) for one in (reading, reserved, looking)]

    def write() -> None:
        with database.write() as session:
            session.execute(text("SET TRANSACTION READ ONLY"))
            repository.insert(session, job_row())

    before = server_processes()
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        write()
    assert not set(before) & set(server_processes())


def in_broken_commit(server: PrivateServer, place: str, act: Callable[[], None]) -> None:
    """Do something in whose commit the connection breaks, once the server process waits at this place."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            act()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: server.end_backends(place) == 1, 20, "the commit")
    thread.join(60)
    if raised:
        raise raised[0]


def insert_job(database: Database, row: JobRow) -> None:
    with database.write() as session:
        repository.insert(session, row)


def jobs_in(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(JobRow)) or 0


def test_a_commit_that_happened_before_the_connection_broke_is_acknowledged(
    server: PrivateServer, database: Database
) -> None:
    """The server has committed and waits for a standby that is not there; then its process is ended."""
    server.configure("synchronous_standby_names", "absent")
    row = job_row()
    try:
        in_broken_commit(server, IN_SYNC_WAIT, lambda: insert_job(database, row))
    finally:
        server.configure("synchronous_standby_names", "")
    assert jobs_in(database) == 1
    assert row.status == "queued", "the caller can still read its row"


def test_a_commit_that_did_not_happen_can_be_tried_again(server: PrivateServer, database: Database) -> None:
    with database.write() as session:
        session.connection().exec_driver_sql(SLEEP_IN_COMMIT)
    with pytest.raises(DatabaseUnavailable) as refused:
        in_broken_commit(server, IN_TRIGGER, lambda: insert_job(database, job_row()))
    assert refused.value.code == "unavailable", "it is known that nothing was stored"
    assert jobs_in(database) == 0


def test_the_standby_that_takes_over_is_found() -> None:
    """The URL names both servers; the pool leaves the dead one by itself."""
    with private_server() as primary:
        standby, sockets = primary.start_standby()
        address = make_url(primary.url)
        both = {"host": f"{address.query['host']},{sockets}", "port": "5432,5432", "target_session_attrs": "read-write"}
        on_standby = Database(address.set(query={"host": sockets}).render_as_string(hide_password=False))
        with migrated_database(address.set(query=both).render_as_string(hide_password=False)) as database:
            primary.configure("synchronous_standby_names", "*")  # what is acknowledged is on both
            insert_job(database, job_row())
            with pytest.raises(DatabaseUnavailable, match="read-only"):
                on_standby.check_writable()
            with pytest.raises(DatabaseUnavailable, match="read-only"):
                insert_job(on_standby, job_row())
            primary.fail_over_to(standby)
            insert_job(database, job_row())
            insert_job(on_standby, job_row())
            assert jobs_in(database) == 3
        on_standby.close()


def test_failovers_under_load_lose_nothing_and_double_nothing() -> None:
    faults = ("make_read_only", "break_connections", "restart_database", "make_read_only")
    plan = Plan(seed=24, seconds=120.0, most_faults=4, faults=faults, pause_seconds=(0.0, 0.3), lets_work=True)
    ledger = soak_postgresql(plan)
    assert ledger.faults == []
    trainings = [job for job in ledger.jobs.values() if job.type == "train"]  # the others are jobs on models
    assert ledger.counts["submitted"] == len(trainings) > 0
    assert ledger.counts["jobs succeeded"] > 0
    assert ledger.counts["failed worker_died"] == 0, "no worker died"
