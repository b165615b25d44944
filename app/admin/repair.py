"""`hyperplane verify --repair`: replace missing or damaged files with good copies.

Searches for copies in a backup and among temporary files (`staging`, `uploads`, `backups`). Rebuilds the arrays of a
dataset from its uploaded file. Deletes damaged statistics, which the service computes again on the next request. The
service can keep running, because a file is replaced by a rename.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select, update

from app.config import Settings
from app.datasets import service as datasets
from app.datasets.reading.parser_pool import ParserPool
from app.db import Database
from app.db.tables import BlobOwnerRow, DatasetRow
from app.errors import AppError
from app.storage import BlobStore, ownership
from app.storage.blobs import hash_file
from app.storage.identity import StoreAway, open_store

SCRATCH = ("staging", "uploads", "backups")
BLOCK_BYTES = 1 << 20
"""Bytes per read while a copy is hashed. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""


def repair_storage(settings: Settings, backup: Path | None = None) -> Iterator[str]:
    """Repair every file that has a good copy or can be rebuilt. Yields one line of text per repair."""
    database = Database(settings.resolved_database_url)
    blobs = open_store(settings.data_dir, database)
    try:
        blobs.check()
        with database.read() as session:
            owned = session.execute(select(BlobOwnerRow.sha256, BlobOwnerRow.bytes))
            sizes = {row.sha256: row.bytes for row in owned}
            rows = session.scalars(select(DatasetRow).where(DatasetRow.status == "ready")).all()
        lacking = {sha256: size for sha256, size in sizes.items() if not blobs.is_intact(sha256)}
        for sha256, size in list(lacking.items()):
            if source := _copy_of(settings.data_dir, backup, sha256, size):
                _take(blobs, source, sha256)
                del lacking[sha256]
                yield f"file {sha256}: repaired from {source}"
        for dataset in rows:
            if dataset.statistics in lacking:
                _forget_statistics(database, dataset)
                yield f"{dataset.id}: statistics deleted; the next request computes them again"
            if lacking.keys() & set(dataset.arrays.values()) and dataset.sha256 not in lacking:
                yield _read_again(settings, database, blobs, dataset)
    except StoreAway:
        return  # `verify` reports it
    finally:
        database.close()


def _copy_of(data_dir: Path, backup: Path | None, sha256: str, size: int) -> Path | None:
    """Find an undamaged copy of a file under another name."""
    candidates = [] if backup is None else [backup / "blobs" / sha256[:2] / sha256[2:]]
    for folder in SCRATCH:
        candidates += (data_dir / folder).rglob("*")
    for one in candidates:
        try:
            if one.is_file() and one.stat().st_size == size and hash_file(one) == sha256:
                return one
        except OSError:
            continue  # it was deleted meanwhile, or is damaged too
    return None


def _take(blobs: BlobStore, source: Path, sha256: str) -> None:
    with blobs.stage() as staged, source.open("rb") as file:
        shutil.copyfileobj(file, staged, BLOCK_BYTES)
        if staged.sha256 == sha256:  # the source can have changed since it was hashed
            staged.commit()


def _forget_statistics(database: Database, dataset: DatasetRow) -> None:
    assert dataset.statistics is not None
    with database.write() as session:
        session.execute(update(DatasetRow).where(DatasetRow.id == dataset.id).values(statistics=None))
        ownership.give_up(session, dataset.id, [dataset.statistics])


def _read_again(settings: Settings, database: Database, blobs: BlobStore, dataset: DatasetRow) -> str:
    reader = ParserPool(settings.data_dir, settings.max_upload_bytes)
    try:
        options = datasets.options_from(dataset.options)
        parsed = reader.ingest(blobs.path(dataset.sha256), dataset.format, options)
    except AppError as error:
        return f"{dataset.id}: arrays not rebuilt, because its uploaded file cannot be parsed: {error.detail}"
    datasets.settle_repaired(database, blobs, dataset, parsed)
    return f"{dataset.id}: arrays rebuilt from its uploaded file"
