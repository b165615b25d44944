"""The registry of models: register, resolve a reference, list, delete."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import ModelRow
from app.errors import NotFound
from app.ids import is_id
from app.models import repository
from app.models.repository import Location
from app.names import NAME_PATTERN
from app.storage import repository as ownership

MAX_VERSION_DIGITS = 15  # fits the column with room to spare


def register(session: Session, model: ModelRow, blob_bytes: int) -> None:
    """Insert a model as the next version of its name, and own its file."""
    model.version = repository.next_version(session, model.name)
    repository.insert(session, model)
    ownership.own(session, model.id, {model.blob: blob_bytes})


def locate(session: Session, reference: str) -> Location:
    """Find a version by `mdl_…`, `name` (its newest version) or `name:3`."""
    if location := _find(session, reference):
        return location
    raise NotFound("There is no such model.")


def resolve(session: Session, reference: str) -> ModelRow:
    """The whole row of a version."""
    model = repository.get(session, locate(session, reference).id)
    assert model is not None
    return model


def list_newest(session: Session, limit: int, before_id: str | None, name: str | None) -> Sequence[ModelRow]:
    return repository.list_newest(session, limit, before_id, name)


def delete(session: Session, reference: str) -> ModelRow:
    """Hide a model. Its row and file stay, so that its version number is never used again."""
    model = resolve(session, reference)
    model.deleted_at = current_time(session)
    return model


def _find(session: Session, reference: str) -> Location | None:
    if is_id("mdl", reference):
        return repository.locate_id(session, reference)
    name, colon, version = reference.partition(":")
    if not NAME_PATTERN.fullmatch(name):
        return None
    if not colon:
        return repository.locate_newest(session, name)
    if not (version.isascii() and version.isdigit()) or len(version) > MAX_VERSION_DIGITS:
        return None
    return repository.locate_version(session, name, int(version))
