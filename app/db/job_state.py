"""The states of a job, every way from one to another, and what a client can ask of a job that is not done.

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

A running job is asked through its column `request`, and its worker answers. Who asks for more wins: cancel over
finish over pause.
"""

from enum import StrEnum
from typing import Literal


class JobStatus(StrEnum):
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
"""What a client can ask of a running job."""
REQUESTS: tuple[Request, ...] = ("pause", "finish", "cancel")
StopReason = Literal["pause", "finish", "drain", "cancel", "lost"]
"""Why a job's work ends early: a client's request, the process ends (drain), or the lease is lost."""
STOP_REASONS: tuple[StopReason, ...] = ("pause", "finish", "drain", "cancel", "lost")
"""The weakest first: of two reasons the later one counts."""

EVENT_TYPES = frozenset(
    {
        *(f"job.{status}" for status in JobStatus),
        *(f"job.{wanted}_requested" for wanted in (*REQUESTS, "resume")),
        *("job.progress", "job.compiling", "job.resumed", "job.restarted", "job.waiting"),
    }
)
"""Everything that can be told of a job."""


def check_transition(before: JobStatus, after: JobStatus) -> None:
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"a job never goes from {before} to {after}")


def outranks(wanted: StopReason, current: str | None) -> bool:
    """Whether a new request replaces what was asked before."""
    return current is None or current in STOP_REASONS[: STOP_REASONS.index(wanted)]


def stronger(one: StopReason | None, other: StopReason | None) -> StopReason | None:
    """Of two reasons the one that counts."""
    return one if one is not None and outranks(one, other) else other
