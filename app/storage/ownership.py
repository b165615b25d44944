"""Ownership of blobs: which row needs which file, and deletion of files that no row owns.

A row must never own a file that does not exist, although other processes can delete files of the same content at any
time. The proof holds for both databases and any number of processes:
- `own` takes the lock, inserts the owner and then looks for the file. If the file does not exist, `own` writes it again
  or raises BlobsGone, which rolls the owner back. The lock is held until the transaction ends.
- `reclaim` is the only function that deletes blobs. It takes the lock, which excludes every `own`, and deletes a file
  only if no committed row owns it.
- For each file there are two cases. If `own` comes first, `reclaim` sees its committed row. If `reclaim` comes first,
  `own` sees that the file does not exist.
On PostgreSQL the lock is an advisory lock, which owners share. On SQLite the lock is that of its only writer: `_lock`
begins the transaction, which takes this lock, before anything looks for a file. `own` is the only way to own a blob, so
a caller cannot skip the check.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from itertools import islice

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db import Database
from app.db.tables import BlobOwnerRow
from app.storage.blobs import BlobStore

log = logging.getLogger(__name__)

# Key of the advisory lock on PostgreSQL that excludes owners during deletions. The number is arbitrary but must not
# change.
POSTGRESQL_LOCK = 7_165_318_228

SWEPT_AT_ONCE = 200
"""Number of blobs that a sweep checks per transaction. Larger: fewer transactions, and writers wait longer for each.
Set by hand; no measurement is recorded."""

Rewrites = Mapping[str, Callable[[], object]]
"""SHA-256 of a blob to a function that writes the blob again."""


class BlobsGone(Exception):
    """Raised when a blob was deleted after it was written and before it had an owner."""


def lock(session: Session) -> None:
    """Prevent changes of owners and deletions of blobs until this unit of work ends."""
    _lock(session, "pg_advisory_xact_lock")


def own(
    session: Session, blobs: BlobStore, owner_id: str, sizes: Mapping[str, int], rewrites: Rewrites | None = None
) -> None:
    """Record that a row needs these blobs. Call it in the transaction that writes the row.

    `sizes` maps the SHA-256 of each blob to its size in bytes. If a blob was deleted meanwhile, its function in
    `rewrites` writes it again. Without such a function, raises BlobsGone.
    """
    _lock(session, "pg_advisory_xact_lock_shared")
    session.add_all(BlobOwnerRow(sha256=sha256, owner_id=owner_id, bytes=size) for sha256, size in sizes.items())
    for sha256 in sizes:
        if not blobs.holds(sha256):
            if rewrites is None or sha256 not in rewrites:
                raise BlobsGone(sha256)
            rewrites[sha256]()


def disown(session: Session, owner_id: str) -> list[str]:
    """Remove a row as owner of all its blobs. Returns their hashes."""
    statement = delete(BlobOwnerRow).where(BlobOwnerRow.owner_id == owner_id).returning(BlobOwnerRow.sha256)
    return list(session.scalars(statement))


def give_up(session: Session, owner_id: str, blobs: Collection[str]) -> None:
    """Remove a row as owner of these blobs."""
    statement = delete(BlobOwnerRow).where(BlobOwnerRow.owner_id == owner_id, BlobOwnerRow.sha256.in_(blobs))
    session.execute(statement.execution_options(synchronize_session=False))


def owned_among(session: Session, blobs: Collection[str]) -> set[str]:
    """Return the blobs, among the given ones, that have an owner."""
    return set(session.scalars(select(BlobOwnerRow.sha256).where(BlobOwnerRow.sha256.in_(blobs))))


def sizes(session: Session, owner_id: str) -> dict[str, int]:
    """Return the blobs of a row with their sizes in bytes."""
    query = select(BlobOwnerRow.sha256, BlobOwnerRow.bytes).where(BlobOwnerRow.owner_id == owner_id)
    return {row.sha256: row.bytes for row in session.execute(query)}


def owners(session: Session) -> dict[str, list[str]]:
    """Return every owned blob with the ids of its owners."""
    found: dict[str, list[str]] = {}
    for sha256, owner_id in session.execute(select(BlobOwnerRow.sha256, BlobOwnerRow.owner_id)):
        found.setdefault(sha256, []).append(owner_id)
    return found


def reclaim(database: Database, blobs: BlobStore, candidates: Collection[str], grace_seconds: float = 0.0) -> int:
    """Delete the blobs, among the candidates, that have no owner and are older than `grace_seconds`. Returns the bytes
    freed.

    If a crash or a failing storage prevents the deletion of files, the next sweep deletes them.
    """
    if not candidates:
        return 0
    freed = 0
    try:
        blobs.check()
        with database.write() as session:
            lock(session)
            blobs.check(establish=False)
            owned = owned_among(session, candidates)
            for sha256 in candidates:
                freed += 0 if sha256 in owned else blobs.remove(sha256, grace_seconds)
    except OSError as error:
        log.warning("deleting unowned files failed; the next sweep retries: %s", error)
    return freed


def sweep(database: Database, blobs: BlobStore, grace_seconds: float) -> int:
    """Delete every file that has no owner and is older than the grace period. Returns the bytes freed."""
    blobs.check()
    with database.read() as session:
        owned = set(session.scalars(select(BlobOwnerRow.sha256).distinct()))
    stale = iter([sha256 for sha256 in blobs.untouched(grace_seconds) if sha256 not in owned])
    freed = blobs.sweep_staging(grace_seconds)
    while batch := list(islice(stale, SWEPT_AT_ONCE)):
        freed += reclaim(database, blobs, batch, grace_seconds)
    return freed


def _lock(session: Session, function: str) -> None:
    connection = session.connection()  # begins the transaction: on SQLite this takes the lock of its one writer
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT {function}({POSTGRESQL_LOCK})")
