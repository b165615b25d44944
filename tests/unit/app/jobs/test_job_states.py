"""Jobs, their leases and their events, in the cases that no other test reaches: stale reads, silence, announcements."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.db import Database
from app.db.engine import current_time
from app.db.notify import ANNOUNCED
from app.db.queries import list_events
from app.db.tables import DeliveryRow, EventRow, JobRow, WebhookRow
from app.errors import Conflict
from app.ids import following_id, new_id
from app.jobs import control, lease, queue, repository
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim, Room
from tests.support.builders import ANY_BLOBS, NOBODY, empty_tables, job_row, migrated_database, queued_jobs
from tests.support.queue_acts import ACTS, claim, do, event_types, get


@pytest.fixture(scope="module")
def module_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with migrated_database(f"sqlite:///{tmp_path_factory.mktemp('jobs') / 'jobs.sqlite3'}") as database:
        yield database


@pytest.fixture
def database(module_database: Database) -> Database:
    empty_tables(module_database.engine)
    return module_database


def last_event(database: Database, job_id: str) -> tuple[str, dict[str, Any]]:
    with database.read() as session:
        one = list_events(session, job_id, 100, None)[-1]
    return one.type, one.data


# --- a unit of work that has read the job before ----------------------------------------------------------------------


def read_then_change(session: Session, claimed: Claim, **values: Any) -> None:
    """The session remembers the job as it was; the row says something else since."""
    assert session.get(JobRow, claimed.job_id) is not None
    changed = update(JobRow).where(JobRow.id == claimed.job_id).values(**values)
    session.execute(changed.execution_options(synchronize_session=False))


@pytest.mark.parametrize("name", sorted(ACTS))
def test_a_lease_that_was_lost_since_the_job_was_read_is_lost(database: Database, name: str) -> None:
    queued_jobs(database, [0])
    claimed = claim(database)
    with database.write() as session:
        read_then_change(session, claimed, fence=claimed.fence + 1)
        with pytest.raises(LeaseLost):
            ACTS[name](session, claimed)


@pytest.mark.parametrize(
    ("act", "request_now", "status"),
    [
        (queue.release, "pause", "paused"),
        (queue.release, "cancel", "cancelled"),
        (queue.worker_died, "cancel", "cancelled"),
        (queue.worker_died, "pause", "paused"),
    ],
)
def test_what_a_client_asked_since_the_job_was_read_counts(
    database: Database, act: Any, request_now: str, status: str
) -> None:
    queued_jobs(database, [0])
    claimed = claim(database)
    with database.write() as session:
        read_then_change(session, claimed, request=request_now)
        act(session, claimed)
    assert get(database, claimed.job_id).status == status


def test_a_client_sees_the_job_as_it_is_now(database: Database) -> None:
    queued_jobs(database, [0])
    claimed = claim(database)
    with database.write() as session:
        read_then_change(session, claimed, status="queued")
        assert control.pause(session, claimed.job_id).status == "paused"


def locked_ids(database: Database, act: Any) -> list[str]:
    """The rows of jobs that PostgreSQL would lock during the act."""
    found = []
    with database.write() as session:

        @event.listens_for(session, "do_orm_execute")
        def note(state: Any) -> None:
            if state.is_select:
                compiled = state.statement.compile(dialect=postgresql.dialect())
                sql = " ".join(str(compiled).split())
                if sql.endswith("FOR UPDATE") and "jobs.id = " in sql:
                    found.extend(str(value) for value in compiled.params.values())

        act(session)
    return found


def test_an_event_locks_its_job_so_that_events_are_committed_in_order(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    assert locked_ids(database, lambda session: repository.append_event(session, job_id, "job.resumed", {})) == [job_id]


# --- deaths and silence -----------------------------------------------------------------------------------------------


def test_the_second_death_for_memory_is_the_last(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    with database.write() as session:
        queue.worker_died(session, claim_in(session), memory_bytes=700)
    job = get(database, job_id)
    assert (job.status, job.worker_deaths, job.peak_bytes) == ("queued", 1, 700)
    assert last_event(database, job_id) == ("job.queued", {"reason": "out_of_memory"})
    with database.write() as session:
        queue.worker_died(session, claim_in(session), memory_bytes=500)
    job = get(database, job_id)
    assert (job.status, job.worker_deaths, job.error["code"]) == ("failed", 2, "out_of_memory")
    assert "2 worker processes" in job.error["message"]
    assert job.error["param"] is None


def test_a_job_that_needed_more_keeps_its_estimate_and_a_pause_is_kept(database: Database) -> None:
    with database.write() as session:
        session.add(job_row(peak_bytes=900))
    claimed = claim(database)
    with database.write() as session:
        control.pause(session, claimed.job_id)
        queue.worker_died(session, claimed, memory_bytes=700)
    job = get(database, claimed.job_id)
    assert (job.status, job.peak_bytes, job.worker_deaths, job.request) == ("paused", 900, 1, None)


def test_three_deaths_of_other_kinds_are_the_end(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    for deaths in (1, 2):
        do(database, queue.worker_died, claim(database))
        job = get(database, job_id)
        assert (job.status, job.worker_deaths, job.peak_bytes) == ("queued", deaths, 0)
        assert last_event(database, job_id) == ("job.queued", {"reason": "worker_died"})
    do(database, queue.worker_died, claim(database))
    job = get(database, job_id)
    assert (job.status, job.worker_deaths, job.error["code"]) == ("failed", 3, "worker_died")
    assert "3 worker processes" in job.error["message"]
    assert last_event(database, job_id) == ("job.failed", {"error": job.error})


def claim_in(session: Session, owner: str = "here/wrk_1") -> Claim:
    claimed = lease.claim_next(session, owner, 60.0)
    assert claimed is not None
    return claimed


def expire(database: Database, *job_ids: str) -> None:
    with database.write() as session:
        past = current_time(session) - timedelta(seconds=1)
        session.execute(update(JobRow).where(JobRow.id.in_(job_ids)).values(lease_expires_at=past))


def test_silence_is_seen_only_in_running_jobs_whose_lease_is_over(database: Database) -> None:
    silent, alive, waiting = queued_jobs(database, [2, 1, 0])
    with database.write() as session:
        claims = [claim_in(session, "here/wrk_1"), claim_in(session, "here/wrk_2")]
    with database.read() as session:
        assert not lease.any_expired(session)
        assert repository.expired(session) == []
    expire(database, waiting)  # a queued job has no lease; an old time there means nothing
    with database.read() as session:
        assert not lease.any_expired(session)
        assert repository.expired(session) == []
    expire(database, silent)
    with database.read() as session:
        assert lease.any_expired(session)
        assert repository.expired(session) == [(claims[0], "here/wrk_1")]
    assert get(database, alive).status == "running"


def test_jobs_of_silent_workers_are_taken_back_and_ones_own_without_blame(database: Database) -> None:
    own, other = queued_jobs(database, [1, 0])
    with database.write() as session:
        mine, theirs = claim_in(session, "here/wrk_1"), claim_in(session, "there/wrk_2")
    expire(database, own, other)
    with database.write() as session:
        assert sorted(queue.requeue_expired(session, "here/wrk_1"), key=str) == sorted([mine, theirs], key=str)
    assert [(get(database, one).status, get(database, one).worker_deaths) for one in (own, other)] == [
        ("queued", 0),
        ("queued", 1),
    ]
    assert last_event(database, own) == ("job.queued", {"reason": "released"})
    assert last_event(database, other) == ("job.queued", {"reason": "worker_died"})


def test_without_a_name_every_silent_worker_is_dead(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claim(database)
    expire(database, job_id)
    with database.write() as session:
        assert len(queue.requeue_expired(session)) == 1
    assert get(database, job_id).worker_deaths == 1


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_tells_the_attempt_and_what_the_job_needs(database: Database) -> None:
    with database.write() as session:
        session.add(job_row(peak_bytes=77, attempt=4, fence=9))
    claimed = claim(database)
    assert (claimed.fence, claimed.peak_bytes) == (10, 77)
    assert get(database, claimed.job_id).attempt == 5
    assert last_event(database, claimed.job_id) == ("job.running", {"attempt": 5})
    started = get(database, claimed.job_id).started_at
    do(database, queue.release, claimed)
    assert get(database, claim(database).job_id).started_at == started, "the first start counts"


def test_a_claim_without_room_waits_and_one_with_room_is_exact(database: Database) -> None:
    with database.write() as session:
        session.add(job_row(peak_bytes=500))
    with database.write() as session:
        for room, expected in ((Room(499, 499), False), (Room(500, 499), False), (Room(500, 500), True)):
            assert lease.is_waiting(session, room) is expected
            assert (lease.claim_next(session, "here/wrk_1", 60.0, room) is not None) is expected


def test_room_is_what_own_claims_and_neighbours_leave(database: Database) -> None:
    with database.write() as session:
        session.add_all([job_row(peak_bytes=needed) for needed in (100, 20, 3, 5)])
    with database.write() as session:
        mine = claim_in(session, "here/wrk_1")
        claim_in(session, "here/wrk_2")
        claim_in(session, "elsewhere/wrk_3")
        assert lease.owner_of("here", "wrk_1") == "here/wrk_1"
        assert lease.room(session, "here/wrk_1", 1000, [mine]) == Room(1000, 880)
        assert lease.room(session, "here/wrk_1", 1000, [], lock=True) == Room(1000, 980)
        assert lease.room(session, "nowhere/wrk_1", 1000, []) == Room(1000, 1000)
        assert lease.room(session, "her_/wrk_1", 1000, []) == Room(1000, 1000), "a name is no pattern"


def test_a_heartbeat_names_what_is_lost_and_what_is_asked(database: Database) -> None:
    queued_jobs(database, [2, 1, 0])
    claims = [claim(database) for _ in range(3)]
    with database.write() as session:
        control.finish(session, claims[1].job_id)
        queue.release(session, claims[2])
        pulse = lease.heartbeat(session, claims, 60.0)
    assert list(pulse.lost) == [claims[2]]
    assert pulse.requests == {claims[1]: "finish"}


# --- events and announcements -----------------------------------------------------------------------------------------


def test_a_job_is_refused_at_once_if_its_id_exists(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    with pytest.raises(IntegrityError), database.write() as session:  # noqa: PT012
        repository.insert(session, job_row(id=job_id))
        pytest.fail("the second row was taken")


@pytest.mark.parametrize("act", [control.cancel, control.pause, control.finish])
@pytest.mark.parametrize("is_running", [True, False])
def test_what_a_client_changes_is_announced(database: Database, act: Any, is_running: bool) -> None:
    with database.write() as session:
        session.add(job := job_row(checkpoint="4" * 64))
    if is_running:
        claim(database)
    with database.write() as session:
        act(session, job.id)
        assert session.info.get(ANNOUNCED)


def test_a_job_that_ends_or_goes_back_is_announced_and_progress_is_not(database: Database) -> None:
    queued_jobs(database, [0])
    claimed = claim(database)
    for name, is_announced in (("progress", None), ("tell", None), ("release", True)):
        with database.write() as session:
            ACTS[name](session, claimed)
            assert session.info.get(ANNOUNCED) is is_announced
    with database.write() as session:
        repository.insert(session, job_row())
        assert session.info.get(ANNOUNCED)


def test_an_event_sorts_behind_those_of_a_clock_that_was_ahead(database: Database) -> None:
    job_id, other = queued_jobs(database, [0, 0])
    ahead = ["evt_7" + "0" * 24 + digit for digit in "38"]
    with database.write() as session:
        moment = current_time(session)
        for number, one in ((0, ahead[1]), (1, ahead[0])):
            session.add(EventRow(id=one, job_id=job_id, type="job.resumed", data={"n": number}, created_at=moment))
    with database.write() as session:
        repository.append_event(session, job_id, "job.waiting", {})
        repository.append_event(session, other, "job.waiting", {})
    assert event_types(database, job_id)[-1] == "job.waiting"
    with database.read() as session:
        assert list_events(session, job_id, 100, None)[-1].id == following_id(ahead[1])
        assert list_events(session, other, 100, None)[-1].id < ahead[0], "another job's clock is not its own"


def test_an_event_is_sent_to_who_wants_it(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    with database.write() as session:
        url, wanted = "https://example.org/", ["job.failed"]
        session.add(
            WebhookRow(
                id=new_id("wh"), url=url, events=wanted, secret="s", job_id=None, created_at=current_time(session)
            )
        )
    do(database, ACTS["fail"], claimed)
    with database.read() as session:
        (delivery,) = session.scalars(select(DeliveryRow)).all()
        assert delivery.event_id == list_events(session, job_id, 100, None)[-1].id


def test_followers_learn_which_jobs_have_news(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "ORS_A_QUERY", 2)
    jobs = queued_jobs(database, [0] * 5)
    with database.read() as session:
        newest = {one: list_events(session, one, 10, None)[-1].id for one in jobs}
    seen = [(one, newest[one]) for one in jobs]
    with database.write() as session:
        for number in (1, 4):
            repository.append_event(session, jobs[number], "job.waiting", {})
    with database.read() as session:
        assert repository.jobs_with_news(session, seen) == {seen[1], seen[4]}
        assert repository.jobs_with_news(session, seen[:1]) == set()
        assert repository.jobs_with_news(session, [(jobs[0], ""), *seen[2:4]]) == {(jobs[0], "")}
        assert repository.jobs_with_news(session, []) == set()


def test_what_is_not_done_is_told_from_what_is(database: Database) -> None:
    rows = [job_row(status=status) for status in ("queued", "paused", "succeeded", "failed", "cancelled")]
    with database.write() as session:
        session.add_all(rows)
    ids = [row.id for row in rows]
    with database.read() as session:
        assert repository.unfinished_among(session, [*ids, f"job_{NOBODY}"]) == set(ids[:2])
        assert repository.unfinished_among(session, ids[1:3]) == {ids[1]}


def test_only_a_training_can_be_finished(database: Database) -> None:
    with database.write() as session:
        session.add(job := job_row(type="evaluate"))
    claim(database)
    with database.write() as session, pytest.raises(Conflict) as refused:
        control.finish(session, job.id)
    assert refused.value.code == "not_a_training_job"
    assert get(database, job.id).request is None


def test_the_words_of_a_refusal(database: Database) -> None:
    ids = queued_jobs(database, [2, 1, 0])
    do(database, ACTS["fail"], claim(database))
    with database.write() as session:
        control.cancel(session, ids[1])
    for job_id, words in ((ids[0], "already failed"), (ids[1], "already been cancelled")):
        with database.write() as session, pytest.raises(Conflict, match=words) as refused:
            control.pause(session, job_id)
        assert refused.value.code == "job_ended"


def test_blobs_that_are_kept_replace_older_ones_of_the_same_column_only(database: Database) -> None:
    queued_jobs(database, [0])
    claimed = claim(database)
    first, second, third = ("1" * 64, 1), ("2" * 64, 2), ("3" * 64, 3)
    with database.write() as session:
        assert queue.keep(session, claimed, {"checkpoint": first, "snapshot": second}, ANY_BLOBS) == []
    with database.write() as session:
        assert queue.keep(session, claimed, {"checkpoint": third}, ANY_BLOBS) == [first[0]]
    job = get(database, claimed.job_id)
    assert (job.checkpoint, job.snapshot) == (third[0], second[0])
    assert sorted(do(database, queue.cancel, claimed)) == sorted([third[0], second[0]])
    job = get(database, claimed.job_id)
    assert (job.checkpoint, job.snapshot, job.lease_owner, job.lease_expires_at) == (None, None, None, None)
    assert job.finished_at is not None


def test_how_far_a_job_is_can_be_told_while_it_is_held(database: Database) -> None:
    queued_jobs(database, [0])
    claimed = claim(database)
    with database.write() as session:
        queue.advance(session, claimed, 0.25)
    assert get(database, claimed.job_id).progress == 0.25
    with database.write() as session, pytest.raises(LeaseLost):
        queue.advance(session, Claim(claimed.job_id, claimed.fence + 1), 0.5)
    assert get(database, claimed.job_id).progress == 0.25
