"""Signatures of the Standard Webhooks specification: HMAC-SHA256 over id, time and body, with a shared secret."""

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
"""Number of random bytes in a secret. The specification allows 24 to 64."""


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_request(
    secret: str, message_id: str, timestamp: int, payload: dict[str, Any]
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of one attempt. The id is the same in all attempts; the timestamp is that of this
    attempt."""
    body = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "hyperplane-webhooks",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
    return headers, body
