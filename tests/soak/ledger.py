"""What the clients of a soak were promised, and what the service must still say of it at the end."""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select

from app.admin.integrity import verify_storage
from app.config import Settings
from app.db import Database
from app.db.engine import current_time
from app.db.tables import DatasetRow, JobRow, ModelRow

Json = dict[str, Any]

FAILURES = frozenset({"worker_died"})
"""What a job may fail of if processes die; a disk that fails for seconds is waited for, the rest is a fault of ours."""


@dataclass
class Ledger:
    """Every acknowledgement, by any thread."""

    jobs: dict[str, str] = field(default_factory=dict)
    """Idempotency key of a submission > the id that was acknowledged."""
    datasets: dict[str, str] = field(default_factory=dict)
    """Id > sha256 of what was sent."""
    deleted: set[str] = field(default_factory=set)
    """Datasets whose deletion was asked for, whatever was answered."""
    cancelled: set[str] = field(default_factory=set)
    """Jobs that somebody asked to cancel, whatever was answered."""
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledge_job(self, key: str, job_id: str) -> None:
        with self._lock:
            earlier = self.jobs.setdefault(key, job_id)
            if earlier != job_id:
                self.faults.append(f"key {key} was acknowledged as {earlier} and as {job_id}")

    def acknowledge_dataset(self, dataset_id: str, content: bytes) -> None:
        with self._lock:
            self.datasets[dataset_id] = hashlib.sha256(content).hexdigest()

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def blame(self, fault: str) -> None:
        with self._lock:
            self.faults.append(fault)

    def some(self, names: str) -> list[str]:
        with self._lock:
            found: Any = getattr(self, names)
            return list(found.values()) if names == "jobs" else list(found)


def stuck_jobs(database: Database, lease_seconds: float) -> list[str]:
    """Running jobs whose lease ran out more than a lease ago: somebody should have taken them back."""
    with database.read() as session:
        now = current_time(session)
        rows = session.execute(select(JobRow.id, JobRow.lease_expires_at).where(JobRow.status == "running")).all()
    return [row.id for row in rows if (now - row.lease_expires_at).total_seconds() > lease_seconds]


def compare(ledger: Ledger, database: Database, settings: Settings) -> Iterator[str]:
    """Faults: differences between what was promised and what the database and the files hold, once all is quiet."""
    with database.read() as session:
        jobs = {row.id: row for row in session.scalars(select(JobRow))}
        datasets = {row.id: row for row in session.scalars(select(DatasetRow))}
        models = session.execute(select(ModelRow.id, ModelRow.job_id)).all()
        by_job = select(ModelRow.job_id).where(ModelRow.job_id.is_not(None)).group_by(ModelRow.job_id)
        doubled = session.execute(by_job.having(func.count() > 1)).all()
    for job_id in ledger.jobs.values():
        if job_id not in jobs:
            yield f"{job_id}: acknowledged, and lost"
    if len(jobs) != len(set(ledger.jobs.values())):
        yield f"{len(jobs)} jobs exist, {len(set(ledger.jobs.values()))} were asked for"
    yield from (f"{row.job_id}: two models" for row in doubled)
    model_of_job = {row.job_id: row.id for row in models}
    for job in jobs.values():
        yield from _job_faults(job, model_of_job.get(job.id), ledger)
    for dataset_id, sha256 in ledger.datasets.items():
        found = datasets.get(dataset_id)
        if found is None and dataset_id not in ledger.deleted:
            yield f"{dataset_id}: acknowledged, and lost"
        if found is not None and found.sha256 != sha256:
            yield f"{dataset_id}: its bytes are not those that were sent"
    report = verify_storage(settings)
    yield from (f"verify: {fault}" for fault in report.faults)


def _job_faults(job: JobRow, model_id: str | None, ledger: Ledger) -> Iterator[str]:
    if job.status not in ("succeeded", "failed", "cancelled"):
        yield f"{job.id}: still {job.status}"
    if (job.status == "succeeded") != (model_id is not None) or (model_id or job.model_id) != job.model_id:
        yield f"{job.id}: {job.status}, its model is {job.model_id}, and there is {model_id}"
    if job.status == "failed":
        code = (job.error or {}).get("code")
        ledger.count(f"failed {code}")
        if code not in FAILURES:
            yield f"{job.id}: failed with {job.error}"
    elif job.status == "cancelled" and job.id not in ledger.cancelled:
        yield f"{job.id}: cancelled, and nobody asked for it"
    if job.status in ("succeeded", "cancelled"):
        ledger.count(job.status)
    if job.attempt > 1:
        ledger.count("tried again")
