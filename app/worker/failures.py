"""How a job can end without a model.

Exception
├── PermanentFailure   the job cannot succeed, however often it is tried
├── Stopped            somebody wants the work to end: a client (cancel, pause) or the machine (drain)
├── LeaseLost          the job is somebody else's now (app.jobs.queue)
└── TransientFailure   the database does not answer, or the store is away; the job is given back

An OSError that passes (`app.errors.is_passing`) is waited for, with back-off, while the claim is kept: neither the wait
nor giving the job back counts as an attempt that failed.
"""

from typing import Any

from app.db.job_state import StopReason
from app.errors import is_disk_full
from app.storage.identity import StoreAway


class PermanentFailure(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "param": param}


class TransientFailure(Exception):
    pass


def storage_error(error: OSError) -> dict[str, Any]:
    """What a client is told of a storage that fails."""
    if is_disk_full(error):
        return {"code": "storage_full", "message": "the disk is full; the model could not be written"}
    if isinstance(error, StoreAway):
        return {"code": "storage_away", "message": str(error.strerror)}
    if isinstance(error, FileNotFoundError):
        return {"code": "data_missing", "message": "a file of the dataset is missing; `hyperplane verify` says which"}
    return {"code": "storage_error", "message": f"the storage failed: {error.strerror}"}


class Stopped(Exception):
    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason
