"""Freeing bytes at once, without taking a file from somebody who is about to own it.

Whoever owns blobs takes `repository.lock` first, and looks at the end of its unit of work whether they
are still there; so does whoever deletes. One of the two comes first, and the other one sees what it did.
"""

from collections.abc import Collection, Mapping

from sqlalchemy.orm import Session

from app.db import Database
from app.storage import ownership as repository
from app.storage.blobs import BlobStore


class BlobsGone(Exception):
    """A blob was deleted between the moment it was found to be there and the moment it was to be owned."""


def own_existing(session: Session, blobs: BlobStore, owner_id: str, sizes: Mapping[str, int]) -> None:
    """Own blobs that others may be giving up right now. Raises BlobsGone: make them again."""
    repository.lock(session)
    repository.own(session, owner_id, sizes)
    if not all(blobs.path(sha256).exists() for sha256 in sizes):
        raise BlobsGone


def reclaim(database: Database, blobs: BlobStore, candidates: Collection[str]) -> int:
    """Delete those of these blobs that nobody owns; returns the bytes freed. A crash leaves the rest to the sweep."""
    with database.write() as session:
        repository.lock(session)
        owned = repository.owned_among(session, candidates)
        return sum(blobs.remove(sha256) for sha256 in candidates if sha256 not in owned)
