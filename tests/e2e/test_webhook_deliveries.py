"""Webhooks from a real service to a real receiver: signed, retried, in order, and none lost when the API is killed."""

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import SOAK
from tests.support.receiver import Message, Receiver, receiving
from tests.support.serving import Service, checked, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

SETTINGS = {
    "webhook_allow_private": True,
    "webhook_retry_seconds": 0.1,
    "webhook_timeout_seconds": 3.0,
    "lease_seconds": 5,
    "heartbeat_seconds": 0.5,
}

# What the database has to do with it is tested on both in tests/contract/test_webhooks.py.
DATABASES = ["sqlite", "postgresql"] if SOAK > 1 else ["sqlite"]
pytestmark = pytest.mark.parametrize("module_database_url", DATABASES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, module_database_url, workers=1, **SETTINGS) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(100, 3, seed=1)))["id"]
    return uploaded


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def webhook(service: Service, receiver: Receiver) -> Iterator[dict[str, Any]]:
    made = checked(service.http.post("/v1/webhooks", json={"url": f"{receiver.url}/all", "events": ["*"]}))
    yield made
    service.http.delete(f"/v1/webhooks/{made['id']}")


def deliveries(service: Service, webhook_id: str) -> list[dict[str, Any]]:
    """Oldest first."""
    found: list[dict[str, Any]] = service.get(f"/v1/webhooks/{webhook_id}/deliveries", limit=200)["data"]
    return found[::-1]


def test_a_test_message_arrives_signed(service: Service, receiver: Receiver, webhook: dict[str, Any]) -> None:
    sent = checked(service.http.post(f"/v1/webhooks/{webhook['id']}/test"))
    wait_until(lambda: deliveries(service, webhook["id"])[-1]["status"] == "delivered", 20, "the delivery")
    (message,) = receiver.messages
    assert message.verified(webhook["secret"])["type"] == "webhook.test"
    assert message.headers["content-type"] == "application/json"
    assert message.id == sent["event_id"]
    with pytest.raises(Exception, match="No matching signature"):
        message.verified("whsec_" + "A" * 32)


def test_a_job_tells_its_own_receiver_everything_in_order(service: Service, receiver: Receiver, dataset: str) -> None:
    job = service.submit(dataset, webhook={"url": f"{receiver.url}/mine", "events": ["*"]})
    other = service.submit(dataset)
    service.wait(job["id"])
    service.wait(other["id"])
    secret = job["webhook"]["secret"]
    wait_until(lambda: "job.succeeded" in kinds(receiver.messages, secret), 30, "the end of the job to be delivered")
    events = service.get(f"/v1/jobs/{job['id']}/events", limit=200)["data"]
    assert [message.id for message in receiver.messages] == [event["id"] for event in events]
    last = receiver.messages[-1].verified(secret)["data"]
    assert (last["id"], last["status"], last["done"]) == (job["id"], "succeeded", True)
    assert last["model_id"] == service.job(job["id"])["model_id"]


def kinds(messages: list[Message], secret: str) -> list[str]:
    return [message.verified(secret)["type"] for message in messages]


def test_a_refusal_is_tried_again_under_the_same_id(
    service: Service, receiver: Receiver, webhook: dict[str, Any]
) -> None:
    receiver.answer = lambda _: 500 if len(receiver.messages) < 3 else 200
    checked(service.http.post(f"/v1/webhooks/{webhook['id']}/test"))
    wait_until(lambda: deliveries(service, webhook["id"])[-1]["status"] == "delivered", 30, "the third attempt")
    assert len({message.id for message in receiver.messages}) == 1
    assert [message.verified(webhook["secret"])["type"] for message in receiver.messages] == ["webhook.test"] * 3
    assert deliveries(service, webhook["id"])[-1]["attempt"] == 3


def test_a_receiver_that_is_gone_is_told_nothing_more(
    service: Service, receiver: Receiver, webhook: dict[str, Any], dataset: str
) -> None:
    receiver.answer = lambda _: 410
    checked(service.http.post(f"/v1/webhooks/{webhook['id']}/test"))
    path = f"/v1/webhooks/{webhook['id']}"
    wait_until(lambda: service.get(path)["disabled_at"] is not None, 20, "the webhook to be disabled")
    service.wait(service.submit(dataset)["id"])
    assert len(receiver.messages) == 1
    assert [one["status"] for one in deliveries(service, webhook["id"])] == ["given_up"]


def test_a_receiver_that_hangs_holds_up_neither_jobs_nor_others(
    service: Service, receiver: Receiver, webhook: dict[str, Any], dataset: str
) -> None:
    go_on = threading.Event()
    receiver.answer = lambda message: 204 if message.path == "/quick" or go_on.wait(60) else 500
    try:
        job = service.submit(dataset, webhook={"url": f"{receiver.url}/quick"})
        assert service.wait(job["id"])["status"] == "succeeded"
        wait_until(lambda: receiver.on("/quick"), 20, "the other receiver to get its message")
        assert receiver.on("/quick")[0].verified(job["webhook"]["secret"])["type"] == "job.succeeded"
        assert "delivered" not in [one["status"] for one in deliveries(service, webhook["id"])]
    finally:
        go_on.set()


def test_killing_the_api_loses_no_message_and_keeps_their_order(
    service: Service, receiver: Receiver, webhook: dict[str, Any], dataset: str
) -> None:
    """It is killed while the receiver holds the fourth message; what it was sending comes once more."""
    killed = threading.Event()

    def answer(_message: Message) -> int:
        if len(receiver.messages) == 4 and not killed.is_set():
            os.kill(service.child("api"), signal.SIGKILL)
            killed.set()
        return 204

    receiver.answer = answer
    ids = [service.submit(dataset)["id"] for _ in range(3)]
    assert killed.wait(60)
    wait_until(service.is_ready, 60, "the API to come back")
    for job_id in ids:
        service.wait(job_id)
    expected = {
        job_id: [event["id"] for event in service.get(f"/v1/jobs/{job_id}/events", limit=200)["data"]] for job_id in ids
    }
    total = sum(map(len, expected.values()))
    wait_until(lambda: len({message.id for message in receiver.messages}) == total, 60, "every message")
    first_seen: dict[str, list[str]] = {job_id: [] for job_id in ids}
    for message in receiver.messages:
        told = first_seen[message.verified(webhook["secret"])["data"]["id"]]
        if message.id not in told:
            told.append(message.id)
    assert first_seen == expected
    twice = len(receiver.messages) - total
    assert twice <= 1  # only the one that was being sent
    wait_until(
        lambda: {one["status"] for one in deliveries(service, webhook["id"])} == {"delivered"},
        30,
        "the outbox to empty",
    )


def test_a_stopped_service_goes_on_with_its_outbox(
    service: Service, receiver: Receiver, webhook: dict[str, Any], dataset: str
) -> None:
    """It stops while a message is being sent, and does not wait for the answer; the next one sends it at once."""
    held, go_on = threading.Event(), threading.Event()

    def hold(_message: Message) -> int:
        held.set()
        go_on.wait(60)
        return 204

    receiver.answer = hold
    checked(service.http.post(f"/v1/webhooks/{webhook['id']}/test"))
    assert held.wait(20)
    service.stop()
    receiver.answer = lambda _: 204
    go_on.set()
    service.start()
    wait_until(lambda: deliveries(service, webhook["id"])[-1]["status"] == "delivered", 30, "the delivery")
    assert len({message.id for message in receiver.messages}) == 1
