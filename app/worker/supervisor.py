"""The supervisor: claims jobs for its slots, renews their leases, and restarts training processes that die.

It does no numeric work, so a busy kernel cannot delay its heartbeat. Its state can be lost at any time: jobs are in the
database, and the leases of a dead supervisor expire.
"""

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from sqlalchemy.orm import Session

from app.config import Settings
from app.db import Database
from app.db.job_state import Request, StopReason
from app.db.outages import DATABASE_ERRORS
from app.ids import new_id
from app.jobs import lease, queue
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim, Room
from app.storage import ownership
from app.storage.identity import open_store
from app.system import resources
from app.system.forkserver import FOR_TRAINING, start_forkserver
from app.system.readiness import WorkersReady
from app.system.stop_signals import STOP_SIGNALS, StopSignals
from app.worker.compile_ahead import CompileAhead
from app.worker.slot import COMPILED, COMPILING, DONE, GIVE_BACK, LACKING, READY, Slot
from app.worker.wakeup import Doorbell

log = logging.getLogger(__name__)

KILL_AFTER_SECONDS = 5.0
"""Seconds after which a process that ignores a stop request is killed. Larger: slower stops, more time for a
checkpoint. Set by hand; no measurement is recorded."""
SWEEP_EVERY_SECONDS = 600.0
"""Seconds between two sweeps of files without an owner. Larger: deleted data uses disk space for longer. Set by hand;
no measurement is recorded."""
REQUEST_LOOK_SECONDS = 0.3
"""Seconds between two queries for requests of clients (pause, finish, cancel). Larger: later reaction. Set by hand; no
measurement is recorded."""
DATABASE_PAUSE_SECONDS = 1.0
"""Seconds before a retry when the database does not respond. Larger: less load, a later restart. Set by hand; no
measurement is recorded."""
STORAGE_LOOK_SECONDS = 1.0
"""Seconds between two checks of an unavailable store. Larger: jobs start later once it is available again. Set by hand;
no measurement is recorded."""
BLIND_LOOK_SECONDS = 5.0
"""Seconds between two queries for work while notifications do not work. Larger: less load, later starts. Set by hand;
no measurement is recorded."""

Outcome = Callable[[Any, Claim], None]


class Every:
    """A timer: says when a periodic task is due."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

    def hurry(self) -> None:
        self._next = 0.0


class Supervisor:
    def __init__(self, settings: Settings, wake_fd: int | None = None, sign: WorkersReady | None = None) -> None:
        """`wake_fd`: pipe through which the API process wakes the supervisor. `sign`: readiness flag that the API
        process reads."""
        self._settings = settings
        self._sign = sign or WorkersReady()
        self._database = Database(settings.resolved_database_url)
        self._doorbell = Doorbell(self._database, settings.poll_seconds, wake_fd)
        self._blobs = open_store(settings.data_dir, self._database)
        self._id = lease.owner_of(resources.memory_name(), new_id("wrk"))
        self._processes = multiprocessing.get_context("forkserver")
        self._threads = settings.threads_a_worker
        self._slots: list[Slot] = []
        self._compile_ahead = CompileAhead()
        self._unsettled: list[tuple[Claim, Outcome]] = []
        self._kills_for_memory = resources.out_of_memory_kills()
        self._drain_until: float | None = None
        self._heartbeat = Every(settings.heartbeat_seconds)
        self._request_look = Every(REQUEST_LOOK_SECONDS)
        self._sweep = Every(SWEEP_EVERY_SECONDS)
        self._claim_look = Every(settings.poll_seconds)
        self._blind_look = Every(BLIND_LOOK_SECONDS)
        self._database_back_at = 0.0
        self._judge_from = 0.0
        """Time one lease after the last database outage. Until then live workers can have expired leases."""
        self._storage_look = Every(STORAGE_LOOK_SECONDS)
        self._storage_failed = False

    def run(self) -> None:
        """Run jobs until SIGTERM or SIGINT, then drain: running jobs return to the queue."""
        for number in STOP_SIGNALS:  # nothing is claimed yet: exit without waiting for kernels
            signal.signal(number, _end_at_once)
        log.info("%s starts with %d slot(s)", self._id, self._settings.workers)
        self._sign.ready = False
        start_forkserver(FOR_TRAINING)
        self._slots = [self._new_slot() for _ in range(self._settings.workers)]
        stop = StopSignals()
        while not self._drained():
            self._wait(stop)
            self._collect()
            self._with_database(self._settle)
            if self._heartbeat.due():
                self._with_database(self._keep_leases)
            if self._request_look.due():
                self._with_database(self._look_for_requests)
            if self._drain_until is not None:
                self._stop(self._claims(), "drain")
            else:
                self._with_database(self._claim)
                if self._sweep.due():
                    self._with_database(self._delete_unowned)
            self._compile_ahead.attend(is_idle=self._drain_until is None and any(slot.idle for slot in self._slots))
            self._show_readiness()
            self._kill_the_deaf()
        self._compile_ahead.end()
        for slot in self._slots:
            slot.end()
        self._doorbell.close()
        self._database.close()
        log.info("%s has drained", self._id)

    def _new_slot(self) -> Slot:
        return Slot(self._processes, self._settings, self._threads)

    def _drained(self) -> bool:
        if self._drain_until is None:
            return False
        finished = not self._unsettled and all(slot.claim is None for slot in self._slots)
        return finished or time.monotonic() >= self._drain_until

    def _wait(self, stop: StopSignals) -> None:
        """Sleep until a process reports or dies, a notification or a signal arrives, or a timer is due."""
        signs: list[Any] = [stop, *(slot.pipe for slot in self._slots)]
        signs += [slot.process.sentinel for slot in self._slots]
        patience = self._doorbell.poll_seconds
        if self._claims() or self._unsettled:
            patience = min(patience, REQUEST_LOOK_SECONDS)
        wait(signs + self._doorbell.signs, timeout=min(patience, self._settings.heartbeat_seconds))
        stop.drain()
        if stop.asked and self._drain_until is None:
            self._drain_until = time.monotonic() + self._settings.drain_seconds
        if self._doorbell.has_rung():
            self._claim_look.hurry()
            self._blind_look.hurry()
            self._request_look.hurry()

    def _collect(self) -> None:
        for slot in list(self._slots):
            try:
                while slot.pipe.poll():
                    self._on_message(slot, slot.pipe.recv())
            except (EOFError, OSError):
                pass  # the process is dead or dying; its sentinel is handled below
            if not slot.process.is_alive():
                self._on_death(slot)

    def _on_message(self, slot: Slot, message: str) -> None:
        if message == LACKING:
            self._compile_ahead.miss_first()
        elif message in (COMPILING, COMPILED):
            self._on_compilation(slot, message == COMPILING)
            return
        elif message == READY:
            slot.ready = True
        elif slot.claim is not None:
            if message == GIVE_BACK:
                self._unsettled.append((slot.claim, queue.release))
            else:
                assert message == DONE
            slot.claim = None
        self._claim_look.hurry()  # a slot is free
        self._blind_look.hurry()

    def _on_compilation(self, slot: Slot, is_begun: bool) -> None:
        """Note that a job starts or stops waiting for a kernel. The first wait is stored as an event."""
        slot.compiling = is_begun
        if slot.claim is not None and slot.compiled_for != slot.claim:
            slot.compiled_for = slot.claim
            self._unsettled.append((slot.claim, partial(queue.tell, event="job.compiling", data={})))

    def _show_readiness(self) -> None:
        """Set the readiness flag: jobs are accepted, the kernels of `auto` are compiled, and no job waits for one."""
        is_waiting = self._compile_ahead.lacks_first or any(slot.compiling for slot in self._slots)
        self._sign.ready = any(slot.ready for slot in self._slots) and not is_waiting

    def _on_death(self, slot: Slot) -> None:
        log.warning("worker process %s died (exit code %s)", slot.process.pid, slot.process.exitcode)
        if slot.claim is not None:
            outcome: Outcome = queue.release if slot.stop_reason == "drain" else queue.worker_died
            if slot.process.exitcode == -signal.SIGKILL and slot.stop_reason is None and self._memory_ran_out():
                outcome = partial(queue.worker_died, memory_bytes=self._settings.memory_budget_bytes)
            self._unsettled.append((slot.claim, outcome))
        slot.end()
        self._slots.remove(slot)
        if self._drain_until is None:
            self._slots.append(self._new_slot())

    def _memory_ran_out(self) -> bool:
        """Whether the system has killed a process for memory since the last call."""
        before, self._kills_for_memory = self._kills_for_memory, resources.out_of_memory_kills()
        return self._kills_for_memory > before

    def _with_database(self, act: Callable[[], None]) -> None:
        """Call a function that uses the database; log an outage and retry later."""
        if time.monotonic() < self._database_back_at:
            return
        try:
            act()
        except DATABASE_ERRORS as error:
            log.warning("retrying in %.0f s: %s", DATABASE_PAUSE_SECONDS, error)
            self._database_back_at = time.monotonic() + DATABASE_PAUSE_SECONDS
            self._judge_from = time.monotonic() + self._settings.lease_seconds
            self._heartbeat.hurry()

    def _settle(self) -> None:
        """Store the outcome of jobs whose process could not do so itself."""
        while self._unsettled:
            claim, outcome = self._unsettled[0]
            try:
                with self._database.write() as session:
                    outcome(session, claim)
            except LeaseLost:
                pass
            self._unsettled.pop(0)

    def _keep_leases(self) -> None:
        if not self._claims():
            self._database.check_writable()  # notice an outage even if there is nothing to write
            with self._database.read() as session:
                if not lease.any_expired(session):
                    return
        with self._database.write() as session:
            pulse = lease.heartbeat(session, self._claims(), self._settings.lease_seconds)
            if time.monotonic() >= self._judge_from:
                for claim in queue.requeue_expired(session, self._id):
                    log.warning("%s: its lease expired; queued again", claim.job_id)
        self._stop(pulse.lost, "lost")
        self._pass_on(pulse.requests)

    def _look_for_requests(self) -> None:
        if claims := self._claims():
            with self._database.read() as session:
                requests = lease.requests(session, claims)
            self._pass_on(requests)

    def _pass_on(self, requests: Mapping[Claim, Request]) -> None:
        for claim, request in requests.items():
            self._stop([claim], request)

    def _claim(self) -> None:
        if not any(slot.idle for slot in self._slots) or not self._claim_look.due():
            return
        if not self._doorbell.may_have_news() and not self._blind_look.due():
            return
        with self._database.read() as session:
            if not lease.is_waiting(session, self._room(session)):
                return
        if not self._storage_is_here():
            self._blind_look.hurry()
            return
        for slot in self._slots:
            if slot.idle:
                with self._database.write() as session:
                    room = self._room(session, lock=True)
                    claim = lease.claim_next(session, self._id, self._settings.lease_seconds, room)
                if claim is None:
                    return
                slot.start(claim)

    def _room(self, session: Session, *, lock: bool = False) -> Room:
        return lease.room(session, self._id, self._settings.memory_budget_bytes, self._claims(), lock=lock)

    def _storage_is_here(self) -> bool:
        """Whether the store is available. Jobs stay in the queue while it is not."""
        if self._storage_failed and not self._storage_look.due():
            return False
        try:
            self._blobs.check()
        except OSError as error:
            if not self._storage_failed:
                log.warning("jobs wait for the storage: %s", error)
            self._storage_failed = True
            return False
        if self._storage_failed:
            log.info("the storage is back")
        self._storage_failed = False
        return True

    def _delete_unowned(self) -> None:
        try:
            if freed := ownership.sweep(self._database, self._blobs, self._settings.sweep_grace_seconds):
                log.info("the sweep deleted %d bytes of files without an owner", freed)
        except OSError as error:  # the next sweep deletes what this one left
            log.warning("the sweep of files without an owner failed: %s", error)

    def _stop(self, claims: Sequence[Claim], reason: StopReason) -> None:
        for slot in self._slots:
            if slot.claim in claims:
                slot.stop(reason)

    def _claims(self) -> list[Claim]:
        return [slot.claim for slot in self._slots if slot.claim is not None]

    def _kill_the_deaf(self) -> None:
        for slot in self._slots:
            if slot.is_deaf(KILL_AFTER_SECONDS):
                slot.process.kill()


def _end_at_once(_number: int, _frame: object) -> None:
    os._exit(0)
