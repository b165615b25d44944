"""What the clients of a soak were promised. `comparing.py` compares it with what the service holds at the end."""

import hashlib
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.support.tables import csv_text, noisy_rows

Json = dict[str, Any]

FEATURES = 4
USABLE_MODELS = 10
"""Newest models that jobs and predictions are asked of."""


@dataclass(frozen=True)
class SentFile:
    """An uploaded file: how to make it again, and its hash."""

    rows: int
    seed: int
    sha256: str

    @classmethod
    def made(cls, rows: int, seed: int) -> "SentFile":
        return cls(rows, seed, hashlib.sha256(_content(rows, seed)).hexdigest())

    def content(self) -> bytes:
        return _content(self.rows, self.seed)


def _content(rows: int, seed: int) -> bytes:
    return csv_text(*noisy_rows(rows, FEATURES, seed=seed))


@dataclass(frozen=True)
class AskedJob:
    id: str
    type: str
    dataset_id: str | None
    model: str


@dataclass(frozen=True)
class Imported:
    id: str
    name: str
    version: int
    coef: list[float]


@dataclass(frozen=True)
class AliasChange:
    name: str
    alias: str
    revision: int
    targets: tuple[tuple[int, float], ...] | None
    """Versions and their weights, in the order in which they were named; None: the alias was deleted."""
    shadow: int | None = None


@dataclass(frozen=True)
class Subscription:
    """A webhook: the path of its address, and the job that it subscribes to; None: all jobs."""

    path: str
    id: str
    secret: str
    job_id: str | None


@dataclass
class Ledger:
    """Every acknowledgement, by any thread."""

    jobs: dict[str, AskedJob] = field(default_factory=dict)
    """By the Idempotency-Key of the submission."""
    done: dict[str, Json] = field(default_factory=dict)
    """Id of a job > what a client was shown of it when it was done."""
    datasets: dict[str, SentFile] = field(default_factory=dict)
    imports: dict[str, Imported] = field(default_factory=dict)
    """By the Idempotency-Key of the import."""
    alias_changes: list[AliasChange] = field(default_factory=list)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """By path; those that were deleted too."""
    unsubscribed: set[str] = field(default_factory=set)
    # "asked": whatever was answered, or nothing was. The others: acknowledged.
    delete_asked: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    cancel_asked: set[str] = field(default_factory=set)
    purge_asked: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    hide_asked: set[str] = field(default_factory=set)
    output_delete_asked: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledge_job(self, key: str, job: AskedJob) -> None:
        with self._lock:
            earlier = self.jobs.setdefault(key, job)
            if earlier != job:
                self.faults.append(f"key {key} was acknowledged as {earlier} and as {job}")

    def acknowledge_dataset(self, dataset_id: str, file: SentFile) -> None:
        with self._lock:
            earlier = self.datasets.setdefault(dataset_id, file)
            if earlier != file:
                self.faults.append(f"{dataset_id} was acknowledged for {earlier} and for {file}")

    def acknowledge_import(self, key: str, model: Imported) -> None:
        with self._lock:
            self.imports[key] = model

    def change_alias(self, change: AliasChange) -> None:
        with self._lock:
            if self._alias_now(change.name, change.alias) != change:
                self.alias_changes.append(change)

    def alias_now(self, name: str, alias: str) -> AliasChange | None:
        with self._lock:
            return self._alias_now(name, alias)

    def _alias_now(self, name: str, alias: str) -> AliasChange | None:
        found = (one for one in reversed(self.alias_changes) if (one.name, one.alias) == (name, alias))
        return next(found, None)

    def subscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self.subscriptions[subscription.path] = subscription

    def unsubscribe(self, webhook_id: str) -> None:
        with self._lock:
            self.unsubscribed.add(webhook_id)

    def end(self, job: AskedJob, shown: Json) -> None:
        """A client saw that the job is done. What it was then, it must stay."""
        with self._lock:
            earlier = self.done.setdefault(job.id, shown)
            if earlier["status"] != shown["status"]:
                self.faults.append(f"{job.id} was {earlier['status']}, then {shown['status']}")

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def blame(self, fault: str) -> None:
        print(f"  BROKEN  {fault[:500]}", flush=True)
        with self._lock:
            self.faults.append(fault)

    def known_datasets(self) -> list[str]:
        """Acknowledged, and not known to be deleted."""
        with self._lock:
            return [one for one in self.datasets if one not in self.deleted]

    def unfinished(self) -> list[AskedJob]:
        """Jobs that no client has seen done."""
        with self._lock:
            return [job for job in self.jobs.values() if job.id not in self.done]

    def usable_models(self) -> list[str]:
        """Return the ids of the newest models that no client asked to purge."""
        with self._lock:
            trained = [job["model_id"] for job in list(self.done.values())[-USABLE_MODELS:] if job["type"] == "train"]
            imported = [one.id for one in list(self.imports.values())[-USABLE_MODELS:]]
            return [one for one in (*trained, *imported) if one is not None and one not in self.purge_asked]

    def with_output(self) -> list[AskedJob]:
        """Batch predictions that succeeded."""
        with self._lock:
            succeeded = {job_id for job_id, shown in self.done.items() if shown["status"] == "succeeded"}
            return [job for job in self.jobs.values() if job.type == "predict" and job.id in succeeded]

    def check_output(self, job: AskedJob, status: int, content: bytes) -> None:
        """What a client got for the file of a batch prediction: a header and a line for each row."""
        if job.id in self.output_delete_asked or status in (503, 507):
            return
        assert job.dataset_id is not None
        lines = content.count(b"\n")
        if status != 200 or lines != self.datasets[job.dataset_id].rows + 1:
            self.blame(f"{job.id}/output: {status}, {lines} lines for {self.datasets[job.dataset_id].rows} rows")
        self.count("outputs read")
