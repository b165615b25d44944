"""Exceptions by which a job ends without a result.

Exception
├── PermanentFailure   the job cannot succeed; a retry would fail as well
├── Stopped            a client (cancel, pause) or the machine (drain) ends the work
├── LeaseLost          another worker has the job (app.jobs.lease)
└── TransientFailure   database or store away, or a connection broke; the job returns to the queue

A transient OSError (`app.errors.is_passing`) is retried with back-off while the claim is kept. Neither the wait nor the
return to the queue counts as a failed attempt.
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
    """Return the error of a job for a failing storage."""
    if is_disk_full(error):
        return {"code": "storage_full", "message": "the disk is full; free disk space and submit the job again"}
    if isinstance(error, StoreAway):
        return {"code": "storage_away", "message": str(error.strerror)}
    if isinstance(error, FileNotFoundError):
        return {"code": "data_missing", "message": "a file of the dataset is missing; `hyperplane verify` shows which"}
    return {"code": "storage_error", "message": f"the storage failed: {error.strerror}"}


class Stopped(Exception):
    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason
