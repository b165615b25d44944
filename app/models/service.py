"""The registry of models: register, resolve a reference, list, delete."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import ModelRow
from app.errors import NotFound
from app.ids import is_id
from app.models import repository
from app.storage import repository as ownership

MAX_VERSION = 2**53


def register(session: Session, model: ModelRow, blob_bytes: int) -> None:
    """Insert a model as the next version of its name, and own its file."""
    model.version = repository.next_version(session, model.name)
    repository.insert(session, model)
    ownership.own(session, model.id, {model.blob: blob_bytes})


def resolve(session: Session, reference: str) -> ModelRow:
    """`mdl_…`, `name` (its newest version) or `name:3`."""
    if model := _find(session, reference):
        return model
    raise NotFound("There is no such model.")


def list_newest(session: Session, limit: int, before_id: str | None, name: str | None) -> Sequence[ModelRow]:
    return repository.list_newest(session, limit, before_id, name)


def delete(session: Session, reference: str) -> ModelRow:
    """Hide a model. Its row and file stay, so that its version number is never used again."""
    model = resolve(session, reference)
    model.deleted_at = current_time(session)
    return model


def _find(session: Session, reference: str) -> ModelRow | None:
    if is_id("mdl", reference):
        return repository.get(session, reference)
    name, colon, version = reference.partition(":")
    if "\x00" in name:
        return None
    if not colon:
        return repository.get_version(session, name, None)
    if not (version.isascii() and version.isdigit()) or len(version) > 15 or int(version) > MAX_VERSION:
        return None
    return repository.get_version(session, name, int(version))
