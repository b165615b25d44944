"""`/v1/models`: trained models with their certificates and weights."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy.orm import Session

from app.db.tables import ModelRow
from app.errors import NotFound, problems
from app.models import file, service
from app.models.repository import Filters
from app.models.schemas import Model, ModelSummary, StrongestWeights, Weights
from app.models.serving_hooks import Serving
from app.models.weights import all_weights, npy_weights, strongest_weights
from app.names import Name
from app.storage.ownership import reclaim
from app.web.context import InContext
from app.web.idempotency import InOnce
from app.web.pagination import InPage, Listing, listing
from app.web.thread_rooms import RoomRoute
from app.web.validation import CreatedAfter

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=RoomRoute)

NPY_TYPE = "application/octet-stream"


@router.get("", operation_id="list_models", responses=problems())
def list_models(
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    name: Name | None = None,
    task: file.Task | None = None,
    created_after: CreatedAfter = None,
    deleted: Annotated[bool, Query(description="those that were deleted instead")] = False,
) -> Listing[ModelSummary]:
    """Models, newest first. Filter by `name`, `task` and `created_after`."""
    filters = Filters(name, task, created_after, deleted)
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, filters)
    return Listing[ModelSummary].model_validate(listing(request, response, page, rows, _summarize))


@router.get("/{ref}", operation_id="get_model", responses=problems(404))
def get_model(
    ref: str, context: InContext, deleted: Annotated[bool, Query(description="also if it is deleted")] = False
) -> Model:
    """One model by id, `name` (newest version), `name:version` or `name@alias` (the version with most requests)."""
    with context.database.read() as session:
        model = service.resolve_deleted(session, ref) if deleted else service.resolve(session, ref)
        return show(session, model)


@router.get(
    "/{ref}/weights",
    operation_id="get_model_weights",
    response_model=Weights | StrongestWeights,
    responses={**problems(404), 200: {"content": {NPY_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
)
def get_model_weights(
    ref: str,
    context: InContext,
    top: Annotated[int | None, Query(ge=1, le=10_000, description="the strongest of each class, by name")] = None,
    format: Annotated[
        Literal["json", "npy"] | None, Query(description="default: npy if Accept says application/octet-stream")
    ] = None,
    accept: Annotated[str, Header()] = "",
) -> Any:
    """The hyperplanes in full precision and raw units; with `top` the strongest weights in the user's own words."""
    with context.database.read() as session:
        model = service.locate(session, ref)
    try:
        stored = file.read(context.blobs.path(model.blob))
    except FileNotFoundError:
        raise NotFound("The model was purged a moment ago.") from None
    if format == "npy" or (format is None and accept.partition(";")[0].strip() == NPY_TYPE):
        return Response(npy_weights(stored), media_type=NPY_TYPE)
    return all_weights(model.id, stored) if top is None else strongest_weights(model.id, stored, top)


@router.delete("/{ref}", status_code=204, operation_id="delete_model", responses=problems(404, 409))
def delete_model(
    ref: str,
    context: InContext,
    purge: Annotated[bool, Query(description="free its bytes too, also of a model that was deleted before")] = False,
) -> None:
    """Hide a model: it no longer answers, and its version number is not used again. 409 while an alias uses it."""
    freed: list[str] = []
    with context.database.write() as session:
        if purge:
            model, freed = service.purge(session, ref)
        else:
            model = service.delete(session, ref)
    context.part(Serving).forget(model.id)
    if freed:
        reclaim(context.database, context.blobs, freed)


@router.post("/{ref}/restore", operation_id="restore_model", responses=problems(404, 409))
def restore_model(ref: str, context: InContext, once: InOnce) -> Model:
    """Take a deletion back, by id or `name:version`; not once the model was purged."""
    with once.write() as session:
        restored = once.answer(show(session, service.restore(session, ref)))
    context.part(Serving).forget_reference(restored.name)  # its newest version may be another one now
    return restored


def show(session: Session, model: ModelRow) -> Model:
    card = model.card
    lineage = {"parent": None, **card["lineage"], "params": card["params"]}
    aliases = service.aliases_of(session, model)
    return Model.model_validate({**_summarize(model), **card, "lineage": lineage, "aliases": aliases})


def _summarize(model: ModelRow) -> dict[str, Any]:
    return {name: getattr(model, name) for name in ModelSummary.model_fields}
