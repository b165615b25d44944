"""Set, delete and roll back aliases, each under the lock of the model's name and a precondition.

The revision number is the ETag. It is never reused, even after the alias was deleted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from app.db.tables import AliasChangeRow, AliasRow
from app.errors import Conflict, NotFound, PreconditionFailed, invalid_field
from app.ids import looks_like_id
from app.models import repository as models
from app.models.aliases import repository
from app.models.aliases.schemas import AliasRequest
from app.names import NAME_PATTERN

MOST_ALIASES = 1000
"""Maximum aliases of a model. Larger: longer checks before a version is deleted. Set by hand; no measurement is
recorded."""


class Precondition(NamedTuple):
    """The precondition of a change, from If-Match and If-None-Match; None: no condition."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, current: AliasRow | None) -> None:
        if self.if_none_match is not None:
            if self.if_none_match.strip() != "*":
                raise invalid_field("If-None-Match", "invalid_precondition", "must be *")
            if current is not None:
                raise PreconditionFailed(f"The alias already exists, at revision {current.revision}.")
        if self.if_match is None:
            return
        if current is None:
            raise PreconditionFailed("The alias does not exist; use If-None-Match: * to create it.")
        wanted = [tag.strip() for tag in self.if_match.split(",")]
        if "*" not in wanted and etag(current) not in wanted:
            raise PreconditionFailed(f"The alias has revision {current.revision} now; read it again.")


def etag(alias: AliasRow) -> str:
    return f'"{alias.revision}"'


def get(session: Session, name: str, alias: str) -> AliasRow:
    row = repository.get(session, name, alias) if _is_name(name) and _is_name(alias) else None
    if row is None:
        raise NotFound("There is no such alias; `GET /v1/models/{name}/aliases` lists them.")
    return row


def list_of(session: Session, name: str, limit: int, after: str | None) -> Sequence[AliasRow]:
    if not _is_name(name) or not models.name_exists(session, name):
        raise NotFound("There is no such model; `GET /v1/models` lists models.")
    return repository.of_name(session, name, limit, after)


def put(session: Session, name: str, alias: str, wanted: AliasRequest, when: Precondition) -> tuple[AliasRow, bool]:
    """Set an alias; return it, and whether it is new.

    Setting the current value again is not a change: a repeated request must not hide the value to roll back to.
    """
    if not _is_name(alias):
        raise invalid_field(
            "alias", "invalid_name", "must be 1 to 128 letters, digits, '.', '_' or '-', and must not look like an id"
        )
    current = _locked(session, name, alias)
    when.check(current)
    if current is None and len(repository.of_name(session, name, MOST_ALIASES)) == MOST_ALIASES:
        raise Conflict(f"The model has {MOST_ALIASES} aliases, the limit; delete one first.", code="too_many_aliases")
    total = sum(one.weight for one in wanted.resolved_targets)
    targets = [{"version": one.version, "weight": one.weight / total} for one in wanted.resolved_targets]
    field = "version" if wanted.targets is None else "targets"
    for one, place in [*((one["version"], field) for one in targets), (wanted.shadow, "shadow")]:
        if one is not None and models.locate_version(session.connection(), name, int(one)) is None:
            raise invalid_field(
                place, "unknown_version", f"the model has no version {one}; `GET /v1/models?name=` lists the versions"
            )
    if current is not None and (current.targets, current.shadow) == (targets, wanted.shadow):
        return current, False
    return _write(session, name, alias, targets, wanted.shadow), current is None


def delete(session: Session, name: str, alias: str, when: Precondition) -> None:
    current = _locked(session, name, alias)
    when.check(current)
    if current is None:
        raise NotFound("There is no such alias; `GET /v1/models/{name}/aliases` lists them.")
    _write_change(session, name, alias, None, None)


def roll_back(session: Session, name: str, alias: str, revision: int | None, when: Precondition) -> AliasRow:
    """Set the alias to an earlier value, as a new revision. A deleted alias is restored."""
    when.check(_locked(session, name, alias))
    newest = repository.last_change(session, name, alias)
    if newest is None:
        raise NotFound("There is no such alias; `GET /v1/models/{name}/aliases` lists them.")
    if revision is None:
        past = repository.last_change(session, name, alias, before=newest.revision, is_set=True)
        if past is None:
            raise Conflict("The alias has no earlier value to return to.", code="nothing_to_roll_back_to")
    else:
        past = repository.change_at(session, name, alias, revision)
        if past is None or past.targets is None:
            raise invalid_field(
                "revision", "unknown_revision", "the alias has no such revision; `GET …/history` lists them"
            )
    assert past.targets is not None
    for version in (*(one["version"] for one in past.targets), past.shadow):
        if version is not None and models.locate_version(session.connection(), name, version) is None:
            detail = f"Revision {past.revision} uses version {version}, which is deleted; restore it first."
            raise Conflict(detail, code="version_deleted")
    return _write(session, name, alias, past.targets, past.shadow)


def history(session: Session, name: str, alias: str, limit: int, before: int | None) -> Sequence[AliasChangeRow]:
    """List the changes, newest first. A deleted alias still has a history."""
    is_known = _is_name(name) and _is_name(alias) and repository.last_change(session, name, alias) is not None
    if not is_known:
        raise NotFound("There is no such alias; `GET /v1/models/{name}/aliases` lists them.")
    return repository.changes(session, name, alias, limit, before)


def _write(session: Session, name: str, alias: str, targets: list[Any], shadow: int | None) -> AliasRow:
    _write_change(session, name, alias, targets, shadow)
    return get(session, name, alias)


def _write_change(session: Session, name: str, alias: str, targets: list[Any] | None, shadow: int | None) -> None:
    newest = repository.last_change(session, name, alias)
    revision = 1 if newest is None else newest.revision + 1
    repository.write(session, name, alias, revision, targets, shadow)


def _locked(session: Session, name: str, alias: str) -> AliasRow | None:
    if not _is_name(name) or not repository.lock_name(session, name):
        raise NotFound("There is no such model; `GET /v1/models` lists models.")
    return repository.get(session, name, alias) if _is_name(alias) else None


def _is_name(text: str) -> bool:
    return NAME_PATTERN.fullmatch(text) is not None and not looks_like_id(text)
