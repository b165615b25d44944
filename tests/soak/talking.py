"""How a client of a soak talks to the service: once, or until there is an answer that settles the matter."""

import random
import threading
from typing import Any
from uuid import UUID

import httpx

from tests.soak.ledger import Ledger

PASSING = {408, 423, 425, 429, 503, 507}
"""Answers after which one tries again, or does not insist."""
IN_USE = "idempotency_key_in_use"
RETRY_SECONDS = 0.1


class Talker:
    """One client: its own connection, its own random numbers, the ledger of all."""

    def __init__(self, url: str, ledger: Ledger, seed: str, number: int) -> None:
        self.ledger = ledger
        self.number = number
        self.random = random.Random(seed)
        self._give_up = threading.Event()
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def key(self) -> str:
        return str(UUID(int=self.random.getrandbits(128)))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def insist(self, method: str, path: str, key: str | None = None, **arguments: Any) -> httpx.Response | None:
        """Send a request again, under the same key, until it is accepted or refused. None: given up, a fault."""
        if key is not None:
            arguments["headers"] = {**arguments.get("headers", {}), "Idempotency-Key": key}
        answer = None
        while not self._give_up.is_set():
            answer = self.attempt(method, path, **arguments)
            if answer is not None and answer.status_code not in PASSING and code_of(answer) != IN_USE:
                return answer
            self._give_up.wait(RETRY_SECONDS)
        last = "none" if answer is None else f"{answer.status_code} {answer.text[:200]}"
        self.ledger.blame(f"{method} {path}: stuck, the last answer was {last}")
        return None

    def attempt(self, method: str, path: str, **arguments: Any) -> httpx.Response | None:
        """Send a request once. None: no answer. An answer that blames the server is a fault."""
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.TransportError:
            self.ledger.count("no answer")
            return None
        self.ledger.count(f"answered {answer.status_code // 100}xx")
        if answer.status_code >= 500:
            self.ledger.count(f"answered {answer.status_code}")
        if answer.status_code >= 500 and answer.status_code not in PASSING:
            self.ledger.blame(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer

    def close(self) -> None:
        self._http.close()


def code_of(answer: httpx.Response) -> str:
    """The code of a problem document; empty: it is none."""
    if answer.headers.get("content-type", "") != "application/problem+json":
        return ""
    return str(answer.json().get("code", ""))
