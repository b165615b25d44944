"""Whether a commit happened whose connection broke before the answer came.

PostgreSQL may have committed or not. A row that the transaction inserted under an id of its own tells: it is there, or
it is absent and its server process has ended. `Database.write` looks it up, so that the answer is true and a request
that is sent again does nothing twice. SQLite has no connection that breaks.
"""

import logging
import time
from dataclasses import dataclass

from sqlalchemy import Select, event, func, inspect, literal, select, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db import outages

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 15.0
"""How long a broken commit is asked after. Longer: a longer failover is resolved, and a request waits as long.
A restart of PostgreSQL with crash recovery takes 1 to 5 s."""
LOOK_SECONDS = 0.1
WITNESS = "witness"


class OutcomeUnknown(Exception):
    """The server did not come back in time, or the transaction inserted no row to ask for."""


@dataclass(frozen=True)
class Commit:
    """A commit that is about to be sent."""

    backend_pid: int
    """The server process that does it."""
    witness: Select[int]
    """Finds the row that the transaction inserted."""


class UnitOfWork(Session):
    """A session that remembers one of the rows it inserted."""


@event.listens_for(UnitOfWork, "after_flush")
def _remember(session: Session, _context: object) -> None:
    if WITNESS not in session.info:
        for row in session.new:
            columns = inspect(row).mapper.columns
            if "id" in columns or "created_at" in columns:  # else another transaction may insert an equal row
                session.info[WITNESS] = row
                return


def about_to_commit(session: Session) -> Commit | None:
    """What it takes to ask later for the outcome; None: it cannot be asked for. All must be flushed."""
    row = session.info.get(WITNESS)
    if row is None or session.get_bind().dialect.name != "postgresql":
        return None
    driver = session.connection().connection.dbapi_connection
    assert driver is not None
    mapper = inspect(row).mapper
    own = [*mapper.primary_key, *(column for column in mapper.columns if column.key == "created_at")]
    values = (getattr(row, mapper.get_property_by_column(column).key) for column in own)
    found = select(literal(1)).where(*(column == value for column, value in zip(own, values, strict=True)))
    return Commit(driver.info.backend_pid, found)


def was_committed(engine: Engine, commit: Commit | None) -> bool:
    """Ask until it is certain. Raises OutcomeUnknown."""
    if commit is None:
        raise OutcomeUnknown
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            with engine.connect() as connection:
                # In this order: a backend that has ended before the look at the row can no longer commit it.
                at_work = connection.scalar(
                    text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid"), {"pid": commit.backend_pid}
                )
                if connection.execute(commit.witness).first() is not None:
                    return True
                # A standby may not have replayed the commit yet: only a primary knows.
                if not at_work and not connection.scalar(select(func.pg_is_in_recovery())):
                    return False
        except SQLAlchemyError as error:
            if not outages.passes(error):
                raise
        time.sleep(LOOK_SECONDS)
    raise OutcomeUnknown
