"""`POST /v1/models/{ref}/predict`: the hot path. Small bodies are answered without leaving the event loop."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.errors import problems
from app.predictions import schemas, service
from app.predictions.bodies import known_type, rows_in
from app.predictions.edge import InEdge
from app.predictions.replies import negotiated

router = APIRouter(prefix="/v1/models", tags=["predictions"])

Wanted = Annotated[str | None, Query(alias="return", description="as `return` of a JSON body, separated by commas")]
IndexBase = Annotated[int, Query(ge=0, le=1, description="libsvm rows: what the first feature is counted as")]


@router.post(
    "/{ref}/predict",
    operation_id="predict",
    response_class=Response,
    openapi_extra={"requestBody": schemas.request_body(schemas.REQUEST_SCHEMA)},
    responses={200: schemas.reply("Predictions", schemas.RESPONSE_SCHEMA), **problems(400, 404, 406, 413, 415)},
)
async def predict(ref: str, edge: InEdge, wanted: Wanted = None, index_base: IndexBase = 1) -> Response:
    """Label and score rows. `ref` is a model's id, its name (newest version), `name:version` or `name@alias`."""
    content_type, accept = edge.content_type, edge.accept
    known_type(content_type)  # what cannot be read or answered is refused before it is received
    negotiated(accept)
    body = await edge.body()
    respond = partial(
        service.predict_with,
        body=body,
        content_type=content_type,
        accept=accept,
        wanted=wanted,
        index_base=index_base,
    )
    return await edge.answer(ref, body, respond, partial(rows_in, body, content_type, index_base=index_base))
