"""Typed ids that sort by time: `job_` + 48 bits of milliseconds + 80 random bits, in Crockford base 32."""

import os
import random
import re
import threading
import time
from typing import Literal

Kind = Literal["ds", "up", "job", "mdl", "evt", "key", "wrk", "req", "wh", "dlv", "ev", "ses"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 26
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
"""All pairs of base-32 digits. An id is built two digits at a time, which is faster; every request gets an id."""
_LOOKS_LIKE_ID = re.compile(rf"[a-z]+_[{_ALPHABET}]{{{_LENGTH}}}")

_lock = threading.Lock()
_last = 0
# Seeded once, because a system call for each id would release the GIL, and every request gets an id. Ids are not
# secrets, so they need no secure random numbers.
_random = random.Random()
os.register_at_fork(after_in_child=_random.seed)


def new_id(kind: Kind) -> str:
    """Return a new id. The ids of one process strictly increase, even within a millisecond."""
    global _last
    with _lock:
        number = max((time.time_ns() // 1_000_000 << 80) | _random.getrandbits(80), _last + 1)
        _last = number
    return f"{kind}_{_digits(number)}"


def following_id(text: str) -> str:
    """Return the id that sorts directly after this one, for a row that must sort after a row of another process."""
    kind, _, digits = text.partition("_")
    number = 0
    for digit in digits:
        number = number << 5 | _ALPHABET.index(digit)
    return f"{kind}_{_digits(number + 1)}"


def lowest_id(kind: Kind, seconds: float) -> str:
    """Return an id that sorts before every id created at this time (seconds since 1970) or later."""
    return f"{kind}_{_digits(int(seconds * 1000) << 80)}"


def is_id(kind: Kind, text: str) -> bool:
    return text.startswith(f"{kind}_") and looks_like_id(text)


def id_pattern(kind: Kind) -> str:
    """Return the regular expression of an id, for the OpenAPI document."""
    return f"{kind}_[{_ALPHABET}]{{{_LENGTH}}}"


def looks_like_id(text: str) -> bool:
    return _LOOKS_LIKE_ID.fullmatch(text) is not None


def _digits(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(5 * (_LENGTH - 2), -1, -10)])
