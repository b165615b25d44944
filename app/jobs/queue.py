"""Writes of a worker to its job: progress, files, and how the job ends or returns to the queue.

Each function runs in the caller's unit of work and changes nothing if the lease of the claim is lost.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.job_state import JobStatus
from app.db.notify import announce
from app.db.tables import JobRow
from app.jobs import lease, repository
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim
from app.storage import BlobStore, ownership

NOTHING_KEPT: dict[str, Any] = {"checkpoint": None, "snapshot": None}
"""Columns that are cleared when a job ends, because it will not continue."""
MAX_WORKER_DEATHS = 3
"""Number of worker deaths after which a job fails. Larger: a job survives more crashes that other jobs cause, and a job
that crashes its worker wastes more time. Set by hand; no measurement is recorded."""
MAX_DEATHS_FOR_MEMORY = 2
"""Number of worker deaths after which a job fails if the last death was an out-of-memory kill. Larger: more attempts
that cannot succeed. 2: the second attempt reserves all memory that jobs can use."""


def report_progress(
    session: Session,
    claim: Claim,
    point: dict[str, Any],
    progress: float,
    trace: list[dict[str, Any]],
    eta_seconds: float | None = None,
) -> None:
    figures = {name: point[name] for name in ("iterations", "passes", "primal", "dual_bound", "relative_gap")}
    told = {"progress": progress, "eta_seconds": eta_seconds}
    _write(session, claim, "job.progress", {**point, **told}, trace=trace, **told, **figures)


def report_search(
    session: Session, claim: Claim, told: dict[str, Any], trials: Sequence[dict[str, Any]], **figures: Any
) -> None:
    """Store the progress of a search, and the trials that have changed since the last report as one event."""
    if trials:
        repository.append_event(session, claim.job_id, "job.trial", {"trials": list(trials)})
    _write(session, claim, "job.progress", {**told, **figures}, **figures)


def advance(session: Session, claim: Claim, progress: float) -> None:
    """Store the progress of a job that has no convergence curve."""
    if not repository.update_claimed(session, claim, progress=progress):
        raise LeaseLost


def tell(session: Session, claim: Claim, event: str, data: dict[str, Any]) -> None:
    """Add an event that does not change the job."""
    lease.load(session, claim, lock=True)
    repository.append_event(session, claim.job_id, event, data)


def keep(
    session: Session,
    claim: Claim,
    new: Mapping[str, tuple[str, int]],
    blobs: BlobStore,
    *,
    needed: Collection[str] = (),
) -> list[str]:
    """Replace blobs of the job. `new` maps a column to (hash, bytes). Returns the old blobs, which can be without an
    owner now.

    `needed`: earlier blobs that the job keeps, because the new ones refer to them.
    """
    job = lease.load(session, claim, lock=True)
    unchanged = {old for name in NOTHING_KEPT if name not in new and (old := getattr(job, name)) is not None}
    owned = ownership.sizes(session, job.id)
    replaced = [old for old in owned if old not in unchanged and old not in needed]
    ownership.give_up(session, job.id, replaced)
    ownership.own(session, blobs, job.id, dict(new.values()))
    repository.update_claimed(session, claim, **{name: blob for name, (blob, _) in new.items()})
    return replaced


def succeed(session: Session, claim: Claim, model_id: str | None, result: dict[str, Any], **figures: Any) -> list[str]:
    """End the job as succeeded. The caller inserts the model's row in the same transaction, after this call.

    Like `fail` and `cancel`, it returns the blobs that the job no longer needs.
    """
    return _end(session, claim, JobStatus.SUCCEEDED, model_id=model_id, result=result, progress=1.0, **figures)


def fail(session: Session, claim: Claim, error: dict[str, Any]) -> list[str]:
    return _end(session, claim, JobStatus.FAILED, error=error)


def cancel(session: Session, claim: Claim) -> list[str]:
    return _end(session, claim, JobStatus.CANCELLED)


def pause(session: Session, claim: Claim) -> None:
    """Pause the job until a client resumes it, unless the request has been withdrawn."""
    release(session, claim, "resumed")


def release(session: Session, claim: Claim, reason: str = "released") -> None:
    """Return the job to the queue, because the worker stops. It does not count as a failure."""
    request = lease.load(session, claim, lock=True).request
    if request == "cancel":
        cancel(session, claim)
    elif request == "pause":
        _pause(session, claim)
    else:
        _requeue(session, claim, reason)


def worker_died(session: Session, claim: Claim, *, memory_bytes: int | None = None) -> None:
    """Count the death of a worker: requeue the job, or fail it after `MAX_WORKER_DEATHS`.

    `memory_bytes`: set if the kernel killed the worker for its memory use. The next attempt reserves this many bytes,
    and is the last one.
    """
    job = lease.load(session, claim, lock=True)
    deaths = job.worker_deaths + 1
    values: dict[str, Any] = {"worker_deaths": deaths}
    if job.request == "cancel":
        cancel(session, claim)
    elif memory_bytes is not None and deaths >= MAX_DEATHS_FOR_MEMORY:
        message = f"{deaths} worker processes died while running this job, the last because of its memory use"
        _end(session, claim, JobStatus.FAILED, error=_error("out_of_memory", message), **values)
    elif deaths >= MAX_WORKER_DEATHS:
        message = f"{deaths} worker processes died while running this job"
        _end(session, claim, JobStatus.FAILED, error=_error("worker_died", message), **values)
    else:
        if memory_bytes is not None:
            values["peak_bytes"] = max(job.peak_bytes, memory_bytes)
        if job.request == "pause":
            _pause(session, claim, **values)
        else:
            _requeue(session, claim, "worker_died" if memory_bytes is None else "out_of_memory", **values)


def requeue_expired(session: Session, supervisor: str | None = None) -> list[Claim]:
    """Requeue the jobs whose leases have expired. Any supervisor can do this for all.

    Expired leases of `supervisor` itself come from claims whose commit outcome it never learned, because it has renewed
    all others. They do not count as worker deaths.
    """
    taken = []
    for claim, owner in repository.expired(session):
        try:
            if owner == supervisor:
                release(session, claim)
            else:
                worker_died(session, claim)
            taken.append(claim)
        except LeaseLost:
            continue
    return taken


def _pause(session: Session, claim: Claim, **values: Any) -> None:
    _leave(session, claim, JobStatus.PAUSED, {}, request=None, **values)


def _error(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message, "param": None}


def _requeue(session: Session, claim: Claim, reason: str, **values: Any) -> None:
    _leave(session, claim, JobStatus.QUEUED, {"reason": reason}, **values)


def _end(session: Session, claim: Claim, status: JobStatus, **values: Any) -> list[str]:
    told: dict[str, Any] = {name: values[name] for name in ("model_id", "error") if name in values}
    kept = give_up_kept(session, lease.load(session, claim, lock=True))
    _leave(session, claim, status, told, finished_at=current_time(session), **NOTHING_KEPT, **values)
    return kept


def give_up_kept(session: Session, job: JobRow) -> list[str]:
    """Remove the ownership of checkpoints and interim model; return these blobs. Files of results are owned later."""
    return ownership.disown(session, job.id)


def _leave(session: Session, claim: Claim, status: JobStatus, told: dict[str, Any], **values: Any) -> None:
    """End the run: clear the lease, add an event, and wake workers that wait for the memory."""
    free = {"lease_owner": None, "lease_expires_at": None, "eta_seconds": None}
    _write(session, claim, f"job.{status}", told, status=status, **free, **values)
    announce(session)


def _write(session: Session, claim: Claim, event: str, data: dict[str, Any], **values: Any) -> None:
    if not repository.update_claimed(session, claim, **values):
        raise LeaseLost
    repository.append_event(session, claim.job_id, event, data)
