"""The lease of a running job: taken with the claim, renewed by heartbeats, lost when it expires or another one claims.

A claim carries a fencing number. Whatever a worker writes names its claim, and is refused once the job's number is
another one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.db.job_state import JobStatus, Request
from app.db.tables import JobRow
from app.jobs import repository
from app.jobs.repository import Claim, Room


class LeaseLost(Exception):
    """The job belongs to somebody else now: drop the work, write nothing."""


@dataclass(frozen=True)
class Pulse:
    """What a heartbeat learned: claims that are gone, and what clients want of the others."""

    lost: Sequence[Claim]
    requests: Mapping[Claim, Request]


def claim_next(session: Session, owner: str, lease_seconds: float, room: Room | None = None) -> Claim | None:
    """Take the first queued job that fits; the claim holds a lease and a fencing number. None: there is none."""
    return repository.claim(session, owner, lease_seconds, room)


def is_waiting(session: Session, room: Room | None = None) -> bool:
    """Whether a claim would find a job: a look that takes no lock."""
    return repository.any_claimable(session, room)


def owner_of(machine: str, supervisor_id: str) -> str:
    """The name under which a supervisor holds leases."""
    return f"{machine}{repository.OWNER_SEPARATOR}{supervisor_id}"


def room(session: Session, owner: str, whole: int, held: Sequence[Claim], *, lock: bool = False) -> Room:
    """The memory of the owner's machine, and what these claims and other supervisors there leave of it.

    What is held is counted by the claims and not by their rows: work whose lease is lost takes its room until it ends.
    """
    taken = sum(claim.peak_bytes for claim in held) + repository.needed_beside(session, owner, lock=lock)
    return Room(whole, whole - taken)


def requests(session: Session, claims: Sequence[Claim]) -> dict[Claim, Request]:
    """What clients want of these running jobs."""
    return repository.requests(session, claims)


def heartbeat(session: Session, claims: Sequence[Claim], lease_seconds: float) -> Pulse:
    """Renew the leases of these claims."""
    lost = repository.extend_leases(session, claims, lease_seconds)
    return Pulse(lost, repository.requests(session, claims))


def load(session: Session, claim: Claim, *, lock: bool = False) -> JobRow:
    """The job of a claim that still holds. Raises LeaseLost."""
    job = repository.get(session, claim.job_id, lock=lock)
    if job is None or job.fence != claim.fence or job.status != JobStatus.RUNNING:
        raise LeaseLost
    return job


def any_expired(session: Session) -> bool:
    """Whether a worker fell silent: a look that takes no lock."""
    return repository.any_expired(session)
