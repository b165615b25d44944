"""`GET /v1/events`: one stream of the events of all jobs, on every database."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.db import Database
from app.db.queries import list_events
from app.jobs import event_endpoints, repository
from app.jobs.event_endpoints import AllEvents, AllEventsStream
from app.keys import key_cache
from app.keys import service as keys
from app.main import create_app
from app.web.context import context_of
from tests.support.builders import InProcess, checked_problem, queued_jobs, temporary_settings

PATIENCE_SECONDS = 0.3
Act = Callable[[list[str]], None]
"""Called with the lines so far, whenever the client got some."""


@pytest.fixture
def feed(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AllEvents:
    monkeypatch.setattr(event_endpoints, "LOOK_SECONDS", 0.02)
    settings = temporary_settings(tmp_path, body_patience_seconds=PATIENCE_SECONDS, max_event_streams=1)
    return AllEvents(settings, database)


def append(database: Database, job_id: str, number: int) -> str:
    with database.write() as session:
        repository.append_event(session, job_id, "job.progress", {"number": number})
    return newest(database, job_id)


def newest(database: Database, job_id: str) -> str:
    with database.read() as session:
        return list_events(session, job_id, 1000, None)[-1].id


def follow(stream: AllEventsStream, act: Act, deaf: bool = False) -> list[str]:
    """Run a stream until it ends and return its lines. A deaf client takes nothing but the headers."""
    lines: list[str] = []

    async def send(message: Any) -> None:
        if deaf and message["type"] == "http.response.body":
            await asyncio.Event().wait()
        lines.extend(message.get("body", b"").decode().splitlines())
        await asyncio.to_thread(act, lines)

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def run() -> None:
        async with asyncio.timeout(30):
            await stream({"type": "http"}, receive, send)

    asyncio.run(run())
    return lines


def numbers(lines: list[str]) -> list[int]:
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    return [event["data"]["number"] for event in events]


def once(condition: Callable[[list[str]], bool], work: Callable[[], Any]) -> Act:
    """Work that is done the first time that the condition holds."""
    waiting = iter([work])

    def act(lines: list[str]) -> None:
        if condition(lines) and (found := next(waiting, None)):
            found()

    return act


def all_of(*acts: Act) -> Act:
    return lambda lines: [act(lines) for act in acts] and None


def test_events_of_all_jobs_come_with_their_id_type_and_job(feed: AllEvents, database: Database) -> None:
    first, second = queued_jobs(database, [0, 0])
    numbered = ((first, 1), (second, 2))
    begin = once(lambda lines: ": following" in lines, lambda: [append(database, *one) for one in numbered])
    lines = follow(feed.open(None), all_of(once(lambda lines: len(numbers(lines)) == 2, feed.close), begin))
    assert numbers(lines) == [1, 2], "what happened before is not sent without Last-Event-ID"
    told = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert [one["job_id"] for one in told] == [first, second]
    assert [f"id: {one['id']}" for one in told] == [line for line in lines if line.startswith("id: ")]
    assert [line for line in lines if line.startswith("event: ")] == ["event: job.progress"] * 2
    assert lines[0].startswith("retry: ")


def test_a_client_resumes_behind_the_event_that_it_names(
    feed: AllEvents, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one page is stored; what is written meanwhile follows once."""
    monkeypatch.setattr(event_endpoints, "EVENTS_A_READ", 3)
    first, second = queued_jobs(database, [0, 0])
    seen = append(database, first, 0)
    for number in range(1, 11):
        append(database, (first, second)[number % 2], number)
    begin = once(lambda lines: numbers(lines)[-1:] == [5], lambda: append(database, first, 11))
    lines = follow(feed.open(seen), all_of(once(lambda lines: 11 in numbers(lines), feed.close), begin))
    assert numbers(lines) == list(range(1, 12))


def test_silence_is_broken_by_a_comment(feed: AllEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_endpoints, "PING_SECONDS", 0.05)
    lines = follow(feed.open(None), once(lambda lines: sum(": ping" in one for one in lines) == 3, feed.close))
    assert sum(line.startswith(": ping ") for line in lines) >= 3
    assert numbers(lines) == []


def test_a_client_that_does_not_read_loses_its_stream(feed: AllEvents) -> None:
    began = time.monotonic()
    assert follow(feed.open(None), lambda _: None, deaf=True) == []
    assert PATIENCE_SECONDS <= time.monotonic() - began < 10
    assert feed.open(None), "its place is free"


def test_a_client_that_lags_behind_is_ended_and_resumes(
    feed: AllEvents, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue has fewer places than events wait. It loses its stream and no event."""
    monkeypatch.setattr(event_endpoints, "MOST_WAITING", 4)
    (job_id,) = queued_jobs(database, [0])
    seen = newest(database, job_id)

    def fall_behind() -> None:
        for number in range(20):
            append(database, job_id, number)
        time.sleep(0.2)  # many looks

    lines = follow(feed.open(None), once(lambda lines: ": following" in lines, fall_behind))
    assert len(numbers(lines)) < 20
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    rest = follow(feed.open(ids[-1] if ids else seen), once(lambda lines: 19 in numbers(lines), feed.close))
    assert numbers(lines) + numbers(rest) == list(range(20))


def test_there_are_at_most_as_many_streams_as_the_setting_says(feed: AllEvents) -> None:
    refused: list[str] = []

    def open_another() -> None:
        try:
            feed.open(None)
        except Exception as error:
            refused.append(getattr(error, "code", str(error)))
        feed.close()

    follow(feed.open(None), once(lambda lines: ": following" in lines, open_another))
    assert refused == ["too_many_streams"]


@pytest.fixture
def http(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    monkeypatch.setattr(key_cache, "KEY_TRUST_SECONDS", 0.0)
    url = database.url.render_as_string(hide_password=False)
    app = create_app(temporary_settings(tmp_path, database_url=url))
    context_of(app).part(AllEvents).close()  # a stream that opens ends at once
    yield InProcess(app)
    context_of(app).database.close()


def test_a_key_must_be_allowed_to_read(http: InProcess, database: Database) -> None:
    with database.write() as session:
        reads, predicts = keys.create(session, None, ["read"]), keys.create(session, None, ["predict"])
    checked_problem(http.get("/v1/events"), 401)
    refused = http.get("/v1/events", headers={"Authorization": f"Bearer {predicts}"})
    assert checked_problem(refused, 403)["code"] == "missing_scope"
    answer = http.get("/v1/events", headers={"Authorization": f"Bearer {reads}"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"


def test_what_is_no_event_is_refused(http: InProcess) -> None:
    for wrong in ("17", "job_01m7h944fsex4m8e47tq1ns5tn", "evt_"):
        problem = checked_problem(http.get("/v1/events", headers={"Last-Event-ID": wrong}), 422)
        assert problem["errors"][0]["field"] == "Last-Event-ID"
