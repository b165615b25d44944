"""Trains in this process, without a server: the reader, the checks and the worker of the service, on a database in a
temporary folder."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic_core import to_jsonable_python
from threadpoolctl import threadpool_limits

from app.config import Settings
from app.datasets import service as datasets
from app.datasets.formats import ReadOptions
from app.datasets.reading.parse import parse
from app.datasets.reading.receive import file_kind
from app.datasets.service import Received
from app.db import Database
from app.db.migrate import upgrade
from app.jobs import lease
from app.jobs import service as jobs
from app.jobs.admission import Admission
from app.jobs.types.train_request import TrainRequest
from app.models import file
from app.models import service as models
from app.models.exports import Subject, export
from app.storage import BlobStore
from app.worker.executor import execute
from app.worker.worker_context import WorkerContext

__all__ = ["Trained", "train_file"]

OWNER = "local"
LEASE_SECONDS = 10.0 * 365 * 86_400
"""Seconds of the lease of the job: longer than any training, because no other process works on this database."""


@dataclass(frozen=True)
class Trained:
    """A job after its end, as the API shows it, and the file of its model."""

    job: dict[str, Any]
    content: bytes | None
    """None: the job did not succeed."""


def train_file(data: Path, options: ReadOptions, fields: Mapping[str, Any], format_name: str) -> Trained:
    """Train on a file. `fields`: those of a training job. Raises AppError, and ValidationError for wrong fields."""
    settings = Settings()
    with TemporaryDirectory(prefix="hyperplane-local-") as folder, _database(Path(folder)) as database:
        blobs = BlobStore(Path(folder))
        dataset_id = _read(database, blobs, data, options, settings)
        request = TrainRequest.model_validate({"dataset_id": dataset_id, **fields})
        with database.write() as session:
            job_id = jobs.submit(session, request, Admission(blobs, settings)).id
            claim = lease.claim_next(session, OWNER, LEASE_SECONDS)
        assert claim is not None, "the only job of this database"
        context = WorkerContext(database, blobs, settings.threads_a_worker, settings.checkpoint_seconds)
        with threadpool_limits(settings.threads_a_worker):
            execute(context, claim, lambda: None)
        with database.read() as session:
            job = to_jsonable_python(jobs.show(session, jobs.get(session, job_id)))
            if job["status"] != "succeeded":
                return Trained(job, None)
            row = models.resolve(session, job["model_id"])
        subject = Subject(row.id, row.name, row.version, file.read(blobs.path(row.blob)), None)
        return Trained(job, export(subject, format_name, None).content)


@contextmanager
def _database(folder: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{folder / 'local.db'}")
    try:
        upgrade(database)
        yield database
    finally:
        database.close()


def _read(database: Database, blobs: BlobStore, data: Path, options: ReadOptions, settings: Settings) -> str:
    """Read the file as an upload and return the id of the dataset."""
    kind = file_kind("", "identity", data.name)
    options = replace(options, encoding=kind.encoding)
    with blobs.stage() as staged, data.open("rb") as opened:
        shutil.copyfileobj(opened, staged)
        staged.flush()
        sha256, size = staged.commit(), staged.size
    received = Received(sha256, size, kind.format, options, None, {})
    datasets.find_known(database, received)  # refuses an empty file
    parsed = parse(blobs.root.parent, blobs.path(sha256), kind.format, options, settings.max_upload_bytes)
    row, _ = datasets.store_ready(database, blobs, received, lambda _session, _row: None, parsed)
    return row.id
