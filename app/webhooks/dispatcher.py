"""Sends the messages in the outbox of webhooks. It is a background task of every API process.

All processes together send one message at a time to an address. As long as the receiver responds, it gets the events of
a job in order. If a process dies while it sends a message, the message is sent again when its lease expires. Delivery
is therefore at least once, always with the same id.
"""

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

from app.config import Settings
from app.db import Database
from app.db.outages import DATABASE_ERRORS
from app.web.thread_rooms import WRITES
from app.webhooks import repository, service
from app.webhooks.repository import Claim
from app.webhooks.sender import Outcome, Sender
from app.webhooks.signing import signed_request

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Seconds between two queries of the outbox. Larger: later deliveries, fewer queries. Set by hand; no measurement is
recorded."""
CLEAR_SECONDS = 60.0
"""Seconds between two deletions of old deliveries. Larger: fewer queries, more rows. Set by hand; no measurement is
recorded."""
MAX_ADDRESSES = 16
"""Maximum number of addresses that a process sends to at the same time. Larger: a slow receiver delays others less,
more open connections. Set by hand; no measurement is recorded."""
READ_AHEAD = 50
"""Number of deliveries per query for an address. Larger: fewer queries, more memory. Set by hand; no measurement is
recorded."""
LEASE_SLACK_SECONDS = 5.0
"""Seconds by which the lease of a delivery exceeds the timeout of an attempt. They are the time to store the outcome.
Larger: a message of a dead process is sent again later. Set by hand; no measurement is recorded."""


class Dispatcher:
    """Sends due deliveries. Its own state can be lost at any time, because the outbox is in the database."""

    def __init__(self, settings: Settings, database: Database, sender: Sender | None = None) -> None:
        self._settings = settings
        self._database = database
        self._sender = sender or Sender(settings.webhook_timeout_seconds, settings.webhook_allow_private)
        self._lease_seconds = settings.webhook_timeout_seconds + LEASE_SLACK_SECONDS
        self._addresses: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, Claim] = {}
        self._failures: dict[str, int] = {}
        self._clear_at = 0.0

    async def run(self) -> None:
        """Send due deliveries until cancelled."""
        while True:
            try:
                await self._start_what_is_due()
                if time.monotonic() >= self._clear_at:
                    await WRITES.run(self._clear)
                    self._clear_at = time.monotonic() + CLEAR_SECONDS
            except DATABASE_ERRORS as error:
                log.warning("webhooks wait: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self) -> None:
        """Stop at once and release the deliveries in progress for other processes."""
        tasks = list(self._addresses.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with suppress(*DATABASE_ERRORS):
            await WRITES.run(self._give_back)
        await self._sender.close()

    async def _start_what_is_due(self) -> None:
        free = MAX_ADDRESSES - len(self._addresses)
        if free <= 0:
            return
        for webhook_id in await run_in_threadpool(self._due, MAX_ADDRESSES):
            if webhook_id not in self._addresses and len(self._addresses) < MAX_ADDRESSES:
                self._addresses[webhook_id] = asyncio.create_task(self._serve(webhook_id))

    async def _serve(self, webhook_id: str) -> None:
        """Send the due deliveries of one address one after another, until none is left or the receiver does not
        respond."""
        ahead: deque[str] = deque()
        outcome: Outcome | None = None
        try:
            while True:
                held = await WRITES.run(self._next, webhook_id, ahead, outcome)
                if held is None:
                    return
                headers, body = signed_request(held.secret, held.message_id, int(time.time()), held.payload)
                outcome = await self._sender.send(held.url, headers, body)
        except DATABASE_ERRORS as error:  # the delivery is sent again when its lease expires
            log.warning("webhooks wait: %s", error)
        finally:
            del self._addresses[webhook_id]

    def _next(self, webhook_id: str, ahead: deque[str], outcome: Outcome | None) -> Claim | None:
        """Store the outcome of the previous delivery and claim the next one, in one transaction."""
        with self._database.write() as session:
            if outcome is not None:
                unreachable = outcome.kind == "unreachable"
                self._failures[webhook_id] = self._failures.get(webhook_id, 0) + 1 if unreachable else 0
                held = self._held.pop(webhook_id)
                service.settle(session, self._settings, webhook_id, held, outcome, self._failures[webhook_id])
                if outcome.kind in ("unreachable", "gone"):
                    return None
            if not ahead:
                ahead.extend(repository.due_deliveries(session, webhook_id, READ_AHEAD))
            claim = repository.claim(session, webhook_id, ahead.popleft(), self._lease_seconds) if ahead else None
        if claim is not None:
            self._held[webhook_id] = claim
        return claim

    def _due(self, limit: int) -> list[str]:
        with self._database.read() as session:
            return repository.due_webhooks(session, limit)

    def _clear(self) -> None:
        with self._database.write() as session:
            service.clear(session, self._settings)

    def _give_back(self) -> None:
        if self._held:
            with self._database.write() as session:
                for held in self._held.values():
                    repository.give_back(session, held)
