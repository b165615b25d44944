"""A webhook that is deleted while a message to it is queued, on every database."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from sqlalchemy.orm import Session

from app.db import Database
from app.db.engine import current_time
from app.db.tables import EventRow, WebhookRow
from app.ids import new_id
from app.jobs import repository as jobs
from app.webhooks import repository, service
from tests.support.builders import queued_jobs


def add(database: Database) -> str:
    webhook = WebhookRow(id=new_id("wh"), url="https://hooks.example.org/x", events=["*"], secret="whsec_AAAA")
    with database.write() as session:
        webhook.created_at = current_time(session)
        repository.add(session, webhook)
    return webhook.id


def delete_meanwhile(database: Database, webhook_id: str, pool: ThreadPoolExecutor) -> None:
    """Begin to delete an address in another transaction; return when that is done, or has to wait."""

    def delete() -> None:
        with database.write() as session:
            service.delete(session, webhook_id)

    wait([pool.submit(delete)], timeout=0.5)


def test_an_address_that_is_deleted_meanwhile_does_not_fail_the_job(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job_id,) = queued_jobs(database, [0])
    kept, deleted = add(database), add(database)
    payload = repository._payload
    with ThreadPoolExecutor() as pool:

        def payload_of(session: Session, event: EventRow) -> dict[str, Any]:
            delete_meanwhile(database, deleted, pool)
            return payload(session, event)

        monkeypatch.setattr(repository, "_payload", payload_of)
        with database.write() as session:
            jobs.append_event(session, job_id, "job.succeeded", {})
    with database.read() as session:
        (delivery,) = repository.list_deliveries(session, kept, 10, None, None)
        assert delivery.payload["type"] == "job.succeeded"
        assert repository.get(session, deleted) is None


def test_an_address_that_is_deleted_meanwhile_does_not_fail_its_test(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook_id = add(database)
    put = repository.put
    with ThreadPoolExecutor() as pool:

        def put_later(*arguments: Any) -> list[str]:
            delete_meanwhile(database, webhook_id, pool)
            return put(*arguments)

        monkeypatch.setattr(repository, "put", put_later)
        with database.write() as session:
            assert service.send_test(session, webhook_id).status == "waiting"
    with database.read() as session:
        assert repository.get(session, webhook_id) is None
