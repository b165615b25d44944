"""`hyperplane verify`: check that every file that the database refers to exists and is undamaged, and count files that
it does not refer to."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from app.config import Settings
from app.db import Database
from app.db.tables import BlobOwnerRow, DatasetRow, JobRow, ModelRow, UploadRow
from app.errors import CorruptModel
from app.models import file
from app.storage import BlobStore, ownership
from app.storage.identity import StoreAway, open_store

INTERRUPTED = select(JobRow).where(JobRow.checkpoint.is_not(None))


@dataclass
class Report:
    blobs: int = 0
    datasets: int = 0
    models: int = 0
    faults: list[str] = field(default_factory=list)
    unowned: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.faults

    def lines(self) -> Iterator[str]:
        yield f"{self.blobs} files, {self.datasets} datasets, {self.models} models checked"
        if self.unowned:
            yield f"{len(self.unowned)} files have no owner; the next sweep deletes them"
        yield from self.faults
        yield "no faults found" if self.sound else f"{len(self.faults)} fault(s)"


def verify_storage(settings: Settings) -> Report:
    """Hash every file, then check the files of every row."""
    database = Database(settings.resolved_database_url)
    blobs, report = open_store(settings.data_dir, database), Report()
    try:
        blobs.check()
    except StoreAway as error:  # without this, every file would be reported as missing
        database.close()
        return Report(faults=[str(error.strerror)])
    with database.read() as session:
        # read before the owners, so that a blob listed here has its owner below
        interrupted = session.scalars(INTERRUPTED).all()
        owners = ownership.owners(session)
        datasets = session.scalars(select(DatasetRow)).all()
        models = session.scalars(select(ModelRow).options(undefer(ModelRow.card))).all()
    intact = set()
    for sha256 in blobs:
        report.blobs += 1
        if blobs.is_intact(sha256):
            intact.add(sha256)
            if sha256 not in owners:
                report.unowned.append(sha256)
        elif blobs.path(sha256).exists():  # skip a file that was deleted after it was listed
            report.faults.append(f"file {sha256}: damaged (its bytes have another hash)")
    needs = {row.id: _dataset_files(row) for row in datasets}
    needs |= {row.id: _model_files(row) for row in models}
    with database.read() as session:
        # Running jobs replace their files, so a file that no row refers to any more can be gone.
        kept = {(row.id, blob) for row in session.scalars(INTERRUPTED) for blob in _job_files(row)}
    needs |= {row.id: [blob for blob in _job_files(row) if (row.id, blob) in kept] for row in interrupted}
    for row_id, needed in needs.items():
        for sha256 in needed:
            if row_id not in owners.get(sha256, ()):
                report.faults.append(f"{row_id}: refers to file {sha256}, but is not recorded as its owner")
    lacking = {sha256 for sha256 in owners if sha256 not in intact}
    with database.read() as session:  # read the owners again: a file that was deleted during the check is not missing
        still = ownership.owners(session) if lacking else {}
        report.faults += [
            f"{owner}: file {sha256} is missing or damaged"
            for sha256 in sorted(lacking)
            for owner in still.get(sha256, ())
        ]
        absent = [BlobOwnerRow.owner_id.not_in(select(table.id)) for table in (DatasetRow, JobRow, ModelRow)]
        strangers = session.scalars(select(BlobOwnerRow.owner_id).where(*absent).distinct())
        report.faults += [f"{owner}: owns files, but there is no such row" for owner in strangers]
        report.faults += _upload_faults(session, settings.data_dir / "uploads")
    for row in models:
        report.faults += _model_faults(blobs, row) if row.blob in intact and row.purged_at is None else []
    report.datasets, report.models = len(datasets), len(models)
    database.close()
    return report


def _upload_faults(session: Session, folder: Path) -> list[str]:
    faults = []
    for upload in session.scalars(select(UploadRow).where(UploadRow.dataset_id.is_(None))):
        part = folder / upload.id
        held = part.stat().st_size if part.exists() else 0
        if held < upload.received:
            faults.append(f"{upload.id}: {upload.received} bytes were acknowledged, but its file has {held}")
    return faults


def _dataset_files(dataset: DatasetRow) -> list[str]:
    if dataset.status == "invalid":
        return []  # they were freed
    kept = [dataset.sha256, *dataset.arrays.values()]
    return kept if dataset.statistics is None else [*kept, dataset.statistics]


def _job_files(job: JobRow) -> list[str]:
    return [blob for blob in (job.checkpoint, job.snapshot) if blob is not None]


def _model_files(model: ModelRow) -> list[str]:
    if model.purged_at is not None:
        return []  # they were freed
    return [model.blob] if model.proof is None else [model.blob, model.proof]


def _model_faults(blobs: BlobStore, model: ModelRow) -> list[str]:
    try:
        stored = file.read(blobs.path(model.blob))
    except CorruptModel as error:
        return [f"{model.id}: {error}"]
    if stored.header.card != model.card:
        return [f"{model.id}: the card in its file differs from the card in the database"]
    return []
