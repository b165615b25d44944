"""What clients ask of jobs, on every database: cancel, finish, pause and resume, at any moment of a job's life."""

from collections.abc import Callable

import pytest
from sqlalchemy.orm import Session

from app.db import Database
from app.db.tables import JobRow
from app.errors import Conflict, NotFound
from app.jobs import control, lease, queue, repository
from tests.support.builders import NOBODY, queued_jobs
from tests.support.queue_acts import ACTS, LEASE_SECONDS, ask, claim, client_cancels, do, event_types, get, look


def test_a_client_cancels_a_queued_job_at_once(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    job = client_cancels(database, job_id)
    assert job.status == "cancelled"
    assert job.finished_at is not None
    with database.write() as session:
        assert lease.claim_next(session, "wrk_test", LEASE_SECONDS) is None
    assert client_cancels(database, job_id).status == "cancelled", "asking twice is no error"
    assert event_types(database, job_id) == ["job.queued", "job.cancelled"]


def test_a_client_asks_a_running_job_to_stop(database: Database) -> None:
    queued_jobs(database, [0, 0])
    wanted, other = claim(database), claim(database)
    job = client_cancels(database, wanted.job_id)
    assert (job.status, job.request) == ("running", "cancel")
    with database.read() as session:
        assert lease.requests(session, [wanted, other]) == {wanted: "cancel"}
    do(database, queue.cancel, wanted)
    assert get(database, wanted.job_id).status == "cancelled"
    assert get(database, other.job_id).status == "running"


@pytest.mark.parametrize("name", ["release", "worker_died"])
def test_a_job_that_a_client_wants_stopped_is_not_queued_again(database: Database, name: str) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    client_cancels(database, job_id)
    do(database, ACTS[name], claimed)
    assert get(database, job_id).status == "cancelled"


@pytest.mark.parametrize("ending", ["succeed", "fail"])
def test_cancelling_an_ended_job_is_a_conflict(database: Database, ending: str) -> None:
    (job_id,) = queued_jobs(database, [0])
    do(database, ACTS[ending], claim(database))
    before = look(database, job_id)
    with pytest.raises(Conflict, match=r"already (succeeded|failed)"):
        client_cancels(database, job_id)
    assert look(database, job_id) == before


def test_cancelling_an_unknown_job_is_not_found(database: Database) -> None:
    for job_id in (f"job_{NOBODY}", f"ds_{NOBODY}", "", "\x00"):
        with pytest.raises(NotFound):
            client_cancels(database, job_id)


def test_a_queued_job_is_paused_and_resumed_at_once(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    for _ in range(2):
        assert ask(database, control.pause, job_id).status == "paused"
    with database.write() as session:
        assert lease.claim_next(session, "wrk_test", LEASE_SECONDS) is None
    for _ in range(2):
        assert ask(database, control.resume, job_id).status == "queued"
    assert claim(database).job_id == job_id
    assert event_types(database, job_id) == ["job.queued", "job.paused", "job.queued", "job.running"]


def test_a_running_job_is_paused_by_its_worker(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    for _ in range(2):
        job = ask(database, control.pause, job_id)
        assert (job.status, job.request) == ("running", "pause")
    do(database, queue.pause, claimed)
    job = get(database, job_id)
    assert (job.status, job.request, job.lease_owner, job.finished_at) == ("paused", None, None, None)
    assert ask(database, control.cancel, job_id).status == "cancelled"
    assert event_types(database, job_id)[2:] == ["job.pause_requested", "job.paused", "job.cancelled"]


@pytest.mark.parametrize(("name", "deaths"), [("release", 0), ("worker_died", 1)])
def test_a_job_that_is_to_be_paused_is_paused_when_its_worker_is_gone(
    database: Database, name: str, deaths: int
) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    ask(database, control.pause, job_id)
    do(database, ACTS[name], claimed)
    job = get(database, job_id)
    assert (job.status, job.worker_deaths) == ("paused", deaths)


def test_who_resumes_before_the_pause_is_heard(database: Database) -> None:
    """The request to pause is withdrawn before the worker has stopped."""
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    ask(database, control.pause, job_id)
    assert ask(database, control.resume, job_id).request is None
    do(database, queue.pause, claimed)
    assert get(database, job_id).status == "queued"


def test_a_job_is_finished_if_it_can_have_a_model(database: Database) -> None:
    fresh, stopped = queued_jobs(database, [0, 1])
    claimed = claim(database)
    assert claimed.job_id == stopped
    with pytest.raises(Conflict) as refused:
        ask(database, control.finish, fresh)
    assert refused.value.code == "no_model_yet"
    with database.write() as session:
        assert repository.update_claimed(session, claimed, checkpoint="4" * 64)
    ask(database, control.pause, stopped)
    do(database, queue.pause, claimed)
    for _ in range(2):
        job = ask(database, control.finish, stopped)
        assert (job.status, job.request) == ("queued", "finish")
    claimed = claim(database)
    with database.read() as session:
        assert lease.requests(session, [claimed]) == {claimed: "finish"}
    do(database, queue.release, claimed)
    job = get(database, stopped)
    assert (job.status, job.request) == ("queued", "finish"), "a worker that leaves changes nothing"


def test_who_asks_for_more_wins(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    claimed = claim(database)
    strength = [control.pause, control.finish, control.cancel]
    for number, act in enumerate(strength):
        assert ask(database, act, job_id).request == ["pause", "finish", "cancel"][number]
        for weaker in strength[:number]:
            with pytest.raises(Conflict) as refused:
                ask(database, weaker, job_id)
            assert refused.value.code == "job_is_ending"
    do(database, queue.pause, claimed)
    assert get(database, job_id).status == "cancelled"


@pytest.mark.parametrize("act", [control.pause, control.finish, control.resume])
@pytest.mark.parametrize("ending", ["succeed", "fail", "cancel"])
def test_an_ended_job_cannot_be_moved(database: Database, ending: str, act: Callable[[Session, str], JobRow]) -> None:
    (job_id,) = queued_jobs(database, [0])
    do(database, ACTS[ending], claim(database))
    before = look(database, job_id)
    with pytest.raises(Conflict) as refused:
        ask(database, act, job_id)
    assert refused.value.code == "job_ended"
    assert look(database, job_id) == before
