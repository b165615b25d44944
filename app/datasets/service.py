"""Uploads become datasets; datasets are found, listed and deleted."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.datasets import repository
from app.datasets.formats import Format, ReadOptions
from app.datasets.ingest import Ingestor
from app.db import Database
from app.db.engine import current_time
from app.db.tables import DatasetRow
from app.errors import Conflict, Invalid, NotFound
from app.ids import is_id, new_id
from app.jobs import repository as jobs
from app.storage import StagedBlob
from app.storage import repository as ownership


def create(
    database: Database,
    ingestor: Ingestor,
    staged: StagedBlob,
    file_format: Format,
    options: ReadOptions,
    name: str | None,
    labels: dict[str, str],
) -> tuple[DatasetRow, bool]:
    """Parse and store a received file; (dataset, whether it was already here).

    Parsing takes long, so this opens its own short units of work instead of living inside one.
    """
    if staged.size == 0:
        raise Invalid("The body is empty: send the file as the body.", code="empty_body")
    fingerprint = _fingerprint(staged.sha256, file_format, options, name, labels)
    with database.read() as session:
        if known := repository.get_by_fingerprint(session, fingerprint):
            return known, True
    staged.flush()
    ingested = ingestor.ingest(staged.path, file_format, options)
    dataset = DatasetRow(
        id=new_id("ds"),
        name=name,
        status="ready",
        fingerprint=fingerprint,
        format=file_format,
        sha256=staged.commit(),
        bytes=staged.size,
        arrays=ingested.arrays,
        labels=labels,
        **ingested.description,
    )
    try:
        with database.write() as session:
            dataset.created_at = current_time(session)
            repository.insert(session, dataset)
            ownership.own(session, dataset.id, {**ingested.sizes, dataset.sha256: dataset.bytes})
    except IntegrityError:  # the same upload came in twice at once, and the other one was first
        with database.read() as session:
            if known := repository.get_by_fingerprint(session, fingerprint):
                return known, True
        raise
    return dataset, False


def find(session: Session, dataset_id: str) -> DatasetRow | None:
    return repository.get(session, dataset_id) if is_id("ds", dataset_id) else None


def get(session: Session, dataset_id: str) -> DatasetRow:
    dataset = find(session, dataset_id)
    if dataset is None:
        raise NotFound("There is no such dataset.")
    return dataset


def list_newest(
    session: Session, limit: int, before_id: str | None, name: str | None, labels: dict[str, str]
) -> Sequence[DatasetRow]:
    return repository.list_newest(session, limit, before_id, name, labels)


def delete(session: Session, dataset_id: str) -> None:
    """Forget a dataset; its files go with the next sweep. Models trained on it stay."""
    dataset = get(session, dataset_id)
    if waiting := jobs.count_unfinished_on(session, dataset_id):
        raise Conflict(f"{waiting} unfinished job(s) need this dataset; cancel them first.", code="dataset_in_use")
    ownership.disown(session, dataset.id)
    repository.delete(session, dataset)


def _fingerprint(
    sha256: str, file_format: Format, options: ReadOptions, name: str | None, labels: dict[str, str]
) -> str:
    parts = json.dumps([sha256, file_format, asdict(options), name, labels], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()
