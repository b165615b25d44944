"""The lease of a running job: taken with the claim, renewed by heartbeats, lost when it expires.

A claim has a fencing number. Every write of a worker includes its claim, and is refused when the job has a newer
number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.db.job_state import JobStatus, Request
from app.db.tables import JobRow
from app.jobs import repository
from app.jobs.repository import Claim, Room


class LeaseLost(Exception):
    """Another worker has the job now: drop the work and write nothing."""


@dataclass(frozen=True)
class Pulse:
    """Result of a heartbeat: lost claims, and pending requests of clients for the others."""

    lost: Sequence[Claim]
    requests: Mapping[Claim, Request]


def claim_next(session: Session, owner: str, lease_seconds: float, room: Room | None = None) -> Claim | None:
    """Claim the first queued job that fits, with a lease and a fencing number. None: there is none."""
    return repository.claim(session, owner, lease_seconds, room)


def is_waiting(session: Session, room: Room | None = None) -> bool:
    """Whether there is a job to claim. Takes no lock."""
    return repository.any_claimable(session, room)


def owner_of(machine: str, supervisor_id: str) -> str:
    """Return the name under which a supervisor holds leases."""
    return f"{machine}{repository.OWNER_SEPARATOR}{supervisor_id}"


def room(session: Session, owner: str, whole: int, held: Sequence[Claim], *, lock: bool = False) -> Room:
    """Return the memory of the owner's machine, and what these claims and other supervisors leave of it.

    Own work is counted by its claims, not by rows: work whose lease is lost uses memory until it ends.
    """
    taken = sum(claim.peak_bytes for claim in held) + repository.needed_beside(session, owner, lock=lock)
    return Room(whole, whole - taken)


def requests(session: Session, claims: Sequence[Claim]) -> dict[Claim, Request]:
    """Return the pending requests of clients for these running jobs."""
    return repository.requests(session, claims)


def heartbeat(session: Session, claims: Sequence[Claim], lease_seconds: float) -> Pulse:
    """Renew the leases of these claims."""
    lost = repository.extend_leases(session, claims, lease_seconds)
    return Pulse(lost, repository.requests(session, claims))


def load(session: Session, claim: Claim, *, lock: bool = False) -> JobRow:
    """Return the job of a valid claim. Raises LeaseLost."""
    job = repository.get(session, claim.job_id, lock=lock)
    if job is None or job.fence != claim.fence or job.status != JobStatus.RUNNING:
        raise LeaseLost
    return job


def any_expired(session: Session) -> bool:
    """Whether a lease has expired. Takes no lock."""
    return repository.any_expired(session)
