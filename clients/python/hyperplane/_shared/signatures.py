"""Check the signatures of webhooks (Standard Webhooks: HMAC-SHA256 over id, time and body)."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping

from hyperplane._shared.errors import InvalidSignature
from hyperplane._shared.events import Event

__all__ = ["unwrap"]

TOLERANCE_SECONDS = 300.0
"""Largest age of a request, and largest lead of the sender's clock, in seconds: the value of the specification. Larger:
a recorded request can be replayed for longer."""


def unwrap(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> Event:
    """Check the signature of a received request and return its event. `InvalidSignature` says what is wrong.

    `body` is the raw body, not parsed JSON. `secret` is the one that `webhooks.create` returned.
    """
    content = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if name not in given]
    if missing:
        raise InvalidSignature(f"the request lacks the header {missing[0]}")
    identity, stamp = given["webhook-id"], given["webhook-timestamp"]
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > tolerance_seconds:
        raise InvalidSignature(f"the time of the request is more than {tolerance_seconds:g} s off")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise InvalidSignature("the secret is not base64; use the one that webhooks.create returned") from None
    digest = hmac.new(key, f"{identity}.{stamp}.".encode() + content, hashlib.sha256).digest()
    wanted = f"v1,{base64.b64encode(digest).decode()}".encode()
    if not any(hmac.compare_digest(wanted, one.encode()) for one in given["webhook-signature"].split()):
        raise InvalidSignature("the signature does not fit the body")
    return Event(json.loads(content))
