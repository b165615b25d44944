"""`POST /v1/models/{ref}/predict`: the hot path. Small bodies are answered without leaving the event loop."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from app.deps import json_only
from app.errors import problems
from app.predictions import service
from app.predictions.answers import EVERY_OUTPUT
from app.predictions.routing import RoutingHeader, RoutingQuery
from app.predictions.served import ServedModels

router = APIRouter(prefix="/v1/models", tags=["predictions"], dependencies=[Depends(json_only)])

# A body of this size is parsed and scored in well under a millisecond; larger ones go to a thread.
INLINE_BYTES = 16 * 1024

ROW_SHAPES: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "number"}, "description": "all features in order"},
    {"type": "object", "additionalProperties": {"type": "number"}, "description": "all features by name"},
    {
        "type": "object",
        "required": ["indices", "values"],
        "properties": {
            "indices": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "values": {"type": "array", "items": {"type": "number"}},
        },
        "description": "the features that are not zero, counted from 0",
    },
]
OUTPUTS_TEXT = (
    "what to answer for each row; without it label and score. label: the class; ordinal: the rank; regression: the "
    "number. score: of the label in a multiclass model. rank: ordinal models, the same as label. scores: multiclass "
    "models, one a class. An ordinal model of real-valued relevance has a score only."
)
REQUEST_SCHEMA = {
    "type": "object",
    "required": ["instances"],
    "additionalProperties": False,
    "properties": {
        "instances": {"type": "array", "minItems": 1, "items": {"anyOf": ROW_SHAPES}},
        "return": {"type": "array", "items": {"enum": list(EVERY_OUTPUT)}, "description": OUTPUTS_TEXT},
    },
}
RESPONSE_SCHEMA = {
    "type": "object",
    "required": ["model", "name", "version", "predictions"],
    "properties": {
        "model": {"type": "string"},
        "name": {"type": "string"},
        "version": {"type": "integer"},
        "classes": {"type": "array", "description": "the order of `scores`, where those were asked for"},
        "predictions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "label": {"type": ["string", "number"]},
                    "rank": {"type": "number"},
                    "score": {"type": "number"},
                    "scores": {"type": "array", "items": {"type": "number"}},
                },
            },
        },
    },
}


@router.post(
    "/{ref}/predict",
    operation_id="predict",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": REQUEST_SCHEMA}}}},
    responses={
        200: {"description": "Predictions", "content": {"application/json": {"schema": RESPONSE_SCHEMA}}},
        **problems(400, 404, 413, 415),
    },
)
async def predict(
    ref: str, request: Request, routing_key: RoutingQuery = None, x_routing_key: RoutingHeader = None
) -> Response:
    """Label and score rows. `ref` is a model's id, its name (newest version), `name:version` or `name@alias`."""
    served: ServedModels = request.app.state.served_models
    body = await request.body()
    key = x_routing_key or routing_key
    model = served.recall(ref, key)
    if model is None:
        model = await run_in_threadpool(served.find, ref, key)
    if len(body) <= INLINE_BYTES:
        answer = service.predict(model, body)
    else:
        answer = await run_in_threadpool(service.predict, model, body)
    request.app.state.shadows.mirror(ref, model, partial(service.judge, body=body), len(body))
    return Response(answer, media_type="application/json")
