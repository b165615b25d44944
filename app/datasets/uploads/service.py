"""Resumable uploads: begin, append, complete, delete."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from app.config import Settings
from app.datasets.formats import Format, ReadOptions
from app.datasets.service import Received, options_from
from app.datasets.uploads import repository
from app.datasets.uploads.part_files import Part, PartFiles
from app.db import Database
from app.db.engine import current_time
from app.db.tables import UploadRow
from app.errors import Conflict, Invalid, NotFound, PayloadTooLarge
from app.ids import is_id, new_id


def check_length(length: int, settings: Settings) -> None:
    """Raise PayloadTooLarge if a file of `length` bytes exceeds the limit."""
    if length > settings.max_upload_bytes:
        limit = f"the limit is {settings.max_upload_bytes} (HYPERPLANE_MAX_UPLOAD_BYTES)"
        raise PayloadTooLarge(f"The file has at least {length} bytes; {limit}.")


def begin(
    session: Session,
    parts: PartFiles,
    file_format: Format,
    options: ReadOptions,
    name: str | None,
    labels: dict[str, str],
    length: int | None,
) -> UploadRow:
    upload = UploadRow(
        id=new_id("up"),
        format=file_format,
        options=asdict(options),
        name=name,
        labels=labels,
        length=length,
        received=0,
    )
    upload.created_at = upload.updated_at = current_time(session)
    repository.insert(session, upload)
    parts.create(upload.id)
    return upload


def get(session: Session, upload_id: str) -> UploadRow:
    upload = repository.get(session, upload_id) if is_id("up", upload_id) else None
    if upload is None:
        raise NotFound("There is no such upload; it was never created, was deleted, or has expired. Create one.")
    return upload


def show(upload: UploadRow, settings: Settings) -> dict[str, Any]:
    """Return the fields of `schemas.Upload`."""
    return {
        "id": upload.id,
        "offset": upload.received,
        "length": upload.length,
        "complete": upload.dataset_id is not None,
        "dataset_id": upload.dataset_id,
        "created_at": upload.created_at,
        "expires_at": upload.updated_at + timedelta(seconds=settings.upload_idle_seconds),
    }


def open_part(database: Database, parts: PartFiles, upload_id: str, offset: int) -> tuple[UploadRow, Part]:
    """Return an upload and its locked file, positioned at `offset`. Raises Conflict if the stored offset differs."""
    with database.read() as session:
        get(session, upload_id)  # raises NotFound before a file is opened under an unknown id
    try:
        file = parts.lock(upload_id)
    except FileNotFoundError:
        raise _ended(database, upload_id) from None
    try:
        with database.read() as session:  # read again, now that the file is locked
            upload = get(session, upload_id)
        if upload.dataset_id is not None:
            raise Conflict(
                "The upload is complete and accepts no more bytes; its `dataset_id` is the dataset.",
                code="upload_complete",
            )
        if offset != upload.received:
            detail = f"Upload-Offset is {offset}, but {upload.received} bytes are stored; continue there."
            headers = {"Upload-Offset": str(upload.received)}
            raise Conflict(detail, code="offset_mismatch", headers=headers)
        return upload, Part(file, parts.path(upload_id), offset)
    except BaseException:
        file.close()
        raise


def check_room(upload: UploadRow, settings: Settings, offset: int) -> None:
    """Raise PayloadTooLarge for bytes beyond the announced length or the size limit."""
    if upload.length is not None and offset > upload.length:
        raise PayloadTooLarge(
            f"The body exceeds the announced Upload-Length of {upload.length} bytes; send only the rest of the file."
        )
    check_length(offset, settings)


def acknowledge(database: Database, upload_id: str, part: Part) -> None:
    """Fsync the received bytes, then store the new offset."""
    received = part.sync()
    with database.write() as session:
        if not repository.change(session, upload_id, received=received):
            raise NotFound("The upload was deleted during this request; create a new one.")


def seal(database: Database, upload: UploadRow, part: Part) -> Received:
    """Close the upload for further bytes. Returns its file and options."""
    if upload.length is not None and part.offset != upload.length:
        detail = f"Upload-Length is {upload.length} bytes, but {part.offset} have arrived; send the rest first."
        raise Invalid(detail, code="upload_incomplete")
    with database.write() as session:
        repository.change(session, upload.id, length=part.offset)
    sha256, options = part.seal(), options_from(upload.options)
    return Received(sha256, part.offset, upload.format, options, upload.name, upload.labels)


def begin_again(database: Database, parts: PartFiles, upload_id: str) -> None:
    """Reset an upload whose file cannot be trusted. The client must send it again from the start."""
    with database.write() as session:
        repository.change(session, upload_id, received=0)
    parts.replace(upload_id)


def complete(database: Database, parts: PartFiles, upload_id: str, dataset_id: str) -> None:
    """Store the id of the dataset with the upload, for a client that did not receive the response."""
    with database.write() as session:
        repository.change(session, upload_id, dataset_id=dataset_id)
    parts.remove(upload_id)


def abandon(database: Database, parts: PartFiles, upload_id: str) -> None:
    with database.write() as session:
        get(session, upload_id)
        repository.delete(session, upload_id)
    parts.remove(upload_id)


def forget_idle(database: Database, parts: PartFiles, settings: Settings) -> None:
    """Delete idle uploads, and files of killed processes that have no database row."""
    parts.check()  # raises for the store of another database, whose files would be deleted
    with database.read() as session:
        idle = repository.idle(session, settings.upload_idle_seconds)
    for upload_id in idle:
        with database.write() as session:
            repository.delete(session, upload_id)
        parts.remove(upload_id)
    old = list(parts.older_than(settings.sweep_grace_seconds))
    if old:
        with database.read() as session:
            known = repository.known_among(session, old)
        for upload_id in set(old) - known:
            parts.remove(upload_id)


def _ended(database: Database, upload_id: str) -> Exception:
    with database.read() as session:
        upload = get(session, upload_id)
    if upload.dataset_id is not None:
        return Conflict(
            "The upload is complete and accepts no more bytes; its `dataset_id` is the dataset.", code="upload_complete"
        )
    return NotFound("There is no such upload; it was never created, was deleted, or has expired. Create one.")
