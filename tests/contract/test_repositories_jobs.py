"""What the service relies on when it stores and finds jobs and their events, on every database.

How jobs are claimed and ended is the queue's contract: test_queue.py.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import StatementError

from app.datasets.repository import count_unfinished_jobs
from app.db import Database
from app.db.job_state import JobStatus
from app.db.queries import list_events
from app.db.tables import JobRow
from app.jobs import repository
from tests.support.builders import NOBODY, count_rows, job_row


def store(database: Database, *rows: JobRow) -> list[str]:
    with database.write() as session:
        for row in rows:
            repository.insert(session, row)
    return [row.id for row in rows]


def listed(database: Database, limit: int = 100, before_id: str | None = None, **filters: Any) -> list[str]:
    with database.read() as session:
        found = repository.list_newest(session, limit, before_id, repository.Filters(**filters))
        return [row.id for row in found]


def test_a_row_comes_back_as_it_was_stored_with_its_defaults(database: Database) -> None:
    row = job_row(spec={"C": 0.1, "nested": {"a": [1, None, "x"]}}, labels={"k": "v"}, priority=-7)
    store(database, row)
    with database.read() as session:
        found = repository.get(session, row.id)
    assert found is not None
    assert found.spec == {"C": 0.1, "nested": {"a": [1, None, "x"]}}
    assert (found.labels, found.priority, found.status) == ({"k": "v"}, -7, "queued")
    assert (found.attempt, found.worker_deaths, found.fence, found.progress) == (0, 0, 0, 0.0)
    assert (found.request, found.error, found.result, found.model_id) == (None, None, None, None)
    assert found.created_at == row.created_at


def test_a_trace_is_read_only_when_asked_for(database: Database) -> None:
    (job_id,) = store(database, job_row(trace=[{"primal": 1.5}]))
    with database.read() as session:
        without = repository.get(session, job_id)
        assert without is not None
        assert "trace" not in without.__dict__
    with database.read() as session:
        with_trace = repository.get(session, job_id, with_trace=True)
        assert with_trace is not None
        assert with_trace.__dict__["trace"] == [{"primal": 1.5}]


def test_an_unknown_id_is_none(database: Database) -> None:
    with database.read() as session:
        assert repository.get(session, f"job_{NOBODY}") is None


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_json_cannot_hold_is_not_stored(database: Database, number: float) -> None:
    with pytest.raises((StatementError, ValueError), match="JSON compliant"):
        store(database, job_row(spec={"C": number}))
    assert count_rows(database, JobRow) == 0


def test_a_list_is_newest_first_and_pages_meet_without_overlap(database: Database) -> None:
    ids = store(database, *(job_row() for _ in range(5)))
    newest_first = ids[::-1]
    assert listed(database) == newest_first
    assert listed(database, limit=2) == newest_first[:2]
    assert listed(database, limit=2, before_id=newest_first[1]) == newest_first[2:4]
    assert listed(database, limit=2, before_id=newest_first[3]) == newest_first[4:]


def test_a_list_is_filtered_by_status_and_label_together(database: Database) -> None:
    ids = store(
        database,
        job_row(status="queued", labels={"team.x": "a"}),
        job_row(status="failed", labels={"team.x": "a"}),
        job_row(status="failed", labels={"team.x": "b"}),
    )
    assert listed(database, status="failed") == [ids[2], ids[1]]
    assert listed(database, labels={"team.x": "a"}) == [ids[1], ids[0]]
    assert listed(database, status="failed", labels={"team.x": "a"}) == [ids[1]]
    assert listed(database, status="succeeded") == []


def test_a_list_is_filtered_by_what_a_job_is_and_when_it_came(database: Database) -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    ids = store(
        database,
        job_row(created_at=noon, model_name="a", spec={"task": "auto"}, result={"task": "binary"}),
        job_row(created_at=noon + timedelta(seconds=1), model_name="b", spec={"task": "regression"}),
        job_row(created_at=noon + timedelta(seconds=2), model_name="b", type="predict", spec={}),
    )
    assert listed(database, type="train") == [ids[1], ids[0]]
    assert listed(database, name="b") == [ids[2], ids[1]]
    assert listed(database, name="b", type="predict") == [ids[2]]
    assert listed(database, task="binary") == [ids[0]]
    assert listed(database, task="regression") == [ids[1]]
    assert listed(database, task="ordinal") == []
    assert listed(database, created_after=noon) == [ids[2], ids[1]]
    assert listed(database, created_after=noon + timedelta(seconds=2)) == []


def test_the_queue_position_counts_what_is_served_before(database: Database) -> None:
    priorities = [0, 5, 0, 5, -1]
    ids = store(database, *(job_row(priority=priority) for priority in priorities))
    store(database, job_row(status="running", priority=9), job_row(status="succeeded", priority=9))
    with database.read() as session:
        rows = [repository.get(session, job_id) for job_id in ids]
        positions = [repository.queue_position(session, row) for row in rows if row is not None]
    assert positions == [2, 0, 3, 1, 4]


def test_a_move_that_is_not_allowed_changes_nothing(database: Database) -> None:
    queued, done = store(database, job_row(), job_row(status=JobStatus.SUCCEEDED))
    for job_id, status in ((queued, JobStatus.SUCCEEDED), (done, JobStatus.QUEUED)):
        with database.write() as session:
            job = repository.get(session, job_id, lock=True)
            assert job is not None
            with pytest.raises(AssertionError, match="there is no transition"):
                repository.update_locked(session, job, status=status)
    with database.read() as session:
        found = [repository.get(session, job_id) for job_id in (queued, done)]
    assert [job and job.status for job in found] == ["queued", "succeeded"]


def test_only_queued_and_running_jobs_keep_a_dataset_busy(database: Database) -> None:
    store(database, *(job_row(status=status, dataset_id="ds_a") for status in JobStatus))
    store(database, job_row(dataset_id="ds_b"))
    with database.read() as session:
        assert count_unfinished_jobs(session, "ds_a") == 3
        assert count_unfinished_jobs(session, "ds_c") == 0


def test_events_are_told_oldest_first_in_pages_and_apart_for_each_job(database: Database) -> None:
    job_id, other = store(database, job_row(), job_row())
    with database.write() as session:
        for number in range(4):
            repository.append_event(session, job_id, "job.progress", {"number": number})
        repository.append_event(session, other, "job.running", {})
    with database.read() as session:
        events = list_events(session, job_id, 100, None)
        assert [event.type for event in events] == ["job.queued", *["job.progress"] * 4]
        assert [event.data for event in events[1:]] == [{"number": number} for number in range(4)]
        page = list_events(session, job_id, 2, events[1].id)
        assert [event.id for event in page] == [events[2].id, events[3].id]
