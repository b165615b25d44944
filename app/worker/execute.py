"""One job, from claim to model: load > validate > train > judge > write > commit. One acknowledgement an outcome."""

import errno
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import OperationalError

import solvers
from app.db import Database
from app.db.engine import current_time
from app.db.tables import ModelRow
from app.ids import new_id
from app.jobs import queue
from app.jobs.queue import LeaseLost
from app.jobs.repository import Claim
from app.models import service as models
from app.storage import BlobStore
from app.worker.card import write_card
from app.worker.cross_validation import choose_folds, cross_validate
from app.worker.failures import PermanentFailure, Stopped, TransientFailure
from app.worker.load import Work, load
from app.worker.model import encode_model
from app.worker.progress import Progress
from app.worker.slot import StopReason
from app.worker.training import Trainer

log = logging.getLogger(__name__)

OF_CARD = ("strategy", "certificate", "metrics", "cross_validation", "training")
"""What of a model's card the job's result tells too."""


@dataclass(frozen=True)
class Desk:
    """What a worker process works with."""

    database: Database
    blobs: BlobStore
    threads: int


def execute(desk: Desk, claim: Claim, stop_reason: Callable[[], StopReason | None]) -> None:
    """Run a claimed job to its end and acknowledge it. Raises only TransientFailure."""
    try:
        _run(desk, claim, stop_reason)
    except LeaseLost:
        log.warning("%s: the lease is lost, dropping the work", claim.job_id)
    except Stopped as stop:
        _acknowledge_stop(desk, claim, stop.reason)
    except PermanentFailure as failure:
        _fail(desk, claim, failure.error)
    except MemoryError:
        _fail(desk, claim, {"code": "out_of_memory", "message": "the job needs more memory than there is"})
    except OperationalError as error:
        raise TransientFailure(str(error)) from error
    except OSError as error:
        _fail(desk, claim, _storage_error(error))
    except Exception:
        log.exception("%s failed unexpectedly", claim.job_id)
        _fail(desk, claim, {"code": "internal", "message": "the worker failed; its log says why"})


def _run(desk: Desk, claim: Claim, stop_reason: Callable[[], StopReason | None]) -> None:
    started = time.perf_counter()
    work = load(desk.database, desk.blobs, claim)
    folds = choose_folds(work)
    progress = Progress(desk.database, claim, work.request.tol)
    trainings = 1 if folds is None else 2 + int(folds.max())
    trainer = Trainer(work, desk.threads, trainings, progress, stop_reason)
    validation = None if folds is None else cross_validate(work, folds, trainer)
    result = trainer.train(work.train)
    card = write_card(work, result, validation, started)
    content = encode_model(work, result, card)
    blob, size = desk.blobs.put(content), len(content)
    _commit(desk, claim, work, result, card, blob, size, progress)


def _commit(
    desk: Desk,
    claim: Claim,
    work: Work,
    result: solvers.SolveResult,
    card: dict[str, Any],
    blob: str,
    size: int,
    progress: Progress,
) -> None:
    """The model and the end of the job, in one transaction, only if the claim still holds."""
    model = ModelRow(
        id=new_id("mdl"),
        name=work.job.model_name,
        job_id=work.job.id,
        blob=blob,
        task=result.task,
        solver=result.solver,
        converged=result.converged,
        card=card,
    )
    with desk.database.write() as session:
        outcome = {
            "status": str(result.status),
            "converged": result.converged,
            "task": work.task,
            "task_reason": work.choice.reason,
            "solver": result.solver,
            **{name: card[name] for name in OF_CARD},
        }
        queue.succeed(session, claim, model.id, outcome, **progress.final_figures(result))
        model.created_at = current_time(session)
        models.register(session, model, size)


def _fail(desk: Desk, claim: Claim, error: dict[str, Any]) -> None:
    _acknowledge(desk, lambda session: queue.fail(session, claim, {"param": None, **error}))


def _storage_error(error: OSError) -> dict[str, Any]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return {"code": "storage_full", "message": "the disk is full; the model could not be written"}
    if isinstance(error, FileNotFoundError):
        return {"code": "data_missing", "message": "a file of the dataset is missing; `hyperplane verify` says which"}
    return {"code": "storage_error", "message": f"the storage failed: {error.strerror}"}


def _acknowledge_stop(desk: Desk, claim: Claim, reason: StopReason) -> None:
    if reason == "cancel":
        _acknowledge(desk, lambda session: queue.cancel(session, claim))
    elif reason == "drain":
        _acknowledge(desk, lambda session: queue.release(session, claim))


def _acknowledge(desk: Desk, write: Callable[[Any], None]) -> None:
    try:
        with suppress(LeaseLost), desk.database.write() as session:
            write(session)
    except OperationalError as error:
        raise TransientFailure(str(error)) from error
