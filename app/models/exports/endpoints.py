"""`/v1/models/{ref}/export` and `/v1/models/import`: models that leave, and models that come from elsewhere."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.errors import NotFound, problems
from app.models import file, imports, service
from app.models.endpoints import show
from app.models.exports import Export, Subject, export, export_formats
from app.models.schemas import Model
from app.models.serving_hooks import Serving
from app.names import Name
from app.storage.free_space import require_free_space
from app.web.context import Context, InContext
from app.web.idempotency import InOnce
from app.web.thread_rooms import WRITES
from app.web.validation import one_of

router = APIRouter(prefix="/v1/models", tags=["models"])

MAX_AT_ONCE = 2
"""Conversions hold a model in memory several times over; more of them wait."""


class Conversions(asyncio.Semaphore):
    """Lets at most `MAX_AT_ONCE` conversions of this process run at a time."""

    def __init__(self) -> None:
        super().__init__(MAX_AT_ONCE)


FormatName = Annotated[str, one_of(export_formats())]
OutputName = Annotated[str, one_of(output for one in export_formats().values() for output in one.outputs)]
ImportFormat = Annotated[str, one_of(imports.READERS)]
OUTPUTS = "; ".join(f"{one.name}: {', '.join(one.outputs)}" for one in export_formats().values() if one.outputs)

BINARY = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/{ref}/export",
    operation_id="export_model",
    response_class=Response,
    responses={
        200: {
            "description": "The file",
            "content": {one.media_type: BINARY for one in export_formats().values()},
            "headers": {
                "X-Max-Score-Difference": {
                    "description": "largest difference of its scores from predict's on a probe set",
                    "schema": {"type": "string"},
                }
            },
        },
        **problems(404),
    },
)
async def export_model(
    ref: str,
    context: InContext,
    format: Annotated[FormatName, Query(description="what to write")],
    output: Annotated[OutputName | None, Query(description=f"where a format has a choice: {OUTPUTS}")] = None,
) -> Response:
    """The model in another format. What was written is compared with predict before it is sent."""
    async with context.part(Conversions):
        made = await run_in_threadpool(_export, context, ref, format, output)
    headers = {"Content-Disposition": f'attachment; filename="{made.file_name}"', **made.headers}
    return Response(made.content, media_type=made.media_type, headers=headers)


@router.post(
    "/import",
    operation_id="import_model",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(imports.MEDIA_TYPES, BINARY)}},
    responses=problems(400, 409, 413, 415, 507),
)
async def import_model(
    context: InContext,
    request: Request,
    response: Response,
    once: InOnce,
    name: Annotated[Name, Query(description="the model of which this becomes the next version")],
    format: Annotated[ImportFormat | None, Query(description="what the body is; default: by Content-Type")] = None,
) -> Model:
    """A model that was made elsewhere, or exported here. A certificate that it carries is marked as claimed."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    chosen = format or imports.format_of(media_type)
    body = await request.body()
    require_free_space(context.settings.data_dir, context.settings.free_space_bytes, len(body))
    async with context.part(Conversions):
        imported = await run_in_threadpool(imports.read_model, context.blobs, name, chosen, body)

    def register() -> Model:
        with once.write() as session:
            row = imported.register(session, context.blobs)
            response.headers["Location"] = f"/v1/models/{row.id}"
            return once.answer(show(session, row))

    model = await WRITES.run(register)
    context.part(Serving).forget_reference(name)  # its newest version is another one now
    return model


def _export(context: Context, ref: str, format_name: str, output: str | None) -> Export:
    with context.database.read() as session:
        found = service.resolve(session, ref)
    proof = None if found.proof is None else context.blobs.path(found.proof)
    try:
        stored = file.read(context.blobs.path(found.blob))
    except FileNotFoundError:
        raise NotFound("The model was purged a moment ago.") from None
    return export(Subject(found.id, found.name, found.version, stored, proof), format_name, output)
