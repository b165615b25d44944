"""The identity of the data folder: a random id in its file `store.id` and in the table `store` of the database.

An unmounted volume leaves an empty folder, and a wrong volume has the files of another database. Both look like a store
with missing files. Without a check, jobs would fail, uploads would be lost when the volume is mounted again, and the
sweep would delete files of the other database. Processes therefore compare both ids before they read, write or delete a
file.

The id is created once, when neither the folder nor the database has one (`hyperplane serve` on a new folder, or after
an upgrade). Only `hyperplane accept-store` gives the database another store. Stop all processes of the service before
that command, because they cache the id.
"""

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.db import Database
from app.db.tables import BlobOwnerRow, StoreRow
from app.storage.blobs import BlobStore, fsync_folder, make_durable_folder, make_folders

FILE_NAME = "store.id"
ONLY_ROW = 1
"""Primary key of the only row of the table `store`."""
SAMPLED_BLOBS = 20
"""Number of files of the database to look for in a folder before the folder gets its first id. Larger: a slower check
of an empty folder. Set by hand; no measurement is recorded."""


class StoreAway(OSError):
    """Raised when the folder is not the store of the database. The volume can be mounted again, so callers wait and
    retry."""


class StoreIdentity:
    """Compares the id of a folder with the id in the database."""

    def __init__(self, database: Database, root: Path) -> None:
        self._database = database
        self._root = root
        self._expected: str | None = None

    def check(self, establish: bool = True) -> None:
        """Raise StoreAway unless this folder is the store of the database. Usually costs one small read.

        If the database has no store yet, this folder becomes its store, which needs a write. Pass `establish=False`
        inside a transaction, and for reads.
        """
        found = _read(self._root)
        if found is not None and found == self._expected:
            return
        self._expected = self._known() or (self._establish() if establish else None)
        if self._expected is None:
            return
        found = _read(self._root)
        if found != self._expected:
            has = "has no store.id" if found is None else f"is the store {found}"
            raise _away(
                f"{self._root} {has}, but the database belongs to the store {self._expected}. Mount the right "
                f"volume there, "
                "or run `hyperplane accept-store` to accept this folder"
            )

    def accept(self) -> str:
        """Make this folder the store of the database, whatever it contains. Returns its id."""
        identity = _read(self._root) or _create(self._root)
        make_folders(self._root)
        with self._database.write() as session:
            row = session.get(StoreRow, ONLY_ROW)
            if row is None:
                session.add(StoreRow(number=ONLY_ROW, id=identity))
            else:
                row.id = identity
        self._expected = identity
        return identity

    def _known(self) -> str | None:
        with self._database.read() as session:
            row = session.get(StoreRow, ONLY_ROW)
        return None if row is None else row.id

    def _establish(self) -> str:
        """Store the same id in the database and in the folder. Raises StoreAway if the folder does not have the files
        of the database."""
        try:
            with self._database.write() as session:
                _refuse_empty(session, self._root)
                identity = _read(self._root) or _create(self._root)
                session.add(StoreRow(number=ONLY_ROW, id=identity))
        except IntegrityError:  # another process has just inserted it
            known = self._known()
            assert known is not None, "the insert conflicted, so the row exists"
            return known
        return identity


def open_store(root: Path, database: Database) -> BlobStore:
    """Return the blob store of a database. The folder is checked at the first use, not here."""
    return BlobStore(root, StoreIdentity(database, root).check)


def _refuse_empty(session: Session, root: Path) -> None:
    """Raise StoreAway if the folder has none of the files that the database refers to. Needed for databases of earlier
    versions, which have no store id."""
    owned = session.scalars(select(BlobOwnerRow.sha256).limit(SAMPLED_BLOBS)).all()
    if owned and not any((root / "blobs" / one[:2] / one[2:]).exists() for one in owned):
        raise _away(
            f"{root} has none of {len(owned)} files that the database refers to. Mount the right volume there, "
            "or run `hyperplane accept-store` to accept this folder"
        )


def _read(root: Path) -> str | None:
    try:
        return (root / FILE_NAME).read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _create(root: Path) -> str:
    """Create the folders of a store and a new id, and sync them. Returns the id, or the id of another process that was
    faster."""
    make_durable_folder(root)
    make_folders(root)
    draft = root / f"{FILE_NAME}.{secrets.token_hex(8)}"
    try:
        with draft.open("w") as file:
            file.write(f"st_{secrets.token_hex(16)}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first
            os.link(draft, root / FILE_NAME)
    finally:
        draft.unlink(missing_ok=True)
    fsync_folder(root)
    identity = _read(root)
    assert identity is not None, "the file was written above"
    return identity


def _away(message: str) -> StoreAway:
    return StoreAway(errno.ENOTCONN, message)
