"""`POST /v1/models/{ref}/predict`, `…/invocations` and `…/explain`."""

from functools import partial

from fastapi import APIRouter, Request, Response

from app.errors import problems
from app.predictions import mlflow_invocations, schemas, service
from app.predictions.explain import explain_with
from app.predictions.model_request import ModelRequest
from app.predictions.request_bodies import known_type, rows_in
from app.predictions.response_formats import negotiated
from app.web.fast_route import DirectRoute
from app.web.fields import ModelInPath

router = APIRouter(prefix="/v1/models", tags=["predictions"], route_class=DirectRoute)


@router.post(
    "/{ref}/predict",
    operation_id="predict",
    response_class=Response,
    openapi_extra={
        "parameters": schemas.PREDICT_PARAMETERS,
        "requestBody": schemas.request_body("PredictionRequest"),
    },
    responses={200: schemas.reply("Predictions", "PredictionResponse"), **problems(400, 404, 406, 413, 415)},
)
async def predict(ref: ModelInPath, request: Request) -> Response:
    """Predict labels and scores of rows."""
    asked = ModelRequest(request)
    content_type, accept, index_base = asked.content_type, asked.accept, asked.index_base
    known_type(content_type)  # refuse an unknown format before the body is received
    negotiated(accept)
    body = await asked.body()
    respond = partial(
        service.predict_with,
        body=body,
        content_type=content_type,
        accept=accept,
        wanted=asked.wanted,
        coverage=asked.coverage,
        index_base=index_base,
    )
    return await asked.answer(ref, body, respond, partial(rows_in, body, content_type, index_base=index_base))


@router.post(
    "/{ref}/invocations",
    operation_id="invoke_model",
    response_class=Response,
    openapi_extra={
        "parameters": schemas.ROUTING_PARAMETERS,
        "requestBody": schemas.request_body("InvocationsRequest"),
    },
    responses={200: schemas.json_reply("Predictions", "InvocationsResponse"), **problems(400, 404, 413, 415)},
)
async def invoke_model(ref: ModelInPath, request: Request) -> Response:
    """Predict with the protocol of MLflow's scoring server: its four JSON forms or CSV in, one label per row out."""
    asked = ModelRequest(request)
    content_type = asked.content_type
    known_type(content_type)
    body = await asked.body()
    respond = partial(mlflow_invocations.invoke_with, body=body, content_type=content_type)
    return await asked.answer(ref, body, respond, partial(mlflow_invocations.rows_in, body, content_type))


@router.post(
    "/{ref}/explain",
    operation_id="explain_predictions",
    response_class=Response,
    openapi_extra={
        "parameters": schemas.EXPLAIN_PARAMETERS,
        "requestBody": schemas.request_body("PredictionRequest"),
    },
    responses={200: schemas.json_reply("Explanations", "ExplainResponse"), **problems(400, 404, 413, 415)},
)
async def explain_predictions(ref: ModelInPath, request: Request) -> Response:
    """Explain the score of each row: its strongest features by name, and the sum of all others. Rows as in predict."""
    asked = ModelRequest(request)
    content_type, top, index_base = asked.content_type, asked.top, asked.index_base
    known_type(content_type)
    body = await asked.body()
    respond = partial(explain_with, body=body, content_type=content_type, top=top, index_base=index_base)
    return await asked.answer(ref, body, respond, partial(rows_in, body, content_type, index_base=index_base))
