"""The states of a job, the transitions between them, and the requests that clients can make of a job.

              claim             succeed
  ┌─ queued ─────────▶ running ─────────▶ succeeded
  │   ▲  ▲               │ │ │ │   fail
  │   │  └───────────────┘ │ │ └────────▶ failed      (also: three worker deaths)
  │   │ release, or        │ │
  │   │ a lost lease       │ │   cancel
  │   │ resume             │ └──────────▶ cancelled   (also from queued and paused)
  │   └────────── paused ◀─┘
  │                 ▲      pause
  └─────────────────┘

A request to a running job is stored in the column `request`, and its worker carries it out. The stronger request wins:
cancel over finish over pause.
"""

from enum import StrEnum
from typing import Literal


class JobStatus(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def done(self) -> bool:
        return self in FINAL


FINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})

TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset({JobStatus.QUEUED, JobStatus.PAUSED, *FINAL}),
    JobStatus.PAUSED: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}

Request = Literal["pause", "finish", "cancel"]
"""Requests that a client can make of a running job."""
REQUESTS: tuple[Request, ...] = ("pause", "finish", "cancel")
StopReason = Literal["pause", "finish", "drain", "cancel", "lost"]
"""Why work on a job ends early: a request of a client (pause, finish, cancel), a shutdown of the worker (drain), or the
loss of the lease (lost)."""
STOP_REASONS: tuple[StopReason, ...] = ("pause", "finish", "drain", "cancel", "lost")
"""All stop reasons, weakest first. Of two reasons, the later one in this list wins."""

EVENT_TYPES = frozenset(
    {
        *(f"job.{status}" for status in JobStatus),
        *(f"job.{wanted}_requested" for wanted in (*REQUESTS, "resume")),
        *("job.progress", "job.trial", "job.compiling", "job.resumed", "job.restarted", "job.waiting"),
    }
)
"""Names of all event types of jobs."""


def check_transition(before: JobStatus, after: JobStatus) -> None:
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"there is no transition from {before} to {after}")


def outranks(wanted: StopReason, current: str | None) -> bool:
    """Return whether a new request replaces the current one."""
    return current is None or current in STOP_REASONS[: STOP_REASONS.index(wanted)]


def stronger(one: StopReason | None, other: StopReason | None) -> StopReason | None:
    """Return the stronger of two reasons."""
    return one if one is not None and outranks(one, other) else other
