"""Finds out whether a commit happened when its connection broke before the response.

PostgreSQL can have committed or not. To find out, `Database.write` looks for a row that the transaction inserted under
a unique id. If the row exists, the commit happened. If the row is absent and the server process of the connection has
ended, the commit did not happen. The response is then correct, and a repeated request changes nothing twice. SQLite has
no connection that can break.
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
"""Maximum seconds to look for the outcome of a commit whose connection broke. Larger: the outcome is found after longer
failovers, and the request waits longer. A restart of PostgreSQL with crash recovery takes 1 to 5 s."""
LOOK_SECONDS = 0.1
"""Seconds between two queries for the outcome. Larger: less load, later responses. Set by hand; no measurement is
recorded."""
WITNESS = "witness"


class OutcomeUnknown(Exception):
    """Raised when the server did not come back in time, or the transaction inserted no row to look for."""


@dataclass(frozen=True)
class Commit:
    """What is needed to look up the outcome of a commit, stored before the commit is sent."""

    backend_pid: int
    """Id of the server process that runs the commit."""
    witness: Select[int]
    """Query for a row that the transaction inserted."""


class UnitOfWork(Session):
    """A session that remembers one of the rows that it inserted, to look up the outcome of its commit."""


@event.listens_for(UnitOfWork, "after_flush")
def _remember(session: Session, _context: object) -> None:
    if WITNESS not in session.info:
        for row in session.new:
            columns = inspect(row).mapper.columns
            # without these columns, another transaction could have inserted an equal row
            if "id" in columns or "created_at" in columns:
                session.info[WITNESS] = row
                return


def about_to_commit(session: Session) -> Commit | None:
    """Return what is needed to look up the outcome of the commit, or None if no row can be looked up. Call it after a
    flush."""
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
    """Query until the outcome of a commit is certain, and return it. Raises OutcomeUnknown."""
    if commit is None:
        raise OutcomeUnknown
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            with engine.connect() as connection:
                # Query the backend first, then the row: a backend that has ended can no longer commit the row in
                # between.
                at_work = connection.scalar(
                    text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid"), {"pid": commit.backend_pid}
                )
                if connection.execute(commit.witness).first() is not None:
                    return True
                # Only a primary knows the outcome, because a standby can lag behind.
                if not at_work and not connection.scalar(select(func.pg_is_in_recovery())):
                    return False
        except SQLAlchemyError as error:
            if not outages.passes(error):
                raise
        time.sleep(LOOK_SECONDS)
    raise OutcomeUnknown
