"""Webhooks and their outbox on every database: who receives which event, who sends it, and what an outcome means."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.config import Settings
from app.db import Database
from app.db.engine import current_time
from app.db.queries import list_events
from app.db.tables import DeliveryRow, JobRow, WebhookRow
from app.ids import new_id
from app.jobs import repository as jobs
from app.main import create_app
from app.web.context import context_of
from app.webhooks import repository, service
from app.webhooks.repository import Claim
from app.webhooks.schemas import ENDS
from app.webhooks.sender import Outcome
from tests.support.builders import (
    NOBODY,
    InProcess,
    checked_problem,
    count_rows,
    dataset_row,
    interrupted_write,
    queued_jobs,
    temporary_settings,
)

URL = "https://hooks.example.org/x"
LEASE_SECONDS = 60.0


@pytest.fixture
def settings(tmp_path: Path, database: Database) -> Settings:
    url = database.url.render_as_string(hide_password=False)
    return temporary_settings(tmp_path, database_url=url, max_webhooks=3)


@pytest.fixture
def http(settings: Settings) -> Iterator[InProcess]:
    app = create_app(settings)
    yield InProcess(app)
    context_of(app).database.close()


def add(database: Database, events: Sequence[str] = ("*",), job_id: str | None = None, **values: Any) -> str:
    webhook = WebhookRow(id=new_id("wh"), url=URL, events=list(events), secret="whsec_AAAA", job_id=job_id, **values)
    with database.write() as session:
        webhook.created_at = current_time(session)
        repository.add(session, webhook)
    return webhook.id


def tell(database: Database, job_id: str, kind: str = "job.progress", count: int = 1) -> None:
    for number in range(count):
        with database.write() as session:
            jobs.append_event(session, job_id, kind, {"number": number})


def outbox(database: Database, webhook_id: str) -> list[DeliveryRow]:
    """Oldest first."""
    with database.read() as session:
        return list(repository.list_deliveries(session, webhook_id, 1000, None, None))[::-1]


def told(database: Database, webhook_id: str) -> list[str]:
    return [row.payload["type"] for row in outbox(database, webhook_id)]


def claim(database: Database, webhook_id: str, lease_seconds: float = LEASE_SECONDS) -> Claim | None:
    with database.write() as session:
        due = repository.due_deliveries(session, webhook_id, 1)
        return repository.claim(session, webhook_id, due[0], lease_seconds) if due else None


def settle(database: Database, settings: Settings, webhook_id: str, held: Claim | None, outcome: Outcome) -> None:
    assert held is not None
    with database.write() as session:
        service.settle(session, settings, webhook_id, held, outcome, failures=1)


def test_each_address_is_told_of_what_it_asked_for(database: Database) -> None:
    job_id, other_id = queued_jobs(database, [0, 0])
    everything, of_jobs, ends = add(database), add(database, ["job.*"]), add(database, ENDS)
    mine = add(database, ["job.progress"], job_id)
    gone = add(database)
    with database.write() as session:
        repository.disable(session, gone, "gone")
    for one in (job_id, other_id):
        tell(database, one, "job.progress")
        tell(database, one, "job.succeeded")
    both = ["job.progress", "job.succeeded"] * 2
    assert told(database, everything) == told(database, of_jobs) == both
    assert told(database, ends) == ["job.succeeded"] * 2
    assert told(database, mine) == ["job.progress"]
    assert told(database, gone) == []


def test_a_message_holds_the_job_as_the_event_left_it(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    with database.write() as session:
        claimed = jobs.claim(session, "wrk_x", LEASE_SECONDS)
        assert claimed is not None
        jobs.update_claimed(session, claimed, status="failed", error={"code": "x", "message": "y", "param": None})
        jobs.append_event(session, job_id, "job.failed", {"why": 1})
    running, failed = outbox(database, webhook_id)
    assert running.payload["data"]["status"] == "running"
    message = failed.payload
    assert (message["type"], message["data"]["status"], message["data"]["done"]) == ("job.failed", "failed", True)
    assert message["data"]["error"]["code"] == "x"
    assert (message["data"]["id"], message["data"]["event"]) == (job_id, {"why": 1})
    assert message["timestamp"].endswith("Z")
    with database.read() as session:
        events = list_events(session, job_id, 10, None)
    assert [event.id for event in events][1:] == [running.event_id, failed.event_id]


def test_the_outbox_shares_the_fate_of_the_event(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    with interrupted_write(database) as session:
        jobs.append_event(session, job_id, "job.progress", {})
    assert outbox(database, webhook_id) == []


def test_one_message_at_a_time_in_order_and_each_claimed_once(database: Database, settings: Settings) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id, count=20)
    order: list[int] = []

    def send_all(_: int) -> None:
        while len(order) < 20:
            held = claim(database, webhook_id)
            if held is not None:
                order.append(held.payload["data"]["event"]["number"])
                settle(database, settings, webhook_id, held, Outcome("delivered"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send_all, range(4)))
    assert order == list(range(20))
    assert {(row.status, row.attempt) for row in outbox(database, webhook_id)} == {("delivered", 1)}


def test_what_a_dead_process_was_sending_goes_first_when_its_lease_is_over(
    database: Database, settings: Settings
) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id, count=2)
    dead = claim(database, webhook_id)
    assert dead is not None
    assert claim(database, webhook_id) is None  # nor is the second one sent meanwhile
    expire_leases(database)
    again = claim(database, webhook_id)
    assert again is not None
    assert (again.delivery_id, again.message_id, again.attempt) == (dead.delivery_id, dead.message_id, 2)
    settle(database, settings, webhook_id, dead, Outcome("delivered"))  # it was not dead, but it is too late
    assert outbox(database, webhook_id)[0].status == "sending"
    settle(database, settings, webhook_id, again, Outcome("delivered"))
    assert [row.status for row in outbox(database, webhook_id)] == ["delivered", "waiting"]


def expire_leases(database: Database) -> None:
    with database.write() as session:
        past = current_time(session) - timedelta(seconds=1)
        session.execute(update(DeliveryRow).where(DeliveryRow.status == "sending").values(due_at=past))


def test_what_is_given_back_is_the_same_attempt_again(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id)
    held = claim(database, webhook_id)
    assert held is not None
    with database.write() as session:
        repository.give_back(session, held)
    assert claim(database, webhook_id) == held


def test_a_failure_is_tried_again_later_and_longer_each_time(database: Database, settings: Settings) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id)
    pauses = []
    for attempt in range(1, 8):
        with database.write() as session:
            session.execute(update(DeliveryRow).values(due_at=current_time(session)))
        held = claim(database, webhook_id)
        settle(database, settings, webhook_id, held, Outcome("failed", "answered with status 500"))
        (row,) = outbox(database, webhook_id)
        assert (row.status, row.attempt, row.last_error) == ("waiting", attempt, "answered with status 500")
        with database.read() as session:
            pauses.append((row.due_at - current_time(session)).total_seconds())
    nominal = [min(settings.webhook_retry_seconds * 3**number, 6 * 3600) for number in range(7)]
    for pause, expected in zip(pauses, nominal, strict=True):
        assert 0.8 * expected - 5 <= pause <= 1.2 * expected
    assert claim(database, webhook_id) is None


def test_a_message_that_is_too_old_is_given_up(database: Database, settings: Settings) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id, count=3)
    with database.write() as session:
        old = current_time(session) - timedelta(hours=24)
        first, second, _ = (row.id for row in outbox(database, webhook_id))
        session.execute(update(DeliveryRow).where(DeliveryRow.id.in_([first, second])).values(created_at=old))
    settle(database, settings, webhook_id, claim(database, webhook_id), Outcome("unreachable", "away"))
    assert [row.status for row in outbox(database, webhook_id)] == ["given_up", "waiting", "waiting"]
    with database.write() as session:  # the second one was not tried, because the receiver did not respond
        service.clear(session, settings)
    given_up = outbox(database, webhook_id)
    assert [row.status for row in given_up] == ["given_up", "given_up", "waiting"]
    assert [row.last_error for row in given_up] == [
        "away",
        "gave up: not delivered within HYPERPLANE_WEBHOOK_GIVE_UP_SECONDS",
        None,
    ]


def test_where_nobody_answers_the_others_rest_too(database: Database, settings: Settings) -> None:
    (job_id,) = queued_jobs(database, [0])
    away, other = add(database), add(database)
    tell(database, job_id, count=2)
    settle(database, settings, away, claim(database, away), Outcome("unreachable", "away"))
    assert claim(database, away) is None
    with database.read() as session:
        assert repository.due_webhooks(session, 10) == [other]
    settle(database, settings, other, claim(database, other), Outcome("failed", "500"))
    assert claim(database, other) is not None  # it answers, so the next one may have more luck


def test_a_receiver_that_is_gone_gets_nothing_more(database: Database, settings: Settings, http: InProcess) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id, count=2)
    settle(database, settings, webhook_id, claim(database, webhook_id), Outcome("gone", "answered with status 410"))
    tell(database, job_id)
    assert [row.status for row in outbox(database, webhook_id)] == ["given_up", "given_up"]
    assert http.get(f"/v1/webhooks/{webhook_id}").json()["disabled_at"] is not None
    problem = checked_problem(http.post(f"/v1/webhooks/{webhook_id}/test"), 409)
    assert problem["code"] == "webhook_disabled"


def test_what_was_settled_long_ago_is_forgotten(database: Database, settings: Settings) -> None:
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id, count=2)
    settle(database, settings, webhook_id, claim(database, webhook_id), Outcome("delivered"))
    with database.write() as session:
        service.clear(session, settings)
    assert count_rows(database, DeliveryRow) == 2
    with database.write() as session:
        old = current_time(session) - timedelta(days=8)
        session.execute(update(DeliveryRow).where(DeliveryRow.status == "delivered").values(created_at=old))
        service.clear(session, settings)
    assert [row.status for row in outbox(database, webhook_id)] == ["waiting"]


def test_a_job_does_not_wait_for_who_sends(database: Database) -> None:
    """On SQLite every writer waits; on PostgreSQL a claim must not block writers of job events."""
    if database.engine.dialect.name == "sqlite":
        return
    (job_id,) = queued_jobs(database, [0])
    webhook_id = add(database)
    tell(database, job_id)
    with database.write() as session, ThreadPoolExecutor(1) as threads:
        due = repository.due_deliveries(session, webhook_id, 1)
        assert repository.claim(session, webhook_id, due[0], LEASE_SECONDS) is not None
        threads.submit(tell, database, job_id).result(timeout=20)


def test_make_look_and_delete(http: InProcess, database: Database) -> None:
    response = http.post("/v1/webhooks", json={"url": URL})
    made = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"/v1/webhooks/{made['id']}"
    assert made["secret"].startswith("whsec_")
    assert made["events"] == ENDS == ["job.cancelled", "job.failed", "job.succeeded"]
    shown = http.get(f"/v1/webhooks/{made['id']}").json()
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert http.get("/v1/webhooks").json()["data"] == [shown]
    sent = http.post(f"/v1/webhooks/{made['id']}/test")
    assert (sent.status_code, sent.json()["type"], sent.json()["status"]) == (201, "webhook.test", "waiting")
    assert http.get(f"/v1/webhooks/{made['id']}/deliveries").json()["data"] == [sent.json()]
    assert http.get(f"/v1/webhooks/{made['id']}/deliveries?status=delivered").json()["data"] == []
    assert http.request("DELETE", f"/v1/webhooks/{made['id']}").status_code == 204
    assert (count_rows(database, WebhookRow), count_rows(database, DeliveryRow)) == (0, 0)
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/deliveries"), ("POST", "/test")):
        checked_problem(http.request(method, f"/v1/webhooks/{made['id']}{path}"), 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "url"),
        ({"url": "ftp://example.org/"}, "url"),
        ({"url": "x" * 3000}, "url"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "events": ["job.suceeded"]}, "events.0"),
        ({"url": URL, "secret": "mine"}, "secret"),
    ],
)
def test_what_cannot_be_is_refused_by_field(http: InProcess, body: dict[str, Any], field: str) -> None:
    assert checked_problem(http.post("/v1/webhooks", json=body), 422)["errors"][0]["field"] == field


def test_there_are_only_so_many(http: InProcess, database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    add(database, job_id=job_id)  # of one job: does not count
    for _ in range(3):
        assert http.post("/v1/webhooks", json={"url": URL}).status_code == 201
    problem = checked_problem(http.post("/v1/webhooks", json={"url": URL}), 409)
    assert problem["code"] == "too_many_webhooks"


@pytest.fixture
def dataset_id(database: Database) -> str:
    row = dataset_row()
    with database.write() as session:
        session.add(row)
    return row.id


def test_a_job_brings_its_own_webhook(http: InProcess, database: Database, dataset_id: str) -> None:
    body = {"dataset_id": dataset_id, "webhook": {"url": URL, "events": ["*"]}}
    first, again = (http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.status_code == 201, first.text
    job = first.json()
    assert job["webhook"]["secret"].startswith("whsec_")
    assert (job["webhook"]["job_id"], job["webhook"]["events"]) == (job["id"], ["*"])
    assert again.content == first.content
    assert told(database, job["webhook"]["id"]) == ["job.queued"]
    http.post(f"/v1/jobs/{job['id']}/cancel")
    assert told(database, job["webhook"]["id"]) == ["job.queued", "job.cancelled"]
    shown = http.get(f"/v1/jobs/{job['id']}")
    assert shown.json()["webhook"] is None
    assert job["webhook"]["secret"] not in shown.text
    assert URL not in shown.text
    assert [one["id"] for one in http.get(f"/v1/webhooks?job_id={job['id']}").json()["data"]] == [job["webhook"]["id"]]
    assert http.get(f"/v1/webhooks?job_id=job_{NOBODY}").json()["data"] == []


def test_a_job_with_a_webhook_that_cannot_be_is_not_queued(
    http: InProcess, database: Database, dataset_id: str
) -> None:
    body = {"dataset_id": dataset_id, "webhook": {"url": "http://localhost/"}}
    problem = checked_problem(http.post("/v1/jobs", json=body), 422)
    assert problem["errors"][0]["field"] == "webhook.url"
    assert (count_rows(database, JobRow), count_rows(database, WebhookRow)) == (0, 0)
