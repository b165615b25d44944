"""A client that follows a job's events by their ids misses none and sees none twice, on every database."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.db import Database
from app.db.queries import list_events
from app.db.tables import EventRow
from app.ids import following_id, new_id
from app.jobs import events as events_module
from app.jobs import repository
from app.jobs.events import EventFeed
from tests.support.builders import queued_jobs, temporary_settings


def append(database: Database, job_id: str, number: int) -> None:
    with database.write() as session:
        repository.append_event(session, job_id, "job.progress", {"number": number})


def events(database: Database, job_id: str, after_id: str | None = None, limit: int = 1000) -> list[EventRow]:
    with database.read() as session:
        return list(list_events(session, job_id, limit, after_id))


def numbers(database: Database, job_id: str) -> list[int]:
    return [event.data["number"] for event in events(database, job_id)[1:]]


def test_an_event_that_began_earlier_is_never_committed_later(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    begun, second = threading.Event(), threading.Event()

    def append_second() -> None:
        begun.wait()
        append(database, job_id, 2)
        second.set()

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(append_second)
        with database.write() as session:
            repository.append_event(session, job_id, "job.progress", {"number": 1})
            session.flush()
            begun.set()
            assert not second.wait(0.5), "the second was committed between the first one's id and its commit"
        other.result()
    assert numbers(database, job_id) == [1, 2]


def test_another_jobs_event_does_not_wait(database: Database) -> None:
    """On SQLite everybody who writes waits; elsewhere jobs must not hold each other up."""
    if database.engine.dialect.name == "sqlite":
        return
    job_id, other_id = queued_jobs(database, [0, 0])
    with database.write() as session, ThreadPoolExecutor(1) as threads:
        repository.append_event(session, job_id, "job.progress", {"number": 1})
        session.flush()
        threads.submit(append, database, other_id, 2).result(timeout=20)
        assert numbers(database, other_id) == [2]


def test_an_event_sorts_behind_one_from_a_clock_that_is_ahead(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    ahead = "evt_7" + new_id("evt")[5:]
    with database.write() as session:
        data = {"number": 1}
        session.add(EventRow(id=ahead, job_id=job_id, type="job.progress", data=data, created_at=datetime.now(UTC)))
    append(database, job_id, 2)
    with database.write() as session:
        for number in (3, 4):
            repository.append_event(session, job_id, "job.progress", {"number": number})
    assert numbers(database, job_id) == [1, 2, 3, 4]
    assert events(database, job_id)[2].id == following_id(ahead)


def test_a_reader_among_writers_sees_every_event_once_and_in_order(database: Database) -> None:
    """Writers hold their transactions open for a moment, so that they overlap."""
    (job_id,) = queued_jobs(database, [0])
    writers, each = 4, 12

    def write(writer: int) -> None:
        pause = random.Random(writer)
        for number in range(each):
            with database.write() as session:
                repository.append_event(session, job_id, "job.progress", {"number": writer * each + number})
                session.flush()
                threading.Event().wait(pause.random() / 100)

    def follow() -> list[str]:
        seen: list[str] = []
        while len(seen) < 1 + writers * each:
            seen += [event.id for event in events(database, job_id, seen[-1] if seen else None, limit=5)]
        return seen

    with ThreadPoolExecutor(writers + 1) as threads:
        reading = threads.submit(follow)
        list(threads.map(write, range(writers)))
        seen = reading.result(timeout=60)
    assert seen == [event.id for event in events(database, job_id)]
    assert sorted(numbers(database, job_id)) == list(range(writers * each))


def test_news_are_found_for_many_followers_at_once(database: Database) -> None:
    ids = queued_jobs(database, [0] * 3)
    newest = {job_id: events(database, job_id)[-1].id for job_id in ids}
    append(database, ids[1], 1)
    quiet = [(job_id, newest[job_id]) for job_id in ids]
    quiet += [(f"job_{number}", "") for number in range(500)]  # more than one query's worth
    behind = [(ids[0], ""), (ids[2], newest[ids[0]][:4])]
    with database.read() as session:
        assert repository.jobs_with_news(session, quiet + behind) == {quiet[1], *behind}
        assert repository.jobs_with_news(session, []) == set()


def test_a_stream_that_has_nothing_to_tell_says_that_it_lives(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended as a stop of the server would end it."""
    (job_id,) = queued_jobs(database, [0])
    monkeypatch.setattr(events_module, "PING_SECONDS", 0.05)
    feed = EventFeed(temporary_settings(tmp_path), database)

    async def follow() -> list[bytes]:
        sent: list[bytes] = []

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))
            if sum(b": ping" in body for body in sent) == 2:
                feed.close()

        async def receive() -> Any:
            await asyncio.Event().wait()

        await feed.open(job_id, None)({"type": "http"}, receive, send)
        return sent

    sent = asyncio.run(follow())
    assert [body.partition(b":")[0] for body in sent if body] == [b"retry", b"event", b"", b""]
    assert b"job.queued" in sent[2]


def test_the_following_id_is_the_next_one() -> None:
    assert following_id("evt_" + "0" * 25 + "9") == "evt_" + "0" * 25 + "a"
    assert following_id("evt_" + "0" * 25 + "z") == "evt_" + "0" * 24 + "10"
    one = new_id("evt")
    assert one < following_id(one) < following_id(following_id(one))
