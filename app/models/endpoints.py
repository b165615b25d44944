"""`/v1/models`: trained models with their certificates and weights."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.db.tables import ModelRow
from app.deps import InContext, InPage, Listing, listing
from app.errors import problems
from app.models import file, service
from app.models.schemas import Model, ModelSummary, Weights
from app.names import Name

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.get("", operation_id="list_models", responses=problems())
def list_models(
    context: InContext, page: InPage, request: Request, response: Response, name: Name | None = None
) -> Listing[ModelSummary]:
    """Models, newest first. Filter by `name`."""
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, name)
    return Listing[ModelSummary].model_validate(listing(request, response, page, rows, _summarize))


@router.get("/{ref}", operation_id="get_model", responses=problems(404))
def get_model(ref: str, context: InContext) -> Model:
    """One model by id, `name` (newest version) or `name:version`."""
    with context.database.read() as session:
        model = service.resolve(session, ref)
        return Model.model_validate({**_summarize(model), **model.card})


@router.get("/{ref}/weights", operation_id="get_model_weights", responses=problems(404))
def get_model_weights(ref: str, context: InContext) -> Weights:
    """The hyperplanes themselves, in full precision: enough to recompute the certificate's primal."""
    with context.database.read() as session:
        model = service.locate(session, ref)
    stored = file.read(context.blobs.path(model.blob))
    return Weights(
        model=model.id,
        task=stored.header.task,
        coef=stored.coef.tolist(),
        intercept=stored.intercept if isinstance(stored.intercept, float) else stored.intercept.tolist(),
        thresholds=None if stored.thresholds is None else stored.thresholds.tolist(),
        classes=stored.header.classes,
        feature_names=stored.header.feature_names,
    )


@router.delete("/{ref}", status_code=204, operation_id="delete_model", responses=problems(404))
def delete_model(ref: str, context: InContext, request: Request) -> None:
    """Hide a model: it no longer answers, and its version number is not used again."""
    with context.database.write() as session:
        model = service.delete(session, ref)
    request.app.state.served_models.forget(model.id)


def _summarize(model: ModelRow) -> dict[str, Any]:
    return {name: getattr(model, name) for name in ModelSummary.model_fields}
