"""The training process of a slot: receives claims through its pipe and executes them."""

import logging
import signal
from contextlib import AbstractContextManager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from threadpoolctl import threadpool_limits

from app.config import MIB, Settings
from app.db import Database
from app.db.job_state import StopReason, stronger
from app.jobs.repository import Claim
from app.storage.identity import open_store
from app.system import resources
from app.worker import kernels
from app.worker.executor import execute
from app.worker.failures import TransientFailure
from app.worker.slot import COMPILED, COMPILING, DONE, GIVE_BACK, LACKING, READY
from app.worker.worker_context import WorkerContext
from solvers.linalg.clock import watch_compilation

log = logging.getLogger(__name__)

ADDRESS_SLACK_BYTES = 512 * MIB
"""Bytes added to the address-space limit of a job, for memory that libraries reserve but never write. Larger: a job can
exceed its memory limit by more before it fails. Set by hand; no measurement is recorded."""


def serve(pipe: Connection, settings: Settings, threads: int) -> None:
    """Execute claims one after another, until the supervisor's end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s worker %(process)d %(message)s")
    resources.offer_as_victim()
    resources.give_back_freed_memory()
    database = Database(settings.resolved_database_url)
    context = WorkerContext(
        database,
        open_store(settings.data_dir, database),
        threads,
        settings.checkpoint_seconds,
        settings.storage_patience_seconds,
    )
    with threadpool_limits(threads), suppress(EOFError, BrokenPipeError):
        if kernels.lacking:
            pipe.send(LACKING)
        pipe.send(READY)
        while True:
            message: Any = pipe.recv()
            if isinstance(message, Claim):
                with resources.at_most_more(_allowance(message, settings)), _compilation_told(pipe):
                    outcome = _run(context, message, pipe)
                pipe.send(outcome)


def _compilation_told(pipe: Connection) -> AbstractContextManager[None]:
    """Report to the supervisor while a kernel is compiled. Only the compiling thread writes to the pipe then."""

    def tell(message: str) -> None:
        with suppress(OSError):  # the supervisor has died: the job ends when its lease is lost
            pipe.send(message)

    return watch_compilation(partial(tell, COMPILING), partial(tell, COMPILED))


def _allowance(claim: Claim, settings: Settings) -> int:
    """Return the memory limit of a job: twice its estimate, at most the budget. A job that exceeds the limit fails
    without affecting other jobs."""
    budget = settings.memory_budget_bytes
    return min(2 * claim.peak_bytes or budget, budget) + ADDRESS_SLACK_BYTES


def _run(context: WorkerContext, claim: Claim, pipe: Connection) -> str:
    reason: StopReason | None = None

    def stop_reason() -> StopReason | None:
        nonlocal reason
        while reason != "lost" and wait([pipe], timeout=0):
            try:
                reason = stronger(pipe.recv(), reason)
            except EOFError:
                return stronger("drain", reason)
        return reason

    try:
        execute(context, claim, stop_reason)
        return DONE
    except TransientFailure as failure:
        log.warning("%s: returned to the queue: %s", claim.job_id, failure)
        return GIVE_BACK
