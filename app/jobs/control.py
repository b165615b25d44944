"""Requests of clients to jobs: cancel, finish, pause, resume. Each is idempotent.

Jobs that are not running are changed here. For a running job the request is stored in the column `request` of the job,
and the job's worker carries it out.
"""

from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.job_state import JobStatus, Request, outranks
from app.db.tables import JobRow
from app.errors import Conflict
from app.jobs import queue, repository, service
from app.jobs.job_types import has_interim_model

NO_MODEL_YET = "no_model_yet"


def cancel(session: Session, job_id: str) -> JobRow:
    """End a job and discard its work."""
    job = service.get(session, job_id, lock=True)
    if job.status == JobStatus.CANCELLED:
        return job
    _check_not_ended(job)
    if job.status == JobStatus.RUNNING:
        return _ask(session, job, "cancel")
    queue.give_up_kept(session, job)
    ended = {"status": JobStatus.CANCELLED, "finished_at": current_time(session), **queue.NOTHING_KEPT}
    repository.update_locked(session, job, **ended)
    repository.append_event(session, job_id, "job.cancelled", {})
    return job


def finish(session: Session, job_id: str) -> JobRow:
    """End a training with its best model so far."""
    job = service.get(session, job_id, lock=True)
    if job.request == "finish":
        return job
    _check_not_ended(job)
    if not has_interim_model(job.type):
        detail = f"A job of type {job.type} has no model to finish with; only training jobs can be finished."
        raise Conflict(detail, code="not_a_training_job")
    if job.status == JobStatus.RUNNING:
        return _ask(session, job, "finish")
    if job.checkpoint is None:
        raise Conflict("The job has no model yet; retry later, or cancel the job.", code=NO_MODEL_YET)
    paused = job.status == JobStatus.PAUSED
    _ask(session, job, "finish")
    if paused:
        _queue(session, job, "finish")
    return job


def pause(session: Session, job_id: str) -> JobRow:
    """Pause a job until it is resumed, and free its worker."""
    job = service.get(session, job_id, lock=True)
    if job.status == JobStatus.PAUSED:
        return job
    _check_not_ended(job)
    if job.status == JobStatus.RUNNING:
        return _ask(session, job, "pause")
    _check_outranks("pause", job)
    repository.update_locked(session, job, status=JobStatus.PAUSED)
    repository.append_event(session, job_id, "job.paused", {})
    return job


def resume(session: Session, job_id: str) -> JobRow:
    """Queue a paused job again; it continues where it was. A pending pause is withdrawn."""
    job = service.get(session, job_id, lock=True)
    _check_not_ended(job)
    if job.status == JobStatus.PAUSED:
        _queue(session, job, "resumed")
    elif job.request == "pause":
        repository.update_locked(session, job, request=None)
        repository.append_event(session, job_id, "job.resume_requested", {})
    return job


def _ask(session: Session, job: JobRow, wanted: Request) -> JobRow:
    if job.request != wanted:
        _check_outranks(wanted, job)
        repository.update_locked(session, job, request=wanted)
        repository.append_event(session, job.id, f"job.{wanted}_requested", {})
    return job


def _queue(session: Session, job: JobRow, reason: str) -> None:
    repository.update_locked(session, job, status=JobStatus.QUEUED)
    repository.append_event(session, job.id, "job.queued", {"reason": reason})


def _check_outranks(wanted: Request, job: JobRow) -> None:
    if not outranks(wanted, job.request):
        raise Conflict(f"The job is already ending: a client has requested {job.request}.", code="job_is_ending")


def _check_not_ended(job: JobRow) -> None:
    if JobStatus(job.status).done:
        ended = "been cancelled" if job.status == JobStatus.CANCELLED else job.status
        raise Conflict(f"The job has already {ended}.", code="job_ended")
