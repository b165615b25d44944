"""One slot: a training process and the pipe to it. The process takes claims, one after another."""

import logging
import os
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from typing import Any

from threadpoolctl import threadpool_limits

from app.config import Settings
from app.db import Database
from app.jobs.repository import Claim
from app.storage import BlobStore
from app.worker.execute import Desk, StopReason, TransientFailure, execute

log = logging.getLogger(__name__)

LOWER_PRIORITY = 5  # training yields to the API when both want the processor

READY, DONE, GIVE_BACK = "ready", "done", "give_back"


class Slot:
    """The supervisor's handle on one training process."""

    def __init__(self, processes: ForkServerContext, settings: Settings, threads: int) -> None:
        self.pipe, theirs = processes.Pipe()
        self.process = processes.Process(target=_main, args=(theirs, settings, threads), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = False
        self.claim: Claim | None = None
        self.stop_reason: StopReason | None = None
        self.stop_sent_at = 0.0

    @property
    def idle(self) -> bool:
        return self.ready and self.claim is None

    def start(self, claim: Claim) -> None:
        self.claim, self.stop_reason = claim, None
        self._send(claim)

    def stop(self, reason: StopReason) -> None:
        """Ask the process to end its job; asking twice changes nothing."""
        if self.stop_reason is None:
            self.stop_reason, self.stop_sent_at = reason, time.monotonic()
            self._send(reason)

    def is_deaf(self, patience_seconds: float) -> bool:
        """Asked to stop, and still at work after so long."""
        asked = self.claim is not None and self.stop_reason is not None
        return asked and time.monotonic() - self.stop_sent_at > patience_seconds

    def _send(self, message: Claim | StopReason) -> None:
        with suppress(OSError):  # a dead process cannot be told; the supervisor sees its death anyway
            self.pipe.send(message)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _main(pipe: Connection, settings: Settings, threads: int) -> None:
    """The training process. It ends when the supervisor's end of the pipe closes, however that happens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s worker %(process)d %(message)s")
    os.nice(LOWER_PRIORITY)
    desk = Desk(Database(settings.resolved_database_url), BlobStore(settings.data_dir), threads)
    with threadpool_limits(threads):
        pipe.send(READY)
        while True:
            try:
                message: Any = pipe.recv()
            except EOFError:
                return
            if isinstance(message, Claim):
                pipe.send(_serve(desk, message, pipe))


def _serve(desk: Desk, claim: Claim, pipe: Connection) -> str:
    reason: StopReason | None = None

    def stop_reason() -> StopReason | None:
        nonlocal reason
        if reason is None and wait([pipe], timeout=0):
            try:
                reason = pipe.recv()
            except EOFError:
                reason = "drain"
        return reason

    try:
        execute(desk, claim, stop_reason)
        return DONE
    except TransientFailure as failure:
        log.warning("%s: given back: %s", claim.job_id, failure)
        return GIVE_BACK
