"""`/v1/models/{ref}/export` and `/v1/models/import`: models in the formats of other programs."""

import asyncio
from typing import Annotated, Any

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
from app.web.fields import ModelInPath
from app.web.idempotency import InOnce
from app.web.thread_rooms import WRITES
from app.web.validation import one_of

router = APIRouter(prefix="/v1/models", tags=["models"])

MAX_AT_ONCE = 2
"""Maximum conversions that run at a time in an API process; others wait. Each holds several copies of its model in
memory, so a larger value raises the peak memory. Set by hand; no measurement is recorded."""


class Conversions(asyncio.Semaphore):
    """Limits the conversions that run at a time in this process to `MAX_AT_ONCE`."""

    def __init__(self) -> None:
        super().__init__(MAX_AT_ONCE)


FormatName = Annotated[str, one_of(export_formats())]
OutputName = Annotated[str, one_of(output for one in export_formats().values() for output in one.outputs)]
ImportFormat = Annotated[str, one_of(imports.READERS)]
OUTPUTS = "; ".join(f"{one.name}: {', '.join(one.outputs)}" for one in export_formats().values() if one.outputs)

BINARY = {"schema": {"type": "string", "format": "binary"}}


def _schema_of(media_type: str) -> dict[str, Any]:
    return {"schema": {"type": "object", "additionalProperties": True}} if media_type == "application/json" else BINARY


IMPORT_CONTENT = {media_type: _schema_of(media_type) for media_type in imports.MEDIA_TYPES}


@router.get(
    "/{ref}/export",
    operation_id="export_model",
    response_class=Response,
    responses={
        200: {
            "description": "The file",
            "content": {one.media_type: _schema_of(one.media_type) for one in export_formats().values()},
            "headers": {
                "X-Max-Score-Difference": {
                    "description": "Largest difference between scores of the file and of predict, on test rows.",
                    "schema": {"type": "string"},
                },
                "X-Threshold": {
                    "description": "Tuned decision threshold of a binary model, and whether the format has no place "
                    "for it, so that it is subtracted from the intercept. Absent: the threshold is 0.",
                    "schema": {"type": "string"},
                },
                "X-Left-Out": {
                    "description": "Parts of the model that the format cannot hold: `sets`. Absent: none.",
                    "schema": {"type": "string"},
                },
            },
        },
        **problems(404),
    },
)
async def export_model(
    ref: ModelInPath,
    context: InContext,
    format: Annotated[FormatName, Query(description="Format of the file.")],
    output: Annotated[
        OutputName | None, Query(description=f"What the file computes, for formats with a choice. {OUTPUTS}.")
    ] = None,
) -> Response:
    """Export a model to another format. The scores of the file are compared with those of predict before it is sent."""
    async with context.part(Conversions):
        made = await run_in_threadpool(_export, context, ref, format, output)
    headers = {"Content-Disposition": f'attachment; filename="{made.file_name}"', **made.headers}
    return Response(made.content, media_type=made.media_type, headers=headers)


@router.post(
    "/import",
    operation_id="import_model",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": IMPORT_CONTENT}},
    responses=problems(400, 409, 413, 415, 507),
)
async def import_model(
    context: InContext,
    request: Request,
    response: Response,
    once: InOnce,
    name: Annotated[Name, Query(description="Name of the model. The import becomes its next version.")],
    format: Annotated[
        ImportFormat | None, Query(description="Format of the body. Default: determined by Content-Type.")
    ] = None,
) -> Model:
    """Import a model that was trained elsewhere or exported here.

    Its certificate is marked as `claimed`: the service has not recomputed it.
    """
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
    context.part(Serving).forget_reference(name)  # the newest version has changed
    return model


def _export(context: Context, ref: str, format_name: str, output: str | None) -> Export:
    with context.database.read() as session:
        found = service.resolve(session, ref)
    proof = None if found.proof is None else context.blobs.path(found.proof)
    try:
        stored = file.read(context.blobs.path(found.blob))
    except FileNotFoundError:
        raise NotFound("The model has just been purged; its weights are deleted.") from None
    return export(Subject(found.id, found.name, found.version, stored, proof), format_name, output)
