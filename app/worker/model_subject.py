"""Code that jobs on a stored model share: load model and dataset, and report progress over the rows."""

import time
from typing import NamedTuple

from app.datasets import service as datasets
from app.db import Database
from app.db.tables import DatasetRow, JobRow, ModelRow
from app.jobs import lease, queue
from app.jobs.repository import Claim
from app.models import file
from app.models import repository as models
from app.models.file import ModelFile
from app.worker.failures import PermanentFailure, Stopped
from app.worker.worker_context import StopAsked, WorkerContext

WRITE_EVERY_SECONDS = 0.5
"""Seconds between two writes of the progress. Larger: less load, later progress. Set by hand; no measurement is
recorded."""


class Subject(NamedTuple):
    job: JobRow
    model: ModelRow
    file: ModelFile
    dataset: DatasetRow


def load_subject(context: WorkerContext, claim: Claim) -> Subject:
    with context.database.read() as session:
        job = lease.load(session, claim)
        model = models.get(session, job.model_id or "")
        dataset = datasets.find(session, job.dataset_id)
    if model is None:
        raise PermanentFailure("model_deleted", "the model was deleted before the job started", "model")
    if dataset is None:
        raise PermanentFailure("dataset_deleted", "the dataset was deleted before the job started", "dataset_id")
    try:
        return Subject(job, model, file.read(context.blobs.path(model.blob)), dataset)
    except FileNotFoundError:
        context.blobs.check()  # raises StoreAway, in which case the file can exist
        raise PermanentFailure("model_deleted", "the model was purged before the job started", "model") from None


class Passing:
    """Progress of a pass over rows: stored every half second, and stopped on request."""

    def __init__(self, database: Database, claim: Claim, n_rows: int, stop_reason: StopAsked) -> None:
        self._database = database
        self._claim = claim
        self._n_rows = n_rows
        self._stop_reason = stop_reason
        self._done = 0
        self._next_write = time.monotonic() + WRITE_EVERY_SECONDS

    def advance(self, rows: int) -> None:
        """Count `rows` more rows. Raises Stopped, or LeaseLost if another worker has the job."""
        self._done += rows
        reason = self._stop_reason()
        if reason is not None and reason != "finish":  # finish is ignored: an unfinished pass has no result to keep
            raise Stopped(reason)
        if time.monotonic() >= self._next_write:
            with self._database.write() as session:
                queue.advance(session, self._claim, min(0.99, self._done / self._n_rows))
            self._next_write = time.monotonic() + WRITE_EVERY_SECONDS
