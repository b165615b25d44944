"""What workers and clients do to a job, one act a function."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from app.db import Database
from app.db.queries import list_events
from app.db.tables import JobRow
from app.jobs import control, lease, queue, service
from app.jobs.repository import Claim
from tests.support.builders import ANY_BLOBS, NOBODY

LEASE_SECONDS = 60.0
POINT = {"iterations": 3, "passes": 2, "primal": 1.5, "dual_bound": 1.0, "relative_gap": 0.5, "seconds": 0.1}
ERROR = {"code": "x", "message": "y", "param": None}
Act = Callable[[Session, Claim], Any]
# Everything that a worker may write to its job.
ACTS: dict[str, Act] = {
    "progress": lambda session, claim: queue.report_progress(session, claim, POINT, 0.5, [POINT]),
    "succeed": lambda session, claim: queue.succeed(session, claim, f"mdl_{NOBODY}", {"ok": True}),
    "fail": lambda session, claim: queue.fail(session, claim, ERROR),
    "cancel": queue.cancel,
    "pause": queue.pause,
    "keep": lambda session, claim: queue.keep(session, claim, {"checkpoint": ("5" * 64, 10)}, ANY_BLOBS),
    "tell": lambda session, claim: queue.tell(session, claim, "job.resumed", {}),
    "release": queue.release,
    "worker_died": queue.worker_died,
}


def claim(database: Database, lease_seconds: float = LEASE_SECONDS) -> Claim:
    with database.write() as session:
        claimed = lease.claim_next(session, "wrk_test", lease_seconds)
    assert claimed is not None
    return claimed


def do(database: Database, act: Act, claimed: Claim) -> Any:
    with database.write() as session:
        return act(session, claimed)


def get(database: Database, job_id: str) -> JobRow:
    with database.read() as session:
        return service.get(session, job_id, with_trace=True)


def look(database: Database, job_id: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Everything that is stored about a job."""
    job = get(database, job_id)
    with database.read() as session:
        events = list_events(session, job_id, 1000, None)
    columns = {name: getattr(job, name) for name in JobRow.__mapper__.columns.keys()}  # noqa: SIM118
    return columns, [(event.id, event.type) for event in events]


def event_types(database: Database, job_id: str) -> list[str]:
    return [kind for _, kind in look(database, job_id)[1]]


def ask(database: Database, act: Callable[[Session, str], JobRow], job_id: str) -> JobRow:
    """What a client asks of a job."""
    with database.write() as session:
        return act(session, job_id)


def client_cancels(database: Database, job_id: str) -> JobRow:
    return ask(database, control.cancel, job_id)
