"""A supervisor outlives a database that is away and a storage that fails, and blames no worker for either."""

import errno
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.db import Database
from app.db.engine import current_time
from app.db.tables import JobRow
from app.errors import DatabaseUnavailable
from app.jobs import lease
from app.storage import BlobStore
from app.worker.supervisor import Supervisor
from tests.support.builders import migrated_database, queued_jobs, temporary_settings


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with migrated_database(temporary_settings(tmp_path).resolved_database_url) as database:
        yield database


@pytest.fixture
def supervisor(tmp_path: Path, database: Database) -> Iterator[Supervisor]:
    made = Supervisor(temporary_settings(tmp_path))
    yield made
    made._doorbell.close()
    made._database.close()


def expire(database: Database, owner: str) -> str:
    """A job that this owner claimed, and whose lease has run out since."""
    (job_id,) = queued_jobs(database, [0])
    with database.write() as session:
        assert lease.claim_next(session, owner, 60.0) is not None
        session.execute(update(JobRow).values(lease_expires_at=current_time(session) - timedelta(seconds=1)))
    return job_id


def seen(database: Database, job_id: str) -> tuple[str, int]:
    with database.read() as session:
        job = session.get_one(JobRow, job_id)
        return job.status, job.worker_deaths


def test_a_sweep_that_fails_ends_nothing(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(BlobStore, "sweep_staging", fail)
    supervisor._with_database(supervisor._delete_unowned)


def test_a_silent_worker_is_blamed_only_if_it_could_have_spoken(
    supervisor: Supervisor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = expire(database, "elsewhere/wrk_other")

    def away() -> None:
        raise DatabaseUnavailable("The database is read only at the moment.")

    supervisor._with_database(away)
    supervisor._keep_leases()
    assert seen(database, job_id) == ("running", 0), "its worker may be about to renew the lease"
    monkeypatch.setattr(supervisor, "_judge_from", 0.0)
    supervisor._keep_leases()
    assert seen(database, job_id) == ("queued", 1)


def test_a_supervisor_without_jobs_sees_that_nobody_can_write(
    supervisor: Supervisor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(_: Database) -> None:
        raise DatabaseUnavailable("The database is read only at the moment.")

    monkeypatch.setattr(Database, "check_writable", read_only)
    supervisor._with_database(supervisor._keep_leases)
    monkeypatch.undo()
    job_id = expire(database, "elsewhere/wrk_other")
    supervisor._keep_leases()
    assert seen(database, job_id) == ("running", 0)


def test_a_job_that_was_claimed_unknowingly_goes_back_without_a_death(
    supervisor: Supervisor, database: Database
) -> None:
    """The claim was committed, but its supervisor did not get the answer."""
    job_id = expire(database, supervisor._id)
    supervisor._keep_leases()
    assert seen(database, job_id) == ("queued", 0)
