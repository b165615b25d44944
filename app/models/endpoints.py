"""`/v1/models`: trained models with their certificates and weights."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy.orm import Session

from app.db.tables import ModelRow
from app.errors import NotFound, problems
from app.models import file, service
from app.models.metrics.summary import brief_metrics, brief_threshold, brief_warnings
from app.models.repository import Filters
from app.models.schemas import Model, ModelSummary, ModelView, StrongestWeights, Weights
from app.models.serving_hooks import Serving
from app.models.weights import all_weights, npy_weights, strongest_weights
from app.names import Name
from app.storage.ownership import reclaim
from app.web.context import InContext
from app.web.fields import ModelInPath, View
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
    name: Annotated[Name | None, Query(description="Only versions of the model with this name.")] = None,
    task: Annotated[file.Task | None, Query(description="Only models of this task.")] = None,
    created_after: CreatedAfter = None,
    deleted: Annotated[bool, Query(description="List deleted models instead of the others.")] = False,
) -> Listing[ModelSummary]:
    """List models, newest first. Filter by `name`, `task` and `created_after`."""
    filters = Filters(name, task, created_after, deleted)
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, filters)
        figures = service.figures(session, rows)

    def summarize(model: ModelRow) -> dict[str, Any]:
        return {**_columns(model), **figures[model.id]}

    return Listing[ModelSummary].model_validate(listing(request, response, page, rows, summarize))


@router.get("/{ref}", operation_id="get_model", response_model=Model | ModelView, responses=problems(404))
def get_model(
    ref: ModelInPath,
    context: InContext,
    deleted: Annotated[bool, Query(description="Also find a deleted model.")] = False,
    view: View = "full",
) -> Model | ModelView:
    """Get a model. `name@alias` means the version with the largest share of the requests."""
    with context.database.read() as session:
        model = service.resolve_deleted(session, ref) if deleted else service.resolve(session, ref)
        shown = show(session, model)
    return shown if view == "full" else _brief(shown)


@router.get(
    "/{ref}/weights",
    operation_id="get_model_weights",
    response_model=Weights | StrongestWeights,
    responses={**problems(404), 200: {"content": {NPY_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
)
def get_model_weights(
    ref: ModelInPath,
    context: InContext,
    top: Annotated[
        int | None, Query(ge=1, le=10_000, description="Return only the strongest weights of each class, by name.")
    ] = None,
    format: Annotated[
        Literal["json", "npy"] | None,
        Query(description="Response format. Default: npy if Accept is application/octet-stream, else json."),
    ] = None,
    accept: Annotated[str, Header(description="`application/octet-stream` for npy.")] = "",
) -> Any:
    """Get the weights in full precision, in the units of the uploaded columns.

    With `top`, get the strongest weights with the names of their columns, categories and words.
    """
    with context.database.read() as session:
        model = service.locate(session, ref)
    try:
        stored = file.read(context.blobs.path(model.blob))
    except FileNotFoundError:
        raise NotFound("The model has just been purged; its weights are deleted.") from None
    if format == "npy" or (format is None and accept.partition(";")[0].strip() == NPY_TYPE):
        return Response(npy_weights(stored), media_type=NPY_TYPE)
    return all_weights(model.id, stored) if top is None else strongest_weights(model.id, stored, top)


@router.delete("/{ref}", status_code=204, operation_id="delete_model", responses=problems(404, 409, 507))
def delete_model(
    ref: ModelInPath,
    context: InContext,
    purge: Annotated[
        bool, Query(description="Delete the weights for good. Also works on a model that is deleted already.")
    ] = False,
) -> None:
    """Delete a model version. It no longer predicts, and its version number is not reused.

    `POST …/restore` undoes it unless `purge` was set. 409 while an alias points to it.
    """
    freed: list[str] = []
    with context.database.write() as session:
        if purge:
            model, freed = service.purge(session, ref)
        else:
            model = service.delete(session, ref)
    context.part(Serving).forget(model.id)
    if freed:
        reclaim(context.database, context.blobs, freed)


@router.post("/{ref}/restore", operation_id="restore_model", responses=problems(404, 409, 507))
def restore_model(ref: ModelInPath, context: InContext, once: InOnce) -> Model:
    """Undo the deletion of a model, by id or `name:version`. A purged model cannot be restored."""
    with once.write() as session:
        restored = once.answer(show(session, service.restore(session, ref)))
    context.part(Serving).forget_reference(restored.name)  # the newest version may have changed
    return restored


def show(session: Session, model: ModelRow) -> Model:
    card = model.card
    lineage = {"parent": None, **card["lineage"], "params": card["params"]}
    aliases = service.aliases_of(session, model)
    figures = service.figures(session, [model])[model.id]
    return Model.model_validate({**_columns(model), **figures, **card, "lineage": lineage, "aliases": aliases})


def _brief(model: Model) -> ModelView:
    shown = {name: getattr(model, name) for name in ModelView.model_fields}
    params = {name: model.params[name] for name in ("loss", "C", "positive_class") if name in model.params}
    return ModelView.model_validate(
        {
            **shown,
            "params": params,
            "metrics": brief_metrics(model.metrics, None if model.headline is None else model.headline.name),
            "threshold": brief_threshold(model.threshold),
            "warnings": brief_warnings(model.warnings),
        },
        from_attributes=True,
    )


def _columns(model: ModelRow) -> dict[str, Any]:
    return {name: getattr(model, name) for name in ModelSummary.model_fields if hasattr(ModelRow, name)}
