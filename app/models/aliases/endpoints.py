"""`/v1/models/{name}/aliases`: names for versions of a model, with weights, history and rollback."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response

from app.db.tables import AliasRow
from app.errors import invalid_field, problems
from app.models.aliases import service
from app.models.aliases.schemas import Alias, AliasChange, AliasRequest, RollbackRequest, shown
from app.models.aliases.service import Precondition
from app.models.serving_hooks import Serving
from app.web.context import InContext, context_of
from app.web.fields import AliasName, ModelNameInPath
from app.web.idempotency import InOnce
from app.web.pagination import INVALID_CURSOR, InPage, Listing, listing
from app.web.thread_rooms import RoomRoute
from app.web.validation import json_only

router = APIRouter(
    prefix="/v1/models/{name}/aliases", tags=["aliases"], dependencies=[Depends(json_only)], route_class=RoomRoute
)

IfMatch = Annotated[
    str | None, Header(description="ETag that the alias must have, or `*`: it must exist. Otherwise the answer is 412.")
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        description="`*`: the alias must not exist yet. Otherwise the answer is 412.",
        json_schema_extra={"enum": ["*"]},
    ),
]


@dataclass(frozen=True)
class _Entry:
    """A row of a list with an id that can be a cursor."""

    id: str
    row: Any


@router.get("", operation_id="list_aliases", responses=problems(404))
def list_aliases(
    name: ModelNameInPath, context: InContext, page: InPage, request: Request, response: Response
) -> Listing[Alias]:
    """List the aliases of a model, sorted by name."""
    with context.database.read() as session:
        rows = service.list_of(session, name, page.limit + 1, _text(page.cursor_id))
    entries = [_Entry(row.alias.encode().hex(), row) for row in rows]
    return Listing[Alias].model_validate(listing(request, response, page, entries, lambda entry: shown(entry.row)))


@router.put(
    "/{alias}",
    operation_id="put_alias",
    responses={201: {"description": "Created"}, **problems(400, 404, 409, 412, 413, 415, 507)},
)
def put_alias(
    name: ModelNameInPath,
    alias: AliasName,
    body: AliasRequest,
    context: InContext,
    request: Request,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Alias:
    """Create or change an alias: all requests to one version, or shared by weight.

    Without a precondition the last write wins.
    """
    with context.database.write() as session:
        row, is_new = service.put(session, name, alias, body, Precondition(if_match, if_none_match))
    if is_new:
        response.status_code = 201
    return _answer(request, response, row)


@router.get("/{alias}", operation_id="get_alias", responses=problems(404))
def get_alias(
    name: ModelNameInPath, alias: AliasName, context: InContext, request: Request, response: Response
) -> Alias:
    """Get an alias. Its ETag can be used in `If-Match`."""
    with context.database.read() as session:
        row = service.get(session, name, alias)
    return _answer(request, response, row)


@router.delete("/{alias}", status_code=204, operation_id="delete_alias", responses=problems(404, 412, 507))
def delete_alias(
    name: ModelNameInPath, alias: AliasName, context: InContext, request: Request, if_match: IfMatch = None
) -> None:
    """Delete an alias. Its history is kept, and a rollback restores it."""
    with context.database.write() as session:
        service.delete(session, name, alias, Precondition(if_match))
    context.part(Serving).forget_reference(f"{name}@{alias}")


@router.get("/{alias}/history", operation_id="list_alias_history", responses=problems(404))
def list_alias_history(
    name: ModelNameInPath, alias: AliasName, context: InContext, page: InPage, request: Request, response: Response
) -> Listing[AliasChange]:
    """List the revisions of an alias, newest first."""
    with context.database.read() as session:
        rows = service.history(session, name, alias, page.limit + 1, _number(page.cursor_id))
    entries = [_Entry(str(row.revision), row) for row in rows]
    return Listing[AliasChange].model_validate(listing(request, response, page, entries, _show_change))


@router.post("/{alias}/rollback", operation_id="roll_back_alias", responses=problems(400, 404, 409, 412, 413, 415, 507))
def roll_back_alias(
    name: ModelNameInPath,
    alias: AliasName,
    once: InOnce,
    request: Request,
    response: Response,
    body: RollbackRequest | None = None,
    if_match: IfMatch = None,
) -> Alias:
    """Return an alias to its previous revision, or to a given one. This creates a new revision."""
    wanted = None if body is None else body.revision
    with once.write() as session:
        row = service.roll_back(session, name, alias, wanted, Precondition(if_match))
        once.answer(_answer(request, response, row))
    return _answer(request, response, row)  # called again after the commit, to drop the cached value


def _answer(request: Request, response: Response, row: AliasRow) -> Alias:
    """Build the response; after a change, drop the cached value of the alias in this process."""
    reference, serving = f"{row.name}@{row.alias}", context_of(request).part(Serving)
    if request.method != "GET":
        serving.forget_reference(reference)
    response.headers["ETag"] = service.etag(row)
    stats = serving.shadow_stats(reference, row.shadow)
    return Alias.model_validate({**shown(row), "shadow_stats": stats})


def _show_change(entry: _Entry) -> dict[str, Any]:
    return {name: getattr(entry.row, name) for name in AliasChange.model_fields}


def _text(cursor_id: str | None) -> str | None:
    try:
        return None if cursor_id is None else bytes.fromhex(cursor_id).decode("ascii")
    except ValueError:
        raise _bad_cursor() from None


def _number(cursor_id: str | None) -> int | None:
    if cursor_id is None or (cursor_id.isdecimal() and len(cursor_id) <= 15):
        return None if cursor_id is None else int(cursor_id)
    raise _bad_cursor()


def _bad_cursor() -> Exception:
    return invalid_field("cursor", "invalid_cursor", INVALID_CURSOR)
