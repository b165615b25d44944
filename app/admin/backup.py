"""`hyperplane backup` and `hyperplane restore`: copy all rows and files to a folder, and load them from it.

A backup of SQLite can be restored to PostgreSQL, and the reverse. The folder contains:

    manifest.json        written last: the contents with their hashes; without it the backup is incomplete
    rows/TABLE.jsonl     every row of a table, one JSON object per line
    blobs/ab/cdef…       every file that a row of the snapshot owns, named by its hash
    uploads/up_…         the bytes received so far of incomplete uploads

The rows are one consistent snapshot, taken while the service runs. At the moment of the snapshot, each file gets a hard
link, so a file that is deleted during the copy is still copied. Files are immutable. Rows are read from a private copy
of an SQLite database, or in a repeatable-read transaction on PostgreSQL, so writers do not wait for the backup. A
missing or damaged file is skipped and listed in the manifest.
"""

import errno
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select

from app import __version__
from app.config import Settings
from app.db import Database, UtcDateTime
from app.db.migrate import UnknownRevision, revision, upgrade
from app.db.tables import Base, BlobOwnerRow, JobRow, StoreRow, UploadRow
from app.storage import BlobStore, ownership
from app.storage.blobs import fsync_folder, hash_file
from app.storage.identity import StoreAway, open_store

FORMAT = "hyperplane-backup-1"
MANIFEST = "manifest.json"
ATTEMPTS = 5
"""Attempts to take a snapshot. An attempt fails if an upload completes during it, because the file of the upload moves.
The last attempt skips such uploads. Larger: fewer incomplete uploads are missing from the backup of a busy service. Set
by hand; no measurement is recorded."""
ROWS_AT_ONCE = 500
"""Rows per SELECT fetch and per INSERT. Larger: fewer statements, more memory. Set by hand; no measurement is
recorded."""
BLOCK_BYTES = 1 << 20
"""Bytes per read while a file is copied. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""
STALE_SECONDS = 86_400.0
"""Age in seconds at which the hard links of a killed backup are deleted. Larger: deleted files occupy the disk longer.
Must exceed the duration of a backup; one day is set by hand."""
BACKED_UP = [table for table in Base.metadata.sorted_tables if table is not StoreRow.__table__]
"""Tables in a backup: all except `store`, which identifies the data folder. A restored database has another folder."""
PRIVATE = 0o700
"""Permissions of the backup folder: only its owner can read it, because it contains all data and the secrets of
webhooks."""


class BackupError(Exception):
    """Raised when a backup cannot be made or restored. The message is for the user of the command."""


@dataclass(frozen=True)
class Manifest:
    rows: dict[str, str]
    """SHA-256 of the file of rows, by table name."""
    blobs: dict[str, int]
    """Size in bytes of each blob, by SHA-256."""
    uploads: dict[str, str]
    """SHA-256 of the bytes received so far, by id of the upload."""
    schema: str | None
    version: str
    created_at: str
    lacking: dict[str, str] = field(default_factory=dict)
    """Files that are not in the backup although rows refer to them. The value says what is wrong and which rows refer
    to the file."""

    def document(self) -> dict[str, Any]:
        return {"format": FORMAT, **vars(self)}


def back_up(settings: Settings, target: Path) -> Manifest:
    """Write a backup into a folder that is empty or does not exist."""
    if target.exists() and any(target.iterdir()):
        raise BackupError(f"{target} is not empty; choose an empty folder or a new one")
    target.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    database = Database(settings.resolved_database_url)
    blobs = open_store(settings.data_dir, database)
    try:
        blobs.check()
        with ExitStack() as stack:
            held = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_waiting_room(settings), prefix="backup-")))
            snapshot = _snapshot_with_files(stack, database, blobs, held, settings)
            rows = {table.name: _write_rows(snapshot, table, target) for table in BACKED_UP}
            sizes, uploads, lacking = _copy_files(snapshot, held, target)
        found = revision(database)
        manifest = Manifest(rows, sizes, uploads, found, __version__, datetime.now(UTC).isoformat(), lacking)
        _write_manifest(target, manifest)
        return manifest
    except StoreAway as error:
        raise BackupError(str(error.strerror)) from error
    finally:
        database.close()


def check_backup(source: Path) -> tuple[Manifest, list[str]]:
    """Return the manifest and the faults of the backup. Raises BackupError if there is no valid manifest."""
    try:
        document = json.loads((source / MANIFEST).read_text())
        assert document.pop("format") == FORMAT
        manifest = Manifest(**document)
    except FileNotFoundError:
        raise BackupError(
            f"{source} has no {MANIFEST}: it is not a backup, or the backup was interrupted. Choose another backup"
        ) from None
    except (ValueError, AssertionError, KeyError, TypeError):
        raise BackupError(
            f"{source / MANIFEST} is damaged or was written by another version. Choose another backup or version"
        ) from None
    expected = {f"rows/{name}.jsonl": sha256 for name, sha256 in manifest.rows.items()}
    expected |= {f"blobs/{sha256[:2]}/{sha256[2:]}": sha256 for sha256 in manifest.blobs}
    expected |= {f"uploads/{name}": sha256 for name, sha256 in manifest.uploads.items()}
    faults = []
    for name, sha256 in expected.items():
        file = source / name
        if not file.is_file():
            faults.append(f"{name} is missing")
        elif hash_file(file) != sha256:
            faults.append(f"{name} is damaged")
    return manifest, faults


def fill_from(settings: Settings, source: Path) -> Manifest:
    """Restore a backup into an empty database and data folder. The rows are written last, in one transaction."""
    manifest, faults = check_backup(source)
    if faults:
        raise BackupError(f"{len(faults)} files of the backup are missing or damaged; the first: {faults[0]}")
    database, blobs = Database(settings.resolved_database_url), BlobStore(settings.data_dir)
    try:
        upgrade(database)
        if revision(database) != manifest.schema:
            raise BackupError(
                f"the backup was made by version {manifest.version}: restore it with that version, then upgrade"
            )
        # Files of this backup are allowed: an earlier, interrupted restore may have written them.
        if any(sha256 not in manifest.blobs for sha256 in blobs):
            raise BackupError(f"{settings.data_dir} holds files of another database; use an empty folder")
        with database.write() as session:
            for table in BACKED_UP:
                if session.scalar(select(func.count()).select_from(table)):
                    raise BackupError(
                        f"the database is not empty: table {table.name} has rows. Restore into an empty database"
                    )
            _restore_files(manifest, source, blobs, settings)
            for table in BACKED_UP:
                for rows in _read_rows(source / "rows" / f"{table.name}.jsonl", table):
                    session.execute(insert(table), rows)
        return manifest
    except UnknownRevision as error:
        raise BackupError(str(error)) from error
    finally:
        database.close()


def _restore_files(manifest: Manifest, source: Path, blobs: BlobStore, settings: Settings) -> None:
    for sha256 in manifest.blobs:
        with blobs.stage() as staged, (source / "blobs" / sha256[:2] / sha256[2:]).open("rb") as file:
            shutil.copyfileobj(file, staged, BLOCK_BYTES)
            staged.commit()
    for name in manifest.uploads:
        _copy(source / "uploads" / name, settings.data_dir / "uploads" / name)
    if manifest.uploads:
        fsync_folder(settings.data_dir / "uploads")


def _snapshot_with_files(
    stack: ExitStack, database: Database, blobs: BlobStore, held: Path, settings: Settings
) -> Connection:
    """Yield a connection to the snapshot, with hard links in `held` to every existing file of that moment."""
    for last in [False] * (ATTEMPTS - 1) + [True]:
        attempt = ExitStack()
        try:
            with database.write() as session:  # no file gets an owner or is deleted while this lock is held
                ownership.lock(session)
                snapshot = attempt.enter_context(_snapshot(database, held))
                for sha256 in _owned(snapshot):
                    # the file is lost; it was not deleted just now, because the lock is held
                    with suppress(FileNotFoundError):
                        _link(blobs.path(sha256), held / sha256)
                for upload_id in snapshot.scalars(select(UploadRow.id).where(UploadRow.dataset_id.is_(None))):
                    with suppress(FileNotFoundError) if last else nullcontext():
                        _link(settings.data_dir / "uploads" / upload_id, held / upload_id)
            stack.push(attempt)
            return snapshot
        except FileNotFoundError:  # the upload has just completed, or its file is lost: retry
            attempt.close()
    raise AssertionError("unreachable: the last attempt ignores missing uploads and returns")


def _copy_files(
    snapshot: Connection, held: Path, target: Path
) -> tuple[dict[str, int], dict[str, str], dict[str, str]]:
    """Copy the files in `held`. Returns the sizes of blobs, the hashes of uploads, and what is wrong with each file
    that was not copied."""
    copied: dict[str, int] = {}
    uploads: dict[str, str] = {}
    lacking: dict[str, str] = {}
    for sha256, n_bytes in _owned(snapshot).items():
        name = f"blobs/{sha256[:2]}/{sha256[2:]}"
        if fault := _fault_of(held / sha256, target / name, sha256):
            lacking[name] = f"{fault}; needed by {', '.join(_owners(snapshot, sha256))}"
        else:
            copied[sha256] = n_bytes
    waiting = select(UploadRow.id, UploadRow.received).where(UploadRow.dataset_id.is_(None))
    for upload in snapshot.execute(waiting):
        try:
            uploads[upload.id] = _copy(held / upload.id, target / "uploads" / upload.id, upload.received)
        except OSError as error:
            lacking[f"uploads/{upload.id}"] = f"cannot be read: {error.strerror}"
    return copied, uploads, lacking


def _fault_of(source: Path, target: Path, sha256: str) -> str | None:
    """Copy a blob. Returns None, or what is wrong with it; then the copy is deleted."""
    try:
        if _copy(source, target) == sha256:
            return None
        fault = "is damaged"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        if error.errno != errno.EIO:  # the target failed, for example because its disk is full; the blob is not damaged
            raise
        fault = f"cannot be read: {error.strerror}"
    target.unlink()
    return fault


def _owners(snapshot: Connection, sha256: str) -> list[str]:
    return list(snapshot.scalars(select(BlobOwnerRow.owner_id).where(BlobOwnerRow.sha256 == sha256)))


@contextmanager
def _snapshot(database: Database, held: Path) -> Iterator[Connection]:
    if database.url.get_backend_name() == "sqlite":
        copy = held / "snapshot.sqlite3"
        copy.unlink(missing_ok=True)
        with sqlite3.connect(str(database.url.database)) as live, sqlite3.connect(copy) as private:
            live.backup(private)
        live.close()
        private.close()
        frozen = Database(f"sqlite:///{copy}")
        try:
            with frozen.engine.connect() as connection:
                yield connection
        finally:
            frozen.close()
    else:
        with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            yield connection


def _owned(snapshot: Connection) -> dict[str, int]:
    query = select(BlobOwnerRow.sha256, func.max(BlobOwnerRow.bytes)).group_by(BlobOwnerRow.sha256)
    return {row[0]: row[1] for row in snapshot.execute(query.order_by(BlobOwnerRow.sha256))}


def _write_rows(snapshot: Connection, table: Table, target: Path) -> str:
    path = target / "rows" / f"{table.name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for row in snapshot.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table)).mappings():
            line = json.dumps(dict(row), default=_as_text, allow_nan=False, separators=(",", ":")).encode() + b"\n"
            digest.update(line)
            file.write(line)
        _sync(file)
    return digest.hexdigest()


def _read_rows(path: Path, table: Table) -> Iterator[list[dict[str, Any]]]:
    """Read rows in batches. Running jobs become queued, because their workers do not exist in the restored
    installation."""
    moments = [column.name for column in table.columns if isinstance(column.type, UtcDateTime)]
    rows: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for line in file:
            row = json.loads(line)
            for name in moments:
                row[name] = None if row[name] is None else datetime.fromisoformat(row[name])
            if table is JobRow.__table__ and row["status"] == "running":
                row |= {"status": "queued", "lease_owner": None, "lease_expires_at": None}
            rows.append(row)
            if len(rows) == ROWS_AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows


def _as_text(value: object) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()


def _waiting_room(settings: Settings) -> Path:
    """Create a folder for hard links on the file system of the blobs. Removes the folders of killed backups."""
    folder = settings.data_dir / "backups"
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    for stale in folder.iterdir():
        if datetime.now(UTC).timestamp() - stale.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(stale, ignore_errors=True)
    return folder


def _link(file: Path, name: Path) -> None:
    name.unlink(missing_ok=True)
    os.link(file, name)


def _copy(source: Path, target: Path, n_bytes: int | None = None) -> str:
    """Copy a file, or its first `n_bytes` bytes, and fsync the copy. Returns its SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), n_bytes
    with source.open("rb") as file, target.open("wb") as copy:
        while chunk := file.read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES)):
            digest.update(chunk)
            copy.write(chunk)
            left = None if left is None else left - len(chunk)
        _sync(copy)
    return digest.hexdigest()


def _write_manifest(target: Path, manifest: Manifest) -> None:
    for folder, _, _ in os.walk(target):
        fsync_folder(Path(folder))
    unfinished = target / f"{MANIFEST}.new"
    with unfinished.open("wb") as file:
        file.write(json.dumps(manifest.document(), indent=1).encode())
        _sync(file)
    unfinished.rename(target / MANIFEST)
    fsync_folder(target)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
