"""Datasets: store received files, and find, list and delete datasets.

    (received) ── read in time ──> ready
        └── takes longer ──> processing ──> ready
                                 └────────> invalid ── a day later ──> (deleted)

`In time` means: while the upload request waits. A file that is found invalid in time is refused, and nothing is stored.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.datasets import repository
from app.datasets.formats import Format, ReadOptions
from app.datasets.reading.parse import Parsed
from app.datasets.repository import Claim, Filters
from app.db import Database
from app.db.engine import current_time
from app.db.tables import DatasetRow
from app.errors import AppError, Conflict, Invalid, NotFound
from app.ids import is_id, new_id
from app.storage import BlobStore, ownership
from app.storage.ownership import own, reclaim

KEEP_INVALID = timedelta(hours=24)
MAX_READER_DEATHS = 3
"""Number of times that the parser of a file can be killed before the file is marked invalid. Larger: more attempts for
a file whose parser was killed for another reason, and more attempts with a file that kills its parser. Set by hand; no
measurement is recorded."""
MAX_ATTEMPTS = 10
"""Maximum attempts to parse a file when API processes die meanwhile. The file is marked invalid only if
HYPERPLANE_STORAGE_PATIENCE_SECONDS have passed, too. The file is rarely the cause, because child processes do the
parsing. Larger: a file that kills API processes can kill more of them. Set by hand; no measurement is recorded."""

# A function that does further work in the transaction that inserts a dataset.
OnInsert = Callable[[Session, DatasetRow], None]

# Fields that parsing fills in. Until then they are null in responses.
UNREAD: dict[str, Any] = {
    **{"n_rows": 0, "n_features": 0, "nnz": 0, "storage": "", "task_hint": ""},
    **{"arrays": {}, "label_names": None, "classes": [], "columns": [], "warnings": []},
}


@dataclass(frozen=True)
class Received:
    """A completely received file and the options of the upload request."""

    sha256: str
    size: int
    file_format: Format
    options: ReadOptions
    name: str | None
    labels: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Return a hash of the file's bytes, the read options and the name."""
        parts = [self.sha256, self.file_format, asdict(self.options), self.name, self.labels]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def find_known(database: Database, received: Received) -> DatasetRow | None:
    """Return the existing dataset of this file, or None. Raises Invalid for an empty file."""
    if received.size == 0:
        raise Invalid("The body is empty; send the file as the body.", code="empty_body")
    with database.read() as session:
        return repository.get_by_fingerprint(session, received.fingerprint)


def store_ready(
    database: Database, blobs: BlobStore, received: Received, on_insert: OnInsert, parsed: Parsed
) -> tuple[DatasetRow, bool]:
    """Store a parsed file as a ready dataset. Returns the dataset and whether it existed before."""
    sizes = {**parsed.sizes, received.sha256: received.size}
    row = _row(received, status="ready", arrays=parsed.arrays, **parsed.description)
    return _store(database, blobs, received, on_insert, row, sizes)


def store_processing(
    database: Database, blobs: BlobStore, received: Received, on_insert: OnInsert, lease_seconds: float
) -> tuple[DatasetRow, bool]:
    """Store a file that is still being parsed as a dataset. Returns the dataset and whether it existed before."""
    row = _row(received, status="processing", attempt=1, **UNREAD)
    with database.read() as session:
        row.lease_expires_at = current_time(session) + timedelta(seconds=lease_seconds)
    return _store(database, blobs, received, on_insert, row, {received.sha256: received.size})


def settle_ready(database: Database, blobs: BlobStore, claim: Claim, parsed: Parsed) -> None:
    """Store the result of parsing a claimed dataset, and make it ready."""
    values = {"status": "ready", "lease_expires_at": None, "arrays": parsed.arrays, **parsed.description}
    with database.write() as session:
        if repository.update_claimed(session, claim, **values):
            own(session, blobs, claim.dataset_id, parsed.sizes)


def settle_invalid(database: Database, blobs: BlobStore, claim: Claim, error: AppError) -> None:
    """Mark a claimed dataset as invalid. Its file is deleted. The row is kept for a day to give the reason."""
    items = [item.model_dump(exclude_none=True) for item in error.errors]
    with database.write() as session:
        changed = repository.update_claimed(
            session,
            claim,
            status="invalid",
            lease_expires_at=None,
            fingerprint=claim.dataset_id,
            error={"code": error.code, "message": error.detail, "errors": items},
            expires_at=current_time(session) + KEEP_INVALID,
        )
        given_up = ownership.disown(session, claim.dataset_id) if changed else []
    reclaim(database, blobs, given_up)


def damaged_files(database: Database, blobs: BlobStore, dataset_id: str) -> tuple[DatasetRow, set[str]]:
    """Return a dataset and the hashes of its missing or damaged files. Reads and hashes all its files."""
    with database.read() as session:
        dataset = _get_without_columns(session, dataset_id)
    files = {dataset.sha256, *dataset.arrays.values()}
    return dataset, {sha256 for sha256 in files if not blobs.is_intact(sha256)}


def settle_repaired(database: Database, blobs: BlobStore, dataset: DatasetRow, parsed: Parsed) -> None:
    """Store the arrays of a dataset that was parsed again. They can differ from the old ones if the version of the
    service differs."""
    if parsed.arrays == dataset.arrays:
        return
    new = {sha256: size for sha256, size in parsed.sizes.items() if sha256 not in dataset.arrays.values()}
    unneeded = set(dataset.arrays.values()) - set(parsed.sizes)
    with database.write() as session:
        if repository.replace_arrays(session, dataset.id, arrays=parsed.arrays, **parsed.description):
            own(session, blobs, dataset.id, new)
            ownership.give_up(session, dataset.id, unneeded)
    reclaim(database, blobs, unneeded)


def release(database: Database, claims: Sequence[Claim]) -> None:
    """Release claimed datasets because this process stops, so that another process can take them over at once."""
    with database.write() as session:
        repository.extend_leases(session, claims, 0.0)


def age_seconds(session: Session, claim: Claim) -> float:
    """Return the seconds since the file of a claimed dataset was received; 0 if the dataset has been deleted."""
    dataset = repository.get_light(session, claim.dataset_id)
    return 0.0 if dataset is None else (current_time(session) - dataset.created_at).total_seconds()


def received_again(session: Session, claim: Claim) -> Received | None:
    """Return the file of a claimed dataset, to be parsed again, or None if the dataset was deleted."""
    dataset = repository.get(session, claim.dataset_id)
    if dataset is None:
        return None
    file_format, options = dataset.format, options_from(dataset.options)
    return Received(dataset.sha256, dataset.bytes, file_format, options, dataset.name, dataset.labels)


def received_with(session: Session, dataset_id: str, changes: ReadOptions, name: str | None) -> Received:
    """Return the stored file of a dataset, to be parsed with other options. Options that `changes` does not set stay as
    they are."""
    dataset = get_stored(session, dataset_id, get_light)
    unchanged = asdict(ReadOptions())
    changed = {field: value for field, value in asdict(changes).items() if value != unchanged[field]}
    options = replace(options_from(dataset.options), **changed)
    return Received(dataset.sha256, dataset.bytes, dataset.format, options, name or dataset.name, dict(dataset.labels))


def options_from(stored: dict[str, Any] | None) -> ReadOptions:
    """Convert the stored JSON of read options to ReadOptions. JSON has turned their tuples into lists."""

    def as_tuple(value: Any) -> Any:
        return tuple(map(as_tuple, value)) if isinstance(value, list) else value

    return ReadOptions(**{name: as_tuple(value) for name, value in (stored or {}).items()})


def forget_expired(database: Database) -> None:
    with database.read() as session:  # check with a read first, which needs no write lock on SQLite
        if not repository.expired(session):
            return
    with database.write() as session:
        for dataset in repository.expired(session):
            repository.delete(session, dataset)


def find(session: Session, dataset_id: str) -> DatasetRow | None:
    return repository.get(session, dataset_id) if is_id("ds", dataset_id) else None


def hold(session: Session, dataset_id: str) -> bool:
    """Prevent the deletion of a dataset until this unit of work ends. Returns False if it is already deleted."""
    return repository.hold(session, dataset_id)


def get(session: Session, dataset_id: str) -> DatasetRow:
    dataset = find(session, dataset_id)
    if dataset is None:
        raise NotFound("There is no such dataset; `GET /v1/datasets` lists them.")
    return dataset


def get_light(session: Session, dataset_id: str) -> DatasetRow:
    """Return a dataset. Fields whose size grows with the number of columns or classes are loaded only on access."""
    dataset = repository.get_light(session, dataset_id) if is_id("ds", dataset_id) else None
    if dataset is None:
        raise NotFound("There is no such dataset; `GET /v1/datasets` lists them.")
    return dataset


def describe(session: Session, dataset_id: str, shown_columns: int) -> tuple[DatasetRow, list[dict[str, Any]], int]:
    """Return a dataset as `get_light` does, its first columns, and the number of all columns."""
    dataset = get_light(session, dataset_id)
    columns = repository.columns_from(session, dataset_id, 0, shown_columns)
    count = len(columns) if len(columns) < shown_columns else repository.count_columns(session, dataset_id)
    return dataset, columns, count


def list_columns(session: Session, dataset_id: str, first: int, limit: int) -> list[dict[str, Any]]:
    """Return at most `limit` columns of a dataset, from number `first` on. Features come first."""
    get_light(session, dataset_id)
    return repository.columns_from(session, dataset_id, first, limit)


def read_features(
    session: Session, dataset_id: str, first: int, limit: int
) -> tuple[DatasetRow, list[dict[str, Any]], str | None]:
    """Return a ready dataset, at most `limit` of its features from number `first` on, and the name of its target. Loads
    no other columns."""
    dataset = get_ready(session, dataset_id, _get_without_columns)
    columns = repository.columns_from(session, dataset_id, first, limit)
    target = repository.columns_from(session, dataset_id, 0, 1, role="target")
    features = [column for column in columns if column["role"] == "feature"]
    return dataset, features, target[0]["name"] if target else None


def _get_without_columns(session: Session, dataset_id: str) -> DatasetRow:
    dataset = repository.get_without_columns(session, dataset_id) if is_id("ds", dataset_id) else None
    if dataset is None:
        raise NotFound("There is no such dataset; `GET /v1/datasets` lists them.")
    return dataset


def get_stored(session: Session, dataset_id: str, read: Callable[[Session, str], DatasetRow] = get) -> DatasetRow:
    """Return a dataset whose file is stored. Raises Conflict if the dataset is invalid."""
    dataset = read(session, dataset_id)
    if dataset.status == "invalid":
        raise Conflict(
            "The file of this dataset is invalid and was not stored; correct and upload it.", code="dataset_invalid"
        )
    return dataset


def get_ready(session: Session, dataset_id: str, read: Callable[[Session, str], DatasetRow] = get) -> DatasetRow:
    """Return a dataset that is ready. Raises Conflict if it is invalid or still being parsed."""
    dataset = get_stored(session, dataset_id, read)
    if dataset.status == "processing":
        raise Conflict("The dataset is still being read; retry when its status is ready.", code="dataset_not_ready")
    return dataset


def list_newest(session: Session, limit: int, before_id: str | None, filters: Filters) -> Sequence[DatasetRow]:
    return repository.list_newest(session, limit, before_id, filters)


def delete(database: Database, blobs: BlobStore, dataset_id: str) -> int:
    """Delete a dataset and the files that only it needs. Returns the bytes freed. Models are kept."""
    with database.write() as session:
        # waits for requests that submit a job on this dataset, so that the count below includes it
        repository.lock(session, dataset_id)
        dataset = get(session, dataset_id)
        if waiting := repository.count_unfinished_jobs(session, dataset_id):
            raise Conflict(f"{waiting} unfinished job(s) need this dataset; cancel them first.", code="dataset_in_use")
        given_up = ownership.disown(session, dataset.id)
        repository.delete(session, dataset)
    return reclaim(database, blobs, given_up)


def _row(received: Received, **values: Any) -> DatasetRow:
    return DatasetRow(
        id=new_id("ds"),
        name=received.name,
        fingerprint=received.fingerprint,
        format=received.file_format,
        sha256=received.sha256,
        bytes=received.size,
        options=asdict(received.options),
        labels=received.labels,
        **values,
    )


def _store(
    database: Database,
    blobs: BlobStore,
    received: Received,
    on_insert: OnInsert,
    dataset: DatasetRow,
    sizes: dict[str, int],
) -> tuple[DatasetRow, bool]:
    try:
        with database.write() as session:
            dataset.created_at = current_time(session)
            repository.insert(session, dataset)
            own(session, blobs, dataset.id, sizes)
            on_insert(session, dataset)
    except IntegrityError:  # the same file was uploaded by two requests at the same time, and the other one was first
        if known := find_known(database, received):
            return known, True
        raise
    return dataset, False
