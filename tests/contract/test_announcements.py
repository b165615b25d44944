"""A waiting worker is notified of work when it is committed, and not before; it reconnects by itself."""

import os
from collections.abc import Iterator
from multiprocessing.connection import wait

import pytest
from sqlalchemy import text

from app.db import Database
from app.jobs import control, lease, queue, repository
from app.runtime.launcher import waker
from app.worker.wakeup import Doorbell
from tests.support.builders import interrupted_write, job_row, queued_jobs

POLL_SECONDS = 0.2


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    receiving, sending = os.pipe()
    yield receiving, sending
    os.close(receiving)
    os.close(sending)


@pytest.fixture
def doorbell(database: Database, pipe: tuple[int, int]) -> Iterator[Doorbell]:
    database.on_announced = waker(pipe[1])
    doorbell = Doorbell(database, POLL_SECONDS, pipe[0])
    doorbell.has_rung()
    yield doorbell
    doorbell.close()
    database.on_announced = None


def rings(doorbell: Doorbell, seconds: float = 5.0) -> bool:
    """Whether it wakes a sleeper; one that must not ring is given less time."""
    return bool(wait(doorbell.signs, timeout=seconds)) and doorbell.has_rung()


def test_it_rings_for_a_new_job_once_it_is_committed(database: Database, doorbell: Doorbell) -> None:
    assert not rings(doorbell, 0.0)
    with database.write() as session:
        repository.insert(session, job_row())
        session.flush()
        assert not rings(doorbell, 0.1)
    assert rings(doorbell)
    assert not rings(doorbell, 0.0), "it has been answered"
    with interrupted_write(database) as session:
        repository.insert(session, job_row())
    assert not rings(doorbell, 0.1)


def test_it_rings_for_what_goes_back_to_the_queue_and_for_what_clients_ask(
    database: Database, doorbell: Doorbell
) -> None:
    (job_id,) = queued_jobs(database, [0])
    assert rings(doorbell)
    with database.write() as session:
        claim = lease.claim_next(session, "wrk_test", 60.0)
    assert claim is not None
    assert not rings(doorbell, 0.1)
    with database.write() as session:
        queue.release(session, claim)
    assert rings(doorbell)
    for act in (control.pause, control.resume, control.cancel):
        with database.write() as session:
            act(session, job_id)
        assert rings(doorbell), act.__name__


def test_it_rings_when_a_job_ends_for_whoever_waits_for_its_room(database: Database, doorbell: Doorbell) -> None:
    queued_jobs(database, [0])
    with database.write() as session:
        claim = lease.claim_next(session, "wrk_test", 60.0)
    assert claim is not None
    assert rings(doorbell)
    with database.write() as session:
        queue.fail(session, claim, {"code": "internal", "message": "", "param": None})
    assert rings(doorbell)


def test_a_full_pipe_keeps_nobody(doorbell: Doorbell, pipe: tuple[int, int]) -> None:
    wake = waker(pipe[1])
    for _ in range(100_000):
        wake()
    assert rings(doorbell)
    assert not rings(doorbell, 0.0)


def test_what_nobody_wrote_to_has_no_news(database: Database, doorbell: Doorbell) -> None:
    if database.url.get_backend_name() != "sqlite":
        assert doorbell.may_have_news()
        return
    doorbell.may_have_news()
    with database.read() as session:
        lease.is_waiting(session)
    assert not doorbell.may_have_news()
    queued_jobs(database, [0])
    assert doorbell.may_have_news()
    assert not doorbell.may_have_news()


def test_a_listener_whose_connection_breaks_hears_again(database: Database, doorbell: Doorbell) -> None:
    if database.url.get_backend_name() == "sqlite":
        assert doorbell.poll_seconds == POLL_SECONDS
        return
    assert doorbell.poll_seconds > POLL_SECONDS
    with database.write() as session:
        ended = session.scalar(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                " AND datname = current_database()"
            )
        )
    assert ended == 1
    # The server's last words come first; that there are no more is seen by the next look.
    assert rings(doorbell) or rings(doorbell), "what was announced meanwhile is not known"
    assert doorbell.poll_seconds == POLL_SECONDS, "until it hears again it looks"
    assert doorbell.has_rung(), "it listens again"
    queued_jobs(database, [0])
    assert rings(doorbell)
