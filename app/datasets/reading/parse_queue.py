"""Has received files parsed, first while the upload request waits, then in the background.

A dataset in the state `processing` belongs to one API process, which holds a lease and an attempt number. A background
task of that process renews the lease. Any other process can take over a dataset whose lease has expired. A process
never takes over a dataset that it parses itself: if the process was paused for longer than the lease, its own parsers
still run. In the first round after such a pause a process takes over nothing, so that other paused processes can renew
their leases first.

While the storage or the database fails, parsing is retried with back-off, because the file is not at fault. If the
parser of a file is killed, the file is parsed again, up to MAX_READER_DEATHS times.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path

from anyio import to_thread
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.config import Settings
from app.datasets import service
from app.datasets.reading.parse import Parsed
from app.datasets.reading.parser_pool import ParserPool, ReaderDied
from app.datasets.repository import Claim, any_silent, claim_silent, extend_leases
from app.datasets.service import MAX_ATTEMPTS, MAX_READER_DEATHS, OnInsert, Received
from app.db import Database
from app.db.outages import DATABASE_ERRORS
from app.db.tables import DatasetRow
from app.errors import AppError, DatabaseUnavailable, StorageFull, Unavailable, is_disk_full, is_passing
from app.storage import BlobStore
from app.storage.ownership import BlobsGone, reclaim
from app.web.long_poll import wait_for
from app.web.thread_rooms import FILES, WRITES

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""First and longest pause in seconds between two attempts to parse a file while the storage fails. Larger: less load,
and datasets are ready later after an outage. Set by hand; no measurement is recorded."""

GONE = "An identical file was deleted during this upload; send the file again."

# A task that runs in a thread at each heartbeat. Other features pass such tasks to `take_care`.
Upkeep = Callable[[], None]


def _nothing_more(_session: Session, _dataset: DatasetRow) -> None:
    """Do nothing: the default of `on_insert`."""


class ParseQueue:
    """Creates datasets from received files. Each API process has one ParseQueue."""

    def __init__(self, settings: Settings, database: Database, blobs: BlobStore, parser_pool: ParserPool) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._parser_pool = parser_pool
        self._reading: dict[Claim, asyncio.Task[None]] = {}
        self._discarded: set[asyncio.Task[Parsed]] = set()
        self._stopping = False
        self._take_over_from = 0.0
        """Time from which this process can take over datasets: one lease after the last database outage. Before that,
        an expired lease can belong to a live process that could not renew it."""

    async def create(
        self, file: Path, received: Received, wait_seconds: float, on_insert: OnInsert = _nothing_more
    ) -> tuple[DatasetRow, bool]:
        """Create the dataset of a file. Returns the dataset, `ready` or `processing`, and whether it existed before.

        Afterwards the caller can delete `file`, because parsing reads the blob.
        """
        if known := await run_in_threadpool(service.find_known, self._database, received):
            await self._repair(file, received, known)
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
            self._finish_later(Claim(dataset.id, dataset.attempt), received, reading)
        return dataset, was_known

    async def _repair(self, file: Path, received: Received, known: DatasetRow) -> None:
        """Repair a dataset whose file is uploaded again: check all its files, and replace the damaged ones."""
        dataset, damaged = await FILES.run(service.damaged_files, self._database, self._blobs, known.id)
        if received.sha256 in damaged:
            await FILES.run(self._blobs.adopt, file, received.sha256)
        if damaged - {received.sha256}:
            log.warning("dataset %s has %d damaged file(s); parsing its uploaded file again", known.id, len(damaged))
            parsed = await self._read(received)
            await WRITES.run(service.settle_repaired, self._database, self._blobs, dataset, parsed)

    async def take_care(self, *upkeep: Upkeep) -> None:
        """Renew leases, take over datasets of dead processes, and run the upkeep tasks, until cancelled."""
        duties: tuple[Upkeep, ...] = (partial(service.forget_expired, self._database), *upkeep)
        last_round = time.time()
        while True:
            was_paused = time.time() - last_round > self._settings.lease_seconds
            last_round = time.time()
            try:
                await WRITES.run(
                    self._renew
                )  # renew first, so that no other process takes over datasets that are read here
                for claim in [] if was_paused else await WRITES.run(self._take_over):
                    await self._read_again(claim)
                for duty in duties:
                    await WRITES.run(duty)
            except DATABASE_ERRORS as error:
                log.warning("renewing leases of datasets failed, retrying at the next heartbeat: %s", error)
                self._take_over_from = time.monotonic() + self._settings.lease_seconds
            except OSError as error:
                log.warning("storage failed during the upkeep of datasets, retrying at the next heartbeat: %s", error)
            await asyncio.sleep(self._settings.heartbeat_seconds)

    async def stop(self) -> None:
        """Release the datasets that are being parsed, so that another process can take them over at once."""
        self._stopping = True
        for child in active_children():
            child.terminate()
        claims, tasks = list(self._reading), list(self._reading.values())
        if claims:
            await asyncio.wait(tasks, timeout=self._settings.heartbeat_seconds)
            await WRITES.run(service.release, self._database, claims)

    async def _read(self, received: Received) -> Parsed:
        def ingest() -> Parsed:
            path = self._blobs.path(received.sha256)
            return self._parser_pool.ingest(path, received.file_format, received.options)

        return await to_thread.run_sync(ingest, limiter=self._parser_pool.limiter)

    async def _parsed_or_refused(self, reading: asyncio.Task[Parsed], received: Received) -> Parsed:
        try:
            return reading.result()
        except FileNotFoundError:  # another request with the same bytes was refused, which deleted the blob
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

    def _finish_later(self, claim: Claim, received: Received, reading: asyncio.Task[Parsed]) -> None:
        async def finish() -> None:
            try:
                await self._finish(claim, received, reading)
            except (*DATABASE_ERRORS, OSError, BlobsGone) as error:  # a process tries again when the lease has expired
                log.warning(
                    "dataset %s was parsed but could not be stored; retrying after its lease: %s",
                    claim.dataset_id,
                    error,
                )
            finally:
                del self._reading[claim]

        self._reading[claim] = asyncio.create_task(finish())

    async def _finish(self, claim: Claim, received: Received, reading: asyncio.Task[Parsed]) -> None:
        """Store the result of parsing a claimed dataset. Retries while the storage or the database fails."""
        waited, pause, deaths = 0.0, FIRST_PAUSE_SECONDS, 0
        while True:
            reason: Exception
            try:
                parsed = await reading
                await WRITES.run(service.settle_ready, self._database, self._blobs, claim, parsed)
                return
            except (BlobsGone, DatabaseUnavailable) as error:
                reason = error
                if self._stopping:
                    return
            except AppError as error:
                reason = error
                deaths += isinstance(error, ReaderDied)
                if self._stopping:
                    return
                if not isinstance(error, ReaderDied) or deaths == MAX_READER_DEATHS:
                    await WRITES.run(self._invalid(claim, error))
                    return
            except OSError as error:
                reason = explained = await FILES.run(self._blobs.explain, error)
                if self._stopping or not is_passing(explained):
                    raise
                if is_disk_full(explained) and waited >= self._settings.storage_patience_seconds:
                    full = StorageFull("The disk was full while the file was read; free disk space and send it again.")
                    await WRITES.run(self._invalid(claim, full))
                    return
            log.warning("dataset %s: parsing it again in %.0f s: %s", claim.dataset_id, pause, reason)
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(2.0 * pause, LONGEST_PAUSE_SECONDS)
            reading = asyncio.create_task(self._read(received))

    def _invalid(self, claim: Claim, error: AppError) -> Callable[[], None]:
        return partial(service.settle_invalid, self._database, self._blobs, claim, error)

    async def _read_again(self, claim: Claim) -> None:
        log.warning("dataset %s: the lease of its parser expired; parsing it again", claim.dataset_id)
        if claim.attempt > MAX_ATTEMPTS and await run_in_threadpool(self._is_old, claim):
            error = AppError(
                f"Parsing failed {claim.attempt - 1} times because the process died; the dataset is marked invalid.",
                code="reader_died",
            )
            await WRITES.run(self._invalid(claim, error))
            return

        def look() -> Received | None:
            with self._database.read() as session:
                return service.received_again(session, claim)

        if received := await run_in_threadpool(look):
            self._finish_later(claim, received, asyncio.create_task(self._read(received)))

    def _is_old(self, claim: Claim) -> bool:
        """Return whether the file was retried for HYPERPLANE_STORAGE_PATIENCE_SECONDS, so that it can be given up. Many
        attempts in a shorter time are a sign of a busy machine, not of a bad file."""
        with self._database.read() as session:
            return service.age_seconds(session, claim) >= self._settings.storage_patience_seconds

    def _renew(self) -> None:
        if claims := list(self._reading):
            with self._database.write() as session:
                extend_leases(session, claims, self._settings.lease_seconds)

    def _take_over(self) -> list[Claim]:
        if time.monotonic() < self._take_over_from:
            return []
        with self._database.read() as session:
            if not any_silent(session):  # check with a read first, which needs no write lock on SQLite
                return []
        with self._database.write() as session:
            alive = {claim.dataset_id for claim in list(self._reading)}
            return claim_silent(session, self._settings.lease_seconds, alive)

    def _discard(self, reading: asyncio.Task[Parsed]) -> None:
        """Keep a reference to a task whose result is not needed, so that it is not garbage-collected before it ends."""

        def on_end(task: asyncio.Task[Parsed]) -> None:
            self._discarded.discard(task)
            task.exception()  # mark the exception as retrieved

        self._discarded.add(reading)
        reading.add_done_callback(on_end)
