"""The long-lived objects of a worker process, and the declaration of a job type's work."""

from collections.abc import Callable
from dataclasses import dataclass

from app.db import Database
from app.db.job_state import StopReason
from app.jobs.repository import Claim
from app.storage import BlobStore

StopAsked = Callable[[], StopReason | None]
"""Returns why the work must end; None: it can continue. Long-running work calls it regularly."""


@dataclass(frozen=True)
class WorkerContext:
    """The long-lived objects of a worker process."""

    database: Database
    blobs: BlobStore
    threads: int
    checkpoint_seconds: float = 30.0
    storage_patience_seconds: float = 0.0


@dataclass(frozen=True)
class JobWork:
    """The work of one job type. Each module of app/worker/types declares one."""

    name: str
    """Name of the job type."""
    run: Callable[[WorkerContext, Claim, StopAsked], None]
    """Runs a job. Returns when its end is committed; raises an exception of app/worker/failures.py otherwise."""
