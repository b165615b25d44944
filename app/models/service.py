"""The registry of models: register, resolve a reference, list, delete, restore, purge.

A reference is `mdl_…`, `name` (newest version), `name:3`, or `name@alias` (the version of the alias).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from app.db.engine import current_time
from app.db.tables import ModelRow
from app.errors import Conflict, NotFound
from app.ids import is_id
from app.models import repository
from app.models.aliases import repository as aliases
from app.models.repository import Filters, Location
from app.names import NAME_PATTERN
from app.storage import BlobStore, ownership
from app.storage.ownership import Rewrites

MOST_LOOKS = 5
"""Maximum attempts to resolve an alias that another request moves at the same time. Larger: fewer spurious errors. Set
by hand; no measurement is recorded."""
MAX_VERSION_DIGITS = 15
"""Maximum digits of a version number in a reference. Numbers of 15 digits fit the column of either database."""


class Route(NamedTuple):
    """The versions that answer requests for a reference."""

    targets: tuple[tuple[Location, float], ...]
    """Versions with their shares of the requests, the largest first."""
    shadow: Location | None = None
    """Version that scores copies of the requests; None: none."""


def register(
    session: Session,
    blobs: BlobStore,
    model: ModelRow,
    blob_bytes: int,
    proof_bytes: int = 0,
    rewrites: Rewrites | None = None,
) -> None:
    """Insert a model as the next version of its name, and own its files (`ownership.own`)."""
    model.version = repository.next_version(session, model.name)
    repository.insert(session, model)
    sizes = {model.blob: blob_bytes}
    if model.proof is not None:
        sizes[model.proof] = proof_bytes
    ownership.own(session, blobs, model.id, sizes, rewrites)


def route(connection: Connection, reference: str) -> Route:
    """Find the versions that answer for a reference."""
    name, at, alias = reference.partition("@")
    found = _route_of_alias(connection, name, alias) if at else _route_of_version(connection, reference)
    if found is None:
        raise NotFound("There is no such model; `GET /v1/models` lists models.")
    return found


def locate(session: Session, reference: str) -> Location:
    """Find a version. For an alias with several versions, find the one with the largest share."""
    return route(session.connection(), reference).targets[0][0]


def resolve(session: Session, reference: str) -> ModelRow:
    """Return the whole row of a version."""
    model = repository.get(session, locate(session, reference).id)
    assert model is not None
    return model


def resolve_deleted(session: Session, reference: str) -> ModelRow:
    """Return a version by `mdl_…` or `name:3`, deleted or not. Other references find only versions that exist."""
    if is_id("mdl", reference):
        model = repository.get(session, reference, with_deleted=True)
    elif (version := _version_of(reference)) is not None:
        model = repository.get_version(session, *version)
    else:
        return resolve(session, reference)
    if model is None:
        raise NotFound("There is no such model; `GET /v1/models` lists models.")
    return model


def list_newest(session: Session, limit: int, before_id: str | None, filters: Filters) -> Sequence[ModelRow]:
    return repository.list_newest(session, limit, before_id, filters)


def figures(session: Session, models: Sequence[ModelRow]) -> dict[str, dict[str, Any]]:
    """Return the certified gap and the headline metric of each model, by id."""
    return repository.figures(session, [model.id for model in models])


def aliases_of(session: Session, model: ModelRow) -> list[str]:
    return aliases.using(session, model.name, model.version)


def delete(session: Session, reference: str) -> ModelRow:
    """Delete a model. Row and file are kept, so it can be restored; its version number is never reused."""
    model = _locked(session, resolve(session, reference))
    if model.deleted_at is not None:
        raise NotFound("There is no such model; `GET /v1/models` lists models.")
    _check_unused(session, model)
    model.deleted_at = current_time(session)
    return model


def restore(session: Session, reference: str) -> ModelRow:
    model = _locked(session, resolve_deleted(session, reference))
    if model.purged_at is not None:
        raise Conflict("The model was purged: its weights are deleted, and only its card is left.", code="model_purged")
    model.deleted_at = None
    return model


def purge(session: Session, reference: str) -> tuple[ModelRow, list[str]]:
    """Delete a model, if it is not deleted, and give up its files. Its row is kept for the lineage of others.

    Returns the blobs that it owned; the caller reclaims them after the commit.
    """
    model = _locked(session, resolve_deleted(session, reference))
    if model.deleted_at is None:
        _check_unused(session, model)
        model.deleted_at = current_time(session)
    if model.purged_at is None:
        model.purged_at = current_time(session)
    return model, ownership.disown(session, model.id)


def _locked(session: Session, model: ModelRow) -> ModelRow:
    """Return the model and lock it until this unit of work ends against deletion, restore and new aliases."""
    aliases.lock_name(session, model.name)
    session.refresh(model)
    return model


def _check_unused(session: Session, model: ModelRow) -> None:
    """Refuse to delete a version that an alias uses."""
    if used_by := aliases_of(session, model):
        detail = f"The alias {used_by[0]!r} of {model.name} uses version {model.version}; move it first."
        raise Conflict(detail, code="version_in_use")


def _route_of_alias(connection: Connection, name: str, alias: str) -> Route | None:
    if not (NAME_PATTERN.fullmatch(name) and NAME_PATTERN.fullmatch(alias)):
        return None
    for _ in range(MOST_LOOKS):
        row = aliases.setting(connection, name, alias)
        if row is None:
            return None
        versions = [one["version"] for one in row.targets]
        versions += [] if row.shadow is None else [row.shadow]
        found = repository.locate_versions(connection, name, versions)
        ordered = sorted(row.targets, key=lambda one: -one["weight"])
        targets = tuple((found[one["version"]], one["weight"]) for one in ordered if one["version"] in found)
        if targets:  # otherwise the alias was moved, and its old version deleted, between the two queries
            return Route(targets, None if row.shadow is None else found.get(row.shadow))
    return None


def _route_of_version(connection: Connection, reference: str) -> Route | None:
    if is_id("mdl", reference):
        found = repository.locate_id(connection, reference)
    elif (version := _version_of(reference)) is not None:
        found = repository.locate_version(connection, *version)
    elif NAME_PATTERN.fullmatch(reference):
        found = repository.locate_newest(connection, reference)
    else:
        found = None
    return None if found is None else Route(((found, 1.0),))


def _version_of(reference: str) -> tuple[str, int] | None:
    """Parse `name:3` to (name, 3); None: it has another form."""
    name, colon, version = reference.partition(":")
    is_number = version.isascii() and version.isdigit() and len(version) <= MAX_VERSION_DIGITS
    return (name, int(version)) if colon and is_number and NAME_PATTERN.fullmatch(name) else None
