"""Received webhooks are checked by the Standard Webhooks signature."""

import time

import hyperplane
import pytest
import standardwebhooks

from app.webhooks.signing import new_secret, signed_request

PAYLOAD = {"id": "evt_1", "type": "job.succeeded", "data": {"job_id": "job_1"}}
SECRET = new_secret()


def received(at: float | None = None) -> tuple[dict[str, str], bytes]:
    return signed_request(SECRET, "evt_1", int(at or time.time()), PAYLOAD)


def test_a_genuine_request_is_its_event() -> None:
    headers, body = received()
    event = hyperplane.unwrap(body, headers, SECRET)
    assert (event.type, event.data.job_id, event.id) == ("job.succeeded", "job_1", "evt_1")
    assert standardwebhooks.Webhook(SECRET).verify(body, headers) == dict(event)
    client = hyperplane.Client("http://127.0.0.1:1")
    both = {**headers, "webhook-signature": f"v1,other {headers['webhook-signature']}"}
    assert client.webhooks.unwrap(body.decode(), {name.upper(): value for name, value in both.items()}, SECRET) == event


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"webhook-signature": "v1,AAAA"}, "does not fit"),
        ({"webhook-id": "evt_2"}, "does not fit"),
        ({"webhook-timestamp": "1"}, "300 s off"),
        ({"webhook-timestamp": "soon"}, "300 s off"),
    ],
)
def test_a_forged_request_is_refused(change: dict[str, str], message: str) -> None:
    headers, body = received()
    with pytest.raises(hyperplane.InvalidSignature, match=message):
        hyperplane.unwrap(body, {**headers, **change}, SECRET)


def test_a_changed_body_an_old_request_and_another_secret_are_refused() -> None:
    headers, body = received()
    for wrong, secret in ((body + b" ", SECRET), (body, new_secret())):
        with pytest.raises(hyperplane.InvalidSignature, match="does not fit"):
            hyperplane.unwrap(wrong, headers, secret)
    with pytest.raises(hyperplane.InvalidSignature, match="not base64"):
        hyperplane.unwrap(body, headers, "whsec_!")
    with pytest.raises(hyperplane.InvalidSignature, match="lacks the header webhook-id"):
        hyperplane.unwrap(body, {}, SECRET)
    old, old_body = received(time.time() - 400)
    with pytest.raises(hyperplane.InvalidSignature, match="300 s off"):
        hyperplane.unwrap(old_body, old, SECRET)
