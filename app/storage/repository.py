"""Ownership of blobs: which row keeps which file alive."""

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db.tables import BlobOwnerRow


def own(session: Session, owner_id: str, sizes: Mapping[str, int]) -> None:
    """Record that a row needs these blobs (sha256 > bytes). Call it in the transaction that writes the row."""
    session.add_all(BlobOwnerRow(sha256=sha256, owner_id=owner_id, bytes=size) for sha256, size in sizes.items())


def disown(session: Session, owner_id: str) -> None:
    session.execute(delete(BlobOwnerRow).where(BlobOwnerRow.owner_id == owner_id))


def owners(session: Session) -> dict[str, list[str]]:
    """Every owned blob with the ids of its owners."""
    found: dict[str, list[str]] = {}
    for sha256, owner_id in session.execute(select(BlobOwnerRow.sha256, BlobOwnerRow.owner_id)):
        found.setdefault(sha256, []).append(owner_id)
    return found
