"""One job, from claim to model: load > split > solve > judge > write > commit. One acknowledgement an outcome.

Exception
├── PermanentFailure   the job cannot succeed, however often it is tried
├── Stopped            somebody wants the work to end: a client (cancel) or the machine (drain)
├── LeaseLost          the job is somebody else's now (app.jobs.queue)
└── TransientFailure   the database or disk does not answer; the job is given back
"""

import errno
import logging
import platform
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from sqlalchemy.exc import OperationalError

import solvers
from app import __version__
from app.datasets import service as datasets
from app.datasets.arrays import DatasetArrays, open_arrays
from app.datasets.schemas import Label
from app.db import Database
from app.db.engine import current_time
from app.db.tables import DatasetRow, JobRow, ModelRow
from app.ids import new_id
from app.jobs import queue
from app.jobs.queue import LeaseLost
from app.jobs.repository import Claim
from app.jobs.schemas import SplitByDataset, SplitByShare, TrainRequest
from app.models import file
from app.models import service as models
from app.models.metrics import binary_metrics
from app.storage import BlobStore
from app.worker.progress import Progress
from app.worker.slot import StopReason
from app.worker.split import split_rows

log = logging.getLogger(__name__)


class PermanentFailure(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "param": param}


class TransientFailure(Exception):
    pass


class Stopped(Exception):
    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Desk:
    """What a worker process works with."""

    database: Database
    blobs: BlobStore
    threads: int


@dataclass(frozen=True)
class Work:
    """A job with everything it needs in hand."""

    job: JobRow
    request: TrainRequest
    dataset: DatasetRow
    train: DatasetArrays
    test: DatasetArrays | None


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
    work = _load(desk, claim)
    progress = Progress(desk.database, claim, work.request.tol)
    started = time.perf_counter()
    result = _solve(desk, work, progress, stop_reason)
    classes = [work.train.label(value) for value in result.classes]
    metrics = _judge(work, result, classes)
    card = _card(desk, work, result, metrics, time.perf_counter() - started)
    blob, size = _write(desk, work, result, classes, card)
    _commit(desk, claim, work, result, card, blob, size, progress)


def _load(desk: Desk, claim: Claim) -> Work:
    with desk.database.read() as session:
        job = queue.load(session, claim)
        request = TrainRequest.model_validate(job.spec)
        dataset = _dataset(datasets.find(session, request.dataset_id), "dataset_id")
        arrays = open_arrays(desk.blobs, dataset)
        test = None
        if isinstance(request.split, SplitByDataset):
            row = _dataset(datasets.find(session, request.split.test_dataset_id), "split.test_dataset_id")
            test = open_arrays(desk.blobs, row)
    if isinstance(request.split, SplitByShare):
        training, held_out = split_rows(arrays.y, request.split)
        if len(np.unique(arrays.y[training])) < len(np.unique(arrays.y)) or not len(held_out):
            message = "too few rows for this split: a class would be missing from training"
            raise PermanentFailure("split_too_small", message, "split.test")
        arrays, test = arrays.rows(training), arrays.rows(held_out)
    return Work(job, request, dataset, arrays, test)


def _dataset(found: DatasetRow | None, field: str) -> DatasetRow:
    if found is None:
        raise PermanentFailure("dataset_deleted", "the dataset was deleted before the job ran", field)
    return found


def _solve(
    desk: Desk, work: Work, progress: Progress, stop_reason: Callable[[], StopReason | None]
) -> solvers.SolveResult:
    request = work.request

    def on_step(report: solvers.StepReport) -> bool:
        progress.report(report)
        return stop_reason() is not None

    try:
        result = solvers.train(
            work.train.X,
            work.train.y,
            sample_weight=work.train.weight,
            class_weight=_class_weight(work),
            threads=desk.threads,
            callback=on_step,
            **request.solver_arguments(),
        )
    except solvers.SolverError as error:
        raise PermanentFailure(type(error).__name__, str(error), error.argument) from error
    if reason := stop_reason():
        raise Stopped(reason)
    if not result.converged and request.on_limit == "fail":
        raise PermanentFailure("not_converged", f"stopped by {result.status} before reaching tol", "stop")
    return result


def _class_weight(work: Work) -> Any:
    """The request names classes by text; the solver by the values of y."""
    wanted = work.request.class_weight
    if not isinstance(wanted, dict):
        return wanted
    values = {str(work.train.label(value)): value for value in np.unique(work.train.y).tolist()}
    return {values[name]: weight for name, weight in wanted.items() if name in values}


def _judge(work: Work, result: solvers.SolveResult, classes: list[Label]) -> dict[str, Any]:
    metrics = {"train": _metrics(work.train, result, classes)}
    if work.test is not None:
        metrics["test"] = _metrics(work.test, result, classes)
    return metrics


def _metrics(rows: DatasetArrays, result: solvers.SolveResult, classes: list[Label]) -> dict[str, Any]:
    # a sparse test file may end before the last feature: its missing columns are zeros
    scores = rows.X @ result.coef[: rows.X.shape[1]] + result.intercept
    return binary_metrics(classes, rows.codes(classes), np.asarray(scores))


def _card(
    desk: Desk, work: Work, result: solvers.SolveResult, metrics: dict[str, Any], seconds: float
) -> dict[str, Any]:
    certificate = result.certificate
    request, dataset = work.request, work.dataset
    params = request.model_dump(mode="json", exclude={"type", "dataset_id", "model", "priority", "labels"})
    return {
        "classes": [work.train.label(value) for value in result.classes],
        "n_features": dataset.n_features,
        "params": {**params, "solver": result.solver, "loss": result.loss},
        "certificate": {
            "primal": certificate.primal,
            "dual_bound": certificate.dual_bound,
            "gap": certificate.gap,
            "relative_gap": certificate.relative_gap,
            "method": certificate.method,
        },
        "metrics": metrics,
        "training": {
            "status": str(result.status),
            "rows": len(work.train.y),
            "seconds": result.seconds,
            "total_seconds": seconds,
            "iterations": result.iterations,
            "passes": result.passes,
            "threads": desk.threads,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        },
        "lineage": {
            "job_id": work.job.id,
            "dataset_id": dataset.id,
            "sha256": dataset.sha256,
            "seed": request.seed,
            "versions": {
                "hyperplane": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "numba": numba.__version__,
            },
        },
    }


def _write(
    desk: Desk, work: Work, result: solvers.SolveResult, classes: list[Label], card: dict[str, Any]
) -> tuple[str, int]:
    features = [column["name"] for column in work.dataset.columns if column["role"] == "feature"]
    header = file.Header(
        task="binary",
        classes=classes,
        n_features=work.dataset.n_features,
        feature_names=features or None,
        card=card,
    )
    content = file.encode(header, {"coef": result.coef, "intercept": np.array([result.intercept])})
    return desk.blobs.put(content), len(content)


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
            "solver": result.solver,
            "certificate": card["certificate"],
            "metrics": card["metrics"],
            "training": card["training"],
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
