"""Executes one job from claim to acknowledgement. All ways in which a job can end are handled here."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from app.db.job_state import StopReason
from app.errors import DatabaseUnavailable, is_passing
from app.jobs import lease, queue
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim
from app.plugins import declared
from app.storage.identity import StoreAway
from app.storage.ownership import reclaim
from app.worker import types
from app.worker.failures import PermanentFailure, Stopped, TransientFailure, storage_error
from app.worker.patience import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, insist, wait
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


WORK_OF_TYPE = declared(types, JobWork)


def execute(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    """Execute a claimed job and acknowledge its outcome. Raises only TransientFailure."""
    try:
        _work(context, claim, stop_reason)
    except LeaseLost:
        log.warning("%s: the lease is lost, dropping the work", claim.job_id)
    except Stopped as stop:
        _acknowledge_stop(context, claim, stop.reason)
    except PermanentFailure as failure:
        _fail(context, claim, failure.error)
    except MemoryError:
        _fail(
            context,
            claim,
            {
                "code": "out_of_memory",
                "message": "the job needs more memory than its limit; use fewer rows or features",
            },
        )
    except DatabaseUnavailable as error:
        raise TransientFailure(error.detail) from error
    except StoreAway as error:
        raise TransientFailure(str(error.strerror)) from error
    except ConnectionError as error:  # not the storage: the supervisor or the database on the other end died
        raise TransientFailure(str(error)) from error
    except OSError as error:
        _fail(context, claim, storage_error(error))
    except Exception:
        log.exception("%s failed unexpectedly", claim.job_id)
        _fail(
            context, claim, {"code": "internal", "message": "the worker failed unexpectedly; its log has the details"}
        )


def _work(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    """Run the work of the job. While the storage or the database fails, wait and continue from the last checkpoint.

    The claim is kept meanwhile, because other jobs would fail for the same reason.
    """
    waited, pause = 0.0, FIRST_PAUSE_SECONDS
    while True:
        try:
            insist(
                claim,
                context.storage_patience_seconds,
                stop_reason,
                lambda: _work_for(context, claim).run(context, claim, stop_reason),
            )
            return
        except OSError as failed:
            error = context.blobs.explain(failed)
            if not is_passing(error) or waited >= context.storage_patience_seconds:
                raise error from None
            reason = storage_error(error)["code"]
            del error
        # outside the handler: the error would keep the arrays of the attempt in memory
        log.warning("%s: %s, waiting %.0f s", claim.job_id, reason, pause)
        with suppress(DatabaseUnavailable), context.database.write() as session:
            queue.tell(session, claim, "job.waiting", {"reason": reason, "seconds": pause})
        wait(pause, stop_reason)
        waited, pause = waited + pause, min(2.0 * pause, LONGEST_PAUSE_SECONDS)


def _work_for(context: WorkerContext, claim: Claim) -> JobWork:
    with context.database.read() as session:
        job_type = lease.load(session, claim).type
    if job_type not in WORK_OF_TYPE:
        raise PermanentFailure(
            "unknown_type",
            f"this version of the worker does not know the job type {job_type}; update the worker",
            "type",
        )
    return WORK_OF_TYPE[job_type]


def _fail(context: WorkerContext, claim: Claim, error: dict[str, Any]) -> None:
    reclaim(context.database, context.blobs, _acknowledge(context, queue.fail, claim, {"param": None, **error}) or [])


def _acknowledge_stop(context: WorkerContext, claim: Claim, reason: StopReason) -> None:
    if reason == "cancel":
        reclaim(context.database, context.blobs, _acknowledge(context, queue.cancel, claim) or [])
    elif reason == "pause":
        _acknowledge(context, queue.pause, claim)
    elif reason == "drain":
        _acknowledge(context, queue.release, claim)


def _acknowledge(context: WorkerContext, write: Callable[..., Answer], *arguments: Any) -> Answer | None:
    try:
        with suppress(LeaseLost), context.database.write() as session:
            return write(session, *arguments)
    except DatabaseUnavailable as error:
        raise TransientFailure(error.detail) from error
    return None
