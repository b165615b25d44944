"""Reading received files: beside the request while it waits, in the background after that, by whoever is alive.

A dataset that is `processing` belongs to one API process by lease and attempt. The caretaker of that
process renews the lease; the caretaker of any process takes over a dataset whose lease has run out.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path

from anyio import to_thread
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.config import Settings
from app.datasets import service
from app.datasets.reading.parse import Parsed
from app.datasets.reading.parser_pool import ParserPool
from app.datasets.repository import Claim, any_silent, claim_silent, extend_leases
from app.datasets.service import MAX_ATTEMPTS, OnInsert, Received
from app.db import Database
from app.db.tables import DatasetRow
from app.errors import AppError, StorageFull, Unavailable, is_disk_full
from app.storage import BlobStore
from app.storage.ownership import BlobsGone, reclaim
from app.web.long_poll import wait_for
from app.web.thread_rooms import FILES, WRITES

log = logging.getLogger(__name__)

GONE = "Files that this one shares were deleted at this moment; send it again."

# What each heartbeat also does, in a thread: other features add their own upkeep.
Upkeep = Callable[[], None]


def _nothing_more(_session: Session, _dataset: DatasetRow) -> None:
    """A dataset is inserted and nothing else happens."""


class ParseQueue:
    """Turns received files into datasets. One for each API process."""

    def __init__(self, settings: Settings, database: Database, blobs: BlobStore, parser_pool: ParserPool) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._parser_pool = parser_pool
        self._reading: dict[Claim, asyncio.Task[None]] = {}
        self._discarded: set[asyncio.Task[Parsed]] = set()
        self._stopping = False

    async def create(
        self, file: Path, received: Received, wait_seconds: float, on_insert: OnInsert = _nothing_more
    ) -> tuple[DatasetRow, bool]:
        """The dataset of a file, ready or `processing` when the wait is over; and whether it was already here.

        When this returns or raises, the caller may delete its file: what is read is the blob that it became.
        """
        if known := await run_in_threadpool(service.find_known, self._database, received):
            return known, True
        await FILES.run(self._blobs.adopt, file, received.sha256)
        reading = asyncio.create_task(self._read(received))
        await wait_for(reading, wait_seconds)
        if reading.done():
            parsed = await self._parsed_or_refused(reading, received)
            return await self._stored(partial(service.store_ready, parsed=parsed), received, on_insert)
        in_background = False
        try:
            lease = self._settings.lease_seconds
            store = partial(service.store_processing, lease_seconds=lease)
            dataset, was_known = await self._stored(store, received, on_insert)
            in_background = not was_known
        finally:
            if not in_background:
                self._discard(reading)
        if in_background:
            self._finish_later(Claim(dataset.id, dataset.attempt), reading)
        return dataset, was_known

    async def take_care(self, *upkeep: Upkeep) -> None:
        """Until cancelled: renew our leases, take over what silent processes left, and keep the house in order."""
        duties: tuple[Upkeep, ...] = (self._renew, partial(service.forget_expired, self._database), *upkeep)
        while True:
            try:
                for claim in await WRITES.run(self._take_over):
                    await self._read_again(claim)
                for duty in duties:
                    await WRITES.run(duty)
            except DBAPIError as error:
                log.warning("the database does not answer: %s", error.orig)
            except OSError as error:
                log.warning("the storage does not answer: %s", error)
            await asyncio.sleep(self._settings.heartbeat_seconds)

    async def stop(self) -> None:
        """Give back what is being read: the next process, here or elsewhere, begins with it at once."""
        self._stopping = True
        for child in active_children():
            child.terminate()
        claims, tasks = list(self._reading), list(self._reading.values())
        if claims:
            await asyncio.wait(tasks, timeout=self._settings.heartbeat_seconds)
            await WRITES.run(service.release, self._database, claims)

    async def _read(self, received: Received) -> Parsed:
        path = self._blobs.path(received.sha256)
        ingest = partial(self._parser_pool.ingest, path, received.file_format, received.options)
        return await to_thread.run_sync(ingest, limiter=self._parser_pool.limiter)

    async def _parsed_or_refused(self, reading: asyncio.Task[Parsed], received: Received) -> Parsed:
        try:
            return reading.result()
        except FileNotFoundError:  # the same bytes were refused, and deleted, for another request
            raise Unavailable(GONE) from None
        except BaseException:
            await WRITES.run(reclaim, self._database, self._blobs, [received.sha256])
            raise

    async def _stored(
        self, store: Callable[..., tuple[DatasetRow, bool]], received: Received, on_insert: OnInsert
    ) -> tuple[DatasetRow, bool]:
        try:
            return await WRITES.run(store, self._database, self._blobs, received, on_insert)
        except BlobsGone:
            raise Unavailable(GONE) from None

    def _finish_later(self, claim: Claim, reading: asyncio.Task[Parsed]) -> None:
        async def finish() -> None:
            try:
                settle = await self._outcome(claim, reading)
                if settle is not None:
                    await WRITES.run(settle)
            except (DBAPIError, OSError, BlobsGone) as error:  # when the lease has run out, somebody tries again
                log.warning("%s could not be finished: %s", claim.dataset_id, error)
            finally:
                del self._reading[claim]

        self._reading[claim] = asyncio.create_task(finish())

    async def _outcome(self, claim: Claim, reading: asyncio.Task[Parsed]) -> Callable[[], None] | None:
        """What is to be written about a claimed dataset; None: nothing, somebody else will."""
        try:
            parsed = await reading
        except AppError as error:
            return None if self._stopping else self._invalid(claim, error)
        except OSError as error:
            if not is_disk_full(error):
                raise
            return self._invalid(claim, StorageFull("The disk was full when the file was read; send it again."))
        return partial(service.settle_ready, self._database, self._blobs, claim, parsed)

    def _invalid(self, claim: Claim, error: AppError) -> Callable[[], None]:
        return partial(service.settle_invalid, self._database, self._blobs, claim, error)

    async def _read_again(self, claim: Claim) -> None:
        log.warning("%s: its reader fell silent, reading it again", claim.dataset_id)
        if claim.attempt > MAX_ATTEMPTS:
            error = AppError(f"Reading this file was begun {MAX_ATTEMPTS} times and never ended.", code="reader_died")
            await WRITES.run(self._invalid(claim, error))
            return

        def look() -> Received | None:
            with self._database.read() as session:
                return service.received_again(session, claim)

        if received := await run_in_threadpool(look):
            self._finish_later(claim, asyncio.create_task(self._read(received)))

    def _renew(self) -> None:
        if claims := list(self._reading):
            with self._database.write() as session:
                extend_leases(session, claims, self._settings.lease_seconds)

    def _take_over(self) -> list[Claim]:
        with self._database.read() as session:
            if not any_silent(session):  # a look is cheaper than SQLite's write lock
                return []
        with self._database.write() as session:
            return claim_silent(session, self._settings.lease_seconds)

    def _discard(self, reading: asyncio.Task[Parsed]) -> None:
        """Nobody wants the outcome, but a task that is not held may be collected before its end."""

        def on_end(task: asyncio.Task[Parsed]) -> None:
            self._discarded.discard(task)
            task.exception()  # seen: it concerns nobody

        self._discarded.add(reading)
        reading.add_done_callback(on_end)
