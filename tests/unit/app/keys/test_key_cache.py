"""What is remembered of API keys: no plain text, few rejected tokens, and no look for what cannot be a key."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from app.errors import DatabaseUnavailable
from app.keys import key_cache
from app.keys.key_cache import KeyCache
from tests.support.builders import NOBODY

VALID = f"key_{NOBODY}.secret"
READ = frozenset({"read"})


class Looks:
    """The database: counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, token: str) -> frozenset[str] | None:
        self.asked.append(token)
        return READ if token == VALID else None


def asked_for(tokens: list[str], between: Callable[[], None] = lambda: None) -> tuple[KeyCache, Looks, list[object]]:
    looks = Looks()
    cache = KeyCache(looks)

    async def ask() -> list[object]:
        found: list[object] = []
        for token in tokens:
            found.append(await cache.scopes_of(token))
            between()
        while cache._renewals:
            await asyncio.sleep(0.001)
        return found

    return cache, looks, asyncio.run(ask())


def test_what_cannot_be_a_key_is_rejected_without_a_look() -> None:
    tokens = ["x" * 1_000_000, f"key_{NOBODY}." + "x" * 1000, "key_1.secret", "", f"job_{NOBODY}.secret"]
    cache, looks, found = asked_for(tokens)
    assert found == [None] * len(tokens)
    assert looks.asked == []
    assert not cache._rejected


def test_rejected_tokens_are_few_and_never_kept_in_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_REJECTED_TOKENS", 10)
    tokens = [f"key_{NOBODY}.{number}" for number in range(50)]
    cache, looks, found = asked_for([*tokens, tokens[-1], VALID])
    assert found == [None] * 51 + [READ]
    assert looks.asked == [*tokens, VALID]  # the last one was remembered
    assert len(cache._rejected) == 10
    assert {len(digest) for digest in (*cache._rejected, *cache._valid)} == {32}
    assert not any(token.encode() in bytes(digest) for token in tokens for digest in cache._rejected)


def test_a_key_in_use_is_looked_up_again_before_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "RENEW_FROM", 0.0)
    _, looks, found = asked_for([VALID] * 3)
    assert found == [READ] * 3
    assert 2 <= len(looks.asked) <= 3  # none of them was waited for, except the first


def test_a_renewal_that_fails_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(key_cache, "RENEW_FROM", 0.0)
    looks: list[str] = []

    def look(token: str) -> frozenset[str] | None:
        looks.append(token)
        if len(looks) == 2:
            raise DatabaseUnavailable("no connection")
        return READ

    async def ask() -> list[object]:
        cache, found = KeyCache(look), []
        for _ in range(3):
            found.append(await cache.scopes_of(VALID))
            while cache._renewals:
                await asyncio.sleep(0.001)
        return found

    assert asyncio.run(ask()) == [READ] * 3
    assert len(looks) == 3
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("app.keys.key_cache", "WARNING")
    assert record.getMessage() == "renewing a cached API key failed: no connection"


def test_an_answer_is_believed_for_a_short_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "KEY_TRUST_SECONDS", 0.0)
    rejected = f"key_{NOBODY}.no"
    _, looks, _ = asked_for([VALID, VALID, rejected, rejected])
    assert looks.asked == [VALID, VALID, rejected, rejected]


def test_a_look_that_takes_long_holds_up_no_request_of_a_key_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "RENEW_FROM", 0.0)
    answered = threading.Event()
    looks: list[str] = []

    def look(token: str) -> frozenset[str] | None:
        looks.append(token)
        if len(looks) > 1:  # the database is locked when it is asked again
            answered.wait(30)
            return None
        return READ

    async def ask() -> list[object]:
        cache = KeyCache(look)
        found: list[object] = [await cache.scopes_of(VALID), await cache.scopes_of(VALID)]
        ((digest, known),) = cache._valid.items()
        cache._valid[digest] = known._replace(until=time.monotonic() - 1.0)
        found.append(await cache.scopes_of(VALID))
        answered.set()
        while cache._renewals:
            await asyncio.sleep(0.001)
        found.append(await cache.scopes_of(VALID))  # it was revoked meanwhile
        return found

    assert asyncio.run(ask()) == [READ, READ, READ, None]
