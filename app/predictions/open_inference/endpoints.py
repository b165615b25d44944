"""`/v2`: the Open Inference Protocol, which tritonclient and other clients use."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from app import __version__
from app.errors import UnsupportedMediaType, problems
from app.health.endpoints import readiness
from app.models import service as models
from app.models.repository import Filters
from app.predictions.model_request import ModelRequest
from app.predictions.open_inference import schemas, service
from app.predictions.request_bodies import split_type
from app.predictions.schemas import ROUTING_PARAMETERS
from app.web.context import Context, InContext
from app.web.fast_route import DirectRoute
from app.web.fields import ModelInPath, ModelNameInPath, VersionInPath
from app.web.thread_rooms import HEALTH

router = APIRouter(prefix="/v2", tags=["open inference protocol"])
hot_router = APIRouter(prefix="/v2", tags=["open inference protocol"], route_class=DirectRoute)

# Some clients of the protocol send no Content-Type, so an empty one is accepted.
MEDIA_TYPES = ("application/json", "application/octet-stream", "application/vnd.sagemaker-triton.binary+json", "")
MAX_VERSIONS = 200
"""Maximum versions that the metadata of a model lists, the newest ones. Larger: longer responses."""

infer_route: dict[str, Any] = {
    "response_class": Response,
    "openapi_extra": {"parameters": [*ROUTING_PARAMETERS, schemas.HEADER_LENGTH], "requestBody": schemas.REQUEST_BODY},
    "responses": {200: schemas.RESPONSE, **problems(400, 404, 413, 415)},
}


@hot_router.post("/models/{name}/infer", operation_id="v2_infer", **infer_route)
async def infer(name: ModelInPath, request: Request) -> Response:
    """Predict: input `X` [rows, features], or one input for each column; outputs `label`, `score` and others."""
    return await _infer(name, request)


@hot_router.post("/models/{name}/versions/{version}/infer", operation_id="v2_infer_version", **infer_route)
async def infer_version(name: ModelNameInPath, version: VersionInPath, request: Request) -> Response:
    """Predict with one version of a model; see `POST /v2/models/{name}/infer`."""
    return await _infer(f"{name}:{version}", request)


@router.get("/health/live", operation_id="v2_live")
async def live() -> schemas.Live:
    """Check that the process responds."""
    return schemas.Live()


@router.get(
    "/health/ready",
    operation_id="v2_ready",
    responses={503: {"model": schemas.Ready, "description": "Not ready: `/readyz` shows what is missing."}},
)
async def ready(response: Response, context: InContext) -> schemas.Ready:
    """Check that requests can be served, as `/readyz` does."""
    is_ready = (await HEALTH.run(readiness, context)).status == "ready"
    response.status_code = 200 if is_ready else 503
    return schemas.Ready(ready=is_ready)


@router.get("", operation_id="v2_server", responses=problems())
async def server() -> schemas.Server:
    """Get name, version and supported protocol extensions of the server."""
    return schemas.Server(name="hyperplane", version=__version__, extensions=["binary_tensor_data"])


@router.get("/models/{name}", operation_id="v2_model", responses=problems(404))
async def model(name: ModelInPath, request: Request, context: InContext) -> schemas.ModelMetadata:
    """Get the names, datatypes and shapes of the inputs and outputs of a model."""
    return await _metadata(name, ModelRequest(request), context)


@router.get("/models/{name}/versions/{version}", operation_id="v2_model_version", responses=problems(404))
async def model_version(
    name: ModelNameInPath, version: VersionInPath, request: Request, context: InContext
) -> schemas.ModelMetadata:
    """Get the names, datatypes and shapes of the inputs and outputs of one version of a model."""
    return await _metadata(f"{name}:{version}", ModelRequest(request), context)


@router.get("/models/{name}/ready", operation_id="v2_model_ready", responses=problems(404))
async def model_ready(name: ModelInPath, request: Request) -> schemas.ModelReady:
    """Check that a model can be served: 404 if there is no such model."""
    return schemas.ModelReady(name=(await ModelRequest(request).model(name)).name)


@router.get("/models/{name}/versions/{version}/ready", operation_id="v2_model_version_ready", responses=problems(404))
async def model_version_ready(name: ModelNameInPath, version: VersionInPath, request: Request) -> schemas.ModelReady:
    """Check that one version of a model can be served: 404 if there is no such version."""
    return schemas.ModelReady(name=(await ModelRequest(request).model(f"{name}:{version}")).name)


async def _infer(reference: str, request: Request) -> Response:
    asked = ModelRequest(request)
    header_length = asked.header_length
    if split_type(asked.content_type or "")[0] not in MEDIA_TYPES:
        raise UnsupportedMediaType("Send tensors as application/json or application/octet-stream.")
    body = await asked.body()
    respond = partial(service.infer_with, body=body, header_length=header_length)
    return await asked.answer(reference, body, respond, partial(service.rows_in, body, header_length))


async def _metadata(reference: str, asked: ModelRequest, context: Context) -> schemas.ModelMetadata:
    found = await asked.model(reference)

    def versions() -> list[str]:
        with context.database.read() as session:
            rows = models.list_newest(session, MAX_VERSIONS, None, Filters(found.name))
            return sorted((str(row.version) for row in rows), key=int)

    return schemas.ModelMetadata.model_validate(service.metadata(found, await run_in_threadpool(versions)))
