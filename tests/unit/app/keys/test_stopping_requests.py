"""A request that the server no longer waits for while it stops."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.keys.guard import Guard
from tests.support.builders import migrated_database, temporary_settings

SCOPE: Scope = {"type": "http", "method": "GET", "path": "/livez", "headers": [(b"host", b"127.0.0.1")]}


def cancelled(tmp_path: Path, first: list[Message]) -> list[Any]:
    """What a client is sent if its request is cancelled after these messages."""
    sent: list[Any] = []

    async def never_end(scope: Scope, receive: Receive, send: Send) -> None:
        for message in first:
            await send(message)
        await asyncio.sleep(60)

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def run() -> None:
        task = asyncio.create_task(guard({**SCOPE}, receive, send))
        await asyncio.sleep(0.2)
        task.cancel("timeout graceful shutdown exceeded")
        await task

    settings = temporary_settings(tmp_path)
    with migrated_database(settings.resolved_database_url) as database:
        guard = Guard(never_end, settings, database)
        asyncio.run(run())
    return sent


def test_it_is_told_to_try_again(tmp_path: Path) -> None:
    start, body = cancelled(tmp_path, [])
    problem = json.loads(body["body"])
    assert start["status"] == problem["status"] == 503
    assert (problem["code"], problem["retryable"]) == ("stopping", True)


def test_an_answer_that_has_begun_is_broken_off(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        cancelled(tmp_path, [{"type": "http.response.start", "status": 200, "headers": []}])
