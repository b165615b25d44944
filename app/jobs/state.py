"""The states of a job and every way from one to another.

          claim            finish
queued ─────────▶ running ────────▶ succeeded
  │  ▲              │ │ │   fail
  │  └──────────────┘ │ └──────────▶ failed      (also: three worker deaths)
  │   release, or     │
  │   a lost lease    │ stop
  └───────────────────┴────────────▶ cancelled
         cancel
"""

from enum import StrEnum


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def done(self) -> bool:
        return self in FINAL


FINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})

TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset({JobStatus.QUEUED, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}


def check_transition(before: JobStatus, after: JobStatus) -> None:
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"a job never goes from {before} to {after}")
