"""Ownership of blobs: which row keeps which file alive, and how bytes that no row owns are freed at once.

`own_existing` and `reclaim` both hold `lock` until their transaction ends. The first then checks that the files are
there, the second that no row owns them, so one of the two always sees what the other did.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db import Database
from app.db.tables import BlobOwnerRow
from app.storage.blobs import BlobStore

# Any fixed number: on PostgreSQL, who gains a blob and who deletes unowned ones must not do so at once.
POSTGRESQL_LOCK = 7_165_318_228


class BlobsGone(Exception):
    """A blob was deleted between the moment it was found to be there and the moment it was to be owned."""


def lock(session: Session) -> None:
    """Until this unit of work ends, nobody else owns or deletes. SQLite's writers are alone anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql(f"SELECT pg_advisory_xact_lock({POSTGRESQL_LOCK})")


def own(session: Session, owner_id: str, sizes: Mapping[str, int]) -> None:
    """Record that a row needs these blobs (sha256 > bytes). Call it in the transaction that writes the row."""
    session.add_all(BlobOwnerRow(sha256=sha256, owner_id=owner_id, bytes=size) for sha256, size in sizes.items())


def disown(session: Session, owner_id: str) -> list[str]:
    """Give up all blobs of a row; returns them."""
    statement = delete(BlobOwnerRow).where(BlobOwnerRow.owner_id == owner_id).returning(BlobOwnerRow.sha256)
    return list(session.scalars(statement))


def give_up(session: Session, owner_id: str, blobs: Collection[str]) -> None:
    """Give up some blobs of a row."""
    statement = delete(BlobOwnerRow).where(BlobOwnerRow.owner_id == owner_id, BlobOwnerRow.sha256.in_(blobs))
    session.execute(statement.execution_options(synchronize_session=False))


def owned_among(session: Session, blobs: Collection[str]) -> set[str]:
    """Which of these blobs somebody owns."""
    return set(session.scalars(select(BlobOwnerRow.sha256).where(BlobOwnerRow.sha256.in_(blobs))))


def sizes(session: Session, owner_id: str) -> dict[str, int]:
    """The blobs of a row, with their bytes."""
    query = select(BlobOwnerRow.sha256, BlobOwnerRow.bytes).where(BlobOwnerRow.owner_id == owner_id)
    return {row.sha256: row.bytes for row in session.execute(query)}


def owners(session: Session) -> dict[str, list[str]]:
    """Every owned blob with the ids of its owners."""
    found: dict[str, list[str]] = {}
    for sha256, owner_id in session.execute(select(BlobOwnerRow.sha256, BlobOwnerRow.owner_id)):
        found.setdefault(sha256, []).append(owner_id)
    return found


def own_existing(session: Session, blobs: BlobStore, owner_id: str, sizes: Mapping[str, int]) -> None:
    """Own blobs that others may be giving up right now. Raises BlobsGone: make them again."""
    lock(session)
    own(session, owner_id, sizes)
    if not all(blobs.path(sha256).exists() for sha256 in sizes):
        raise BlobsGone


def reclaim(database: Database, blobs: BlobStore, candidates: Collection[str]) -> int:
    """Delete those of these blobs that nobody owns; returns the bytes freed. A crash leaves the rest to the sweep."""
    with database.write() as session:
        lock(session)
        owned = owned_among(session, candidates)
        return sum(blobs.remove(sha256) for sha256 in candidates if sha256 not in owned)
