"""The queue's contract on every database: who gets which job, and that only the owner of a job writes to it.

A lease of -1 seconds has expired when it is granted, so no test waits for a clock.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import select

from app.db import Database
from app.db.engine import current_time
from app.db.job_state import FINAL, TRANSITIONS, JobStatus, check_transition
from app.db.tables import BlobOwnerRow, ModelNameRow, ModelRow
from app.jobs import lease, queue, repository
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim
from app.models import service as models
from tests.support.builders import ANY_BLOBS, NOBODY, count_rows, interrupted_write, job_row, model_row, queued_jobs
from tests.support.queue_acts import (
    ACTS,
    ERROR,
    LEASE_SECONDS,
    POINT,
    claim,
    client_cancels,
    do,
    event_types,
    get,
    look,
)


def requeue_expired(database: Database) -> list[Claim]:
    with database.write() as session:
        return queue.requeue_expired(session)


def test_the_highest_priority_is_served_first_and_then_the_oldest(database: Database) -> None:
    ids = queued_jobs(database, [0, 5, -3, 5, 0, 1000])
    order = [claim(database).job_id for _ in ids]
    assert order == [ids[5], ids[1], ids[3], ids[0], ids[4], ids[2]]
    with database.write() as session:
        assert lease.claim_next(session, "wrk_test", LEASE_SECONDS) is None


def test_a_claim_marks_the_job_as_running_under_a_lease(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    with database.read() as session:
        assert lease.is_waiting(session)
        before = current_time(session)
    claimed = claim(database)
    job = get(database, job_id)
    assert (job.status, job.attempt, job.fence, claimed) == ("running", 1, 1, Claim(job_id, 1))
    assert job.started_at is not None
    assert job.lease_expires_at is not None
    assert 0 <= (job.started_at - before).total_seconds() < 5
    assert (job.lease_expires_at - job.started_at).total_seconds() == pytest.approx(LEASE_SECONDS, abs=1e-3)
    assert event_types(database, job_id) == ["job.queued", "job.running"]
    with database.read() as session:
        assert not lease.is_waiting(session)


def test_eight_claimers_take_each_of_a_hundred_jobs_once(database: Database) -> None:
    ids = queued_jobs(database, [number % 3 for number in range(100)])

    def take_all(owner: int) -> list[Claim]:
        taken = []
        while True:
            with database.write() as session:
                claimed = lease.claim_next(session, f"wrk_{owner}", LEASE_SECONDS)
            if claimed is None:
                return taken
            taken.append(claimed)

    with ThreadPoolExecutor(8) as threads:
        taken = [one for part in threads.map(take_all, range(8)) for one in part]
    assert sorted(one.job_id for one in taken) == ids
    assert {one.fence for one in taken} == {1}


@pytest.mark.parametrize("name", ACTS)
def test_a_stale_claim_writes_nothing(database: Database, name: str) -> None:
    (job_id,) = queued_jobs(database, [0])
    stale = claim(database, lease_seconds=-1)
    requeue_expired(database)
    current = claim(database)
    assert current.fence > stale.fence
    before = look(database, job_id)
    with pytest.raises(LeaseLost):
        do(database, ACTS[name], stale)
    assert look(database, job_id) == before
    do(database, ACTS[name], current)


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("ending", ["succeed", "fail", "cancel"])
def test_an_ended_job_is_never_written_again(database: Database, name: str, ending: str) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    do(database, ACTS[ending], claimed)
    before = look(database, job_id)
    assert JobStatus(before[0]["status"]).done
    with pytest.raises(LeaseLost):
        do(database, ACTS[name], claimed)
    assert look(database, job_id) == before


@pytest.mark.parametrize("name", ACTS)
def test_a_queued_job_belongs_to_nobody(database: Database, name: str) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    do(database, queue.release, claimed)
    before = look(database, job_id)
    with pytest.raises(LeaseLost):
        do(database, ACTS[name], claimed)
    assert look(database, job_id) == before


def test_a_claim_of_a_job_that_does_not_exist_is_lost(database: Database) -> None:
    for act in ACTS.values():
        with pytest.raises(LeaseLost):
            do(database, act, Claim(f"job_{NOBODY}", 1))


def owned(database: Database) -> set[tuple[str, str]]:
    with database.read() as session:
        return {(row.owner_id, row.sha256) for row in session.scalars(select(BlobOwnerRow))}


def test_a_job_owns_its_newest_checkpoint_and_nothing_once_it_has_ended(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    old, new, model = "5" * 64, "6" * 64, "7" * 64
    keep = partial(queue.keep, blobs=ANY_BLOBS, new={"checkpoint": (old, 10), "snapshot": (model, 3)})
    assert do(database, keep, claimed) == []
    assert do(database, partial(queue.keep, blobs=ANY_BLOBS, new={"checkpoint": (new, 20)}), claimed) == [old]
    job = get(database, job_id)
    assert (job.checkpoint, job.snapshot) == (new, model)
    assert owned(database) == {(job_id, new), (job_id, model)}
    do(database, queue.release, claimed)
    assert get(database, job_id).checkpoint == new
    assert set(do(database, ACTS["fail"], claim(database))) == {new, model}
    job = get(database, job_id)
    assert (job.checkpoint, job.snapshot, owned(database)) == (None, None, set())


def test_a_cancelled_job_that_nobody_ran_owns_nothing(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    do(database, ACTS["keep"], claimed)
    do(database, queue.release, claimed)
    client_cancels(database, job_id)
    assert (get(database, job_id).checkpoint, owned(database)) == (None, set())


def test_progress_is_what_clients_watch(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    do(database, ACTS["progress"], claim(database))
    job = get(database, job_id)
    assert (job.status, job.progress, job.primal, job.relative_gap, job.passes) == ("running", 0.5, 1.5, 0.5, 2)
    assert job.trace == [POINT]
    assert event_types(database, job_id)[-1] == "job.progress"


def test_the_endings_say_how_it_went(database: Database) -> None:
    succeeded, failed, cancelled = queued_jobs(database, [0, 0, 0])
    for name in ("succeed", "fail", "cancel"):
        do(database, ACTS[name], claim(database))
    jobs = [get(database, job_id) for job_id in (succeeded, failed, cancelled)]
    assert [job.status for job in jobs] == ["succeeded", "failed", "cancelled"]
    assert (jobs[0].model_id, jobs[0].result, jobs[0].progress) == (f"mdl_{NOBODY}", {"ok": True}, 1.0)
    assert (jobs[1].error, jobs[1].model_id) == (ERROR, None)
    for job in jobs:
        assert (job.lease_owner, job.lease_expires_at) == (None, None)
        assert job.started_at is not None
        assert job.finished_at is not None
        assert job.finished_at >= job.started_at
        assert event_types(database, job.id)[-1] == f"job.{job.status}"


def test_a_heartbeat_renews_what_is_held_and_names_what_is_lost(database: Database) -> None:
    queued_jobs(database, [0, 0, 0])
    held, lost, stopped = (claim(database, lease_seconds=-1) for _ in range(3))
    do(database, ACTS["fail"], lost)
    client_cancels(database, stopped.job_id)
    with database.write() as session:
        pulse = lease.heartbeat(session, [held, lost, stopped], LEASE_SECONDS)
    assert (list(pulse.lost), pulse.requests) == ([lost], {stopped: "cancel"})
    assert requeue_expired(database) == [], "a renewed lease was taken away"
    with database.write() as session:
        assert lease.heartbeat(session, [], LEASE_SECONDS) == lease.Pulse([], {})


def test_only_expired_leases_are_taken_back(database: Database) -> None:
    queued_jobs(database, [0, 0])
    silent, alive = claim(database, lease_seconds=-1), claim(database)
    do(database, ACTS["progress"], silent)
    assert requeue_expired(database) == [silent]
    assert requeue_expired(database) == []
    job = get(database, silent.job_id)
    assert (job.status, job.worker_deaths, job.lease_owner, job.progress) == ("queued", 1, None, 0.5)
    assert get(database, alive.job_id).status == "running"
    again = claim(database)
    assert again == Claim(silent.job_id, 2)
    assert get(database, silent.job_id).attempt == 2


def test_eight_supervisors_take_an_expired_job_back_once(database: Database) -> None:
    queued_jobs(database, [0] * 6)
    claims = {claim(database, lease_seconds=-1) for _ in range(6)}
    with ThreadPoolExecutor(8) as threads:
        taken = [one for part in threads.map(lambda _: requeue_expired(database), range(8)) for one in part]
    assert len(taken) == 6
    assert set(taken) == claims
    assert {get(database, one.job_id).worker_deaths for one in claims} == {1}


def test_three_deaths_end_a_job_and_giving_it_back_is_none(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    for deaths in (1, 2):
        do(database, queue.release, claim(database))
        do(database, queue.worker_died, claim(database))
        job = get(database, job_id)
        assert (job.status, job.worker_deaths, job.error) == ("queued", deaths, None)
    do(database, queue.worker_died, claim(database))
    job = get(database, job_id)
    assert (job.status, job.worker_deaths, job.attempt) == ("failed", 3, 5)
    assert job.error is not None
    assert job.error["code"] == "worker_died"
    assert job.finished_at is not None


def test_no_other_way_leads_from_one_state_to_another() -> None:
    ways = {
        JobStatus.QUEUED: {JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.CANCELLED},
        JobStatus.RUNNING: {*JobStatus} - {JobStatus.RUNNING},
        JobStatus.PAUSED: {JobStatus.QUEUED, JobStatus.CANCELLED},
    }
    allowed = {(before, after) for before, possible in ways.items() for after in possible}
    assert set(TRANSITIONS) == set(JobStatus)
    for before in JobStatus:
        assert before.done is (before in FINAL)
        for after in JobStatus:
            if (before, after) in allowed:
                check_transition(before, after)
            else:
                with pytest.raises(AssertionError, match="no transition"):
                    check_transition(before, after)


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.QUEUED])
def test_only_queued_jobs_are_claimed(database: Database, status: JobStatus) -> None:
    with database.write() as session:
        repository.insert(session, job_row(status=status))
        assert lease.claim_next(session, "wrk_test", LEASE_SECONDS) is None


def finish_with_model(database: Database, claimed: Claim) -> str:
    """What a worker does at the end: the model and the end of the job in one unit of work."""
    model = model_row(claimed.job_id, name="spam")
    with database.write() as session:
        queue.succeed(session, claimed, model.id, {})
        models.register(session, ANY_BLOBS, model, blob_bytes=10)
    return model.id


def test_a_model_is_registered_with_the_end_of_its_job(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    model_id = finish_with_model(database, claim(database))
    assert get(database, job_id).model_id == model_id
    with database.read() as session:
        assert models.resolve(session, "spam:1").id == model_id


def test_a_stale_worker_registers_no_model(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    stale = claim(database, lease_seconds=-1)
    requeue_expired(database)
    current = claim(database)
    with pytest.raises(LeaseLost):
        finish_with_model(database, stale)
    assert [count_rows(database, table) for table in (ModelRow, ModelNameRow, BlobOwnerRow)] == [0, 0, 0]
    model_id = finish_with_model(database, current)
    assert get(database, job_id).model_id == model_id
    assert count_rows(database, ModelRow) == 1


def test_a_model_that_cannot_be_registered_leaves_its_job_running(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    before = look(database, job_id)
    with interrupted_write(database) as session:
        queue.succeed(session, claimed, f"mdl_{NOBODY}", {})
    assert look(database, job_id) == before
