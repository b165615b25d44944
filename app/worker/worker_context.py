"""What a worker process works with."""

from collections.abc import Callable
from dataclasses import dataclass

from app.db import Database
from app.db.job_state import StopReason
from app.jobs.repository import Claim
from app.storage import BlobStore

StopAsked = Callable[[], StopReason | None]
"""Asked now and then by whoever works: why the work is to end, if it is."""


@dataclass(frozen=True)
class WorkerContext:
    """The long-lived parts of a worker process."""

    database: Database
    blobs: BlobStore
    threads: int
    checkpoint_seconds: float = 30.0
    storage_patience_seconds: float = 0.0


@dataclass(frozen=True)
class JobWork:
    """The work of one job type. Each module of app/worker/types declares one."""

    name: str
    """The name of the job type."""
    run: Callable[[WorkerContext, Claim, StopAsked], None]
    """Returns when the end of the job is committed. Raises Stopped, PermanentFailure or what the executor handles."""
