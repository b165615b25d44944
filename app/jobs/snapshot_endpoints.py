"""`POST /v1/jobs/{id}/predict`: from the model as it stands while it is training, and from the final one after."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from app.db.job_state import JobStatus
from app.db.tables import JobRow
from app.errors import Conflict, problems
from app.jobs import service
from app.jobs.control import NO_MODEL_YET
from app.jobs.job_types import has_interim_model
from app.models.repository import Location
from app.predictions import schemas
from app.predictions.model_cache import ModelCache, ServedModel
from app.predictions.model_request import ModelRequest
from app.predictions.request_bodies import known_type
from app.predictions.response_formats import negotiated
from app.predictions.service import predict_with
from app.web.context import Context, InContext
from app.web.thread_rooms import MODELS, PREDICTIONS

router = APIRouter(prefix="/v1/jobs", tags=["predictions"])

MOST_LOOKS = 5
RESPONSE_SCHEMA: dict[str, Any] = {
    **schemas.RESPONSE_SCHEMA,
    "required": ["job", "is_final", "passes", "relative_gap", "model", "name", "version", "predictions"],
    "properties": {
        **schemas.RESPONSE_PROPERTIES,
        "job": {"type": "string"},
        "is_final": {"type": "boolean", "description": "whether the job has succeeded and this is its model"},
        "passes": {"type": "integer", "description": "of the training when the model was like this"},
        "relative_gap": {"type": ["number", "null"], "description": "then, as far as it was known"},
        "model": {"type": ["string", "null"], "description": "null until it is final"},
        "version": {"type": ["integer", "null"], "description": "null until it is final"},
    },
}


class Standing(NamedTuple):
    model: ServedModel
    said: Mapping[str, Any]
    """Of the model, beside its answers."""


@router.post(
    "/{job_id}/predict",
    operation_id="predict_with_job",
    response_class=Response,
    openapi_extra={
        "parameters": schemas.PREDICT_PARAMETERS,
        "requestBody": schemas.request_body(schemas.REQUEST_SCHEMA),
    },
    responses={200: schemas.reply("Predictions", RESPONSE_SCHEMA), **problems(400, 404, 406, 409, 413, 415)},
)
async def predict_with_job(job_id: str, context: InContext, request: Request) -> Response:
    """Label and score rows with a job's model as it stands. In the first second of its training: 409 `no_model_yet`."""
    asked = ModelRequest(request)
    content_type, accept, index_base = asked.content_type, asked.accept, asked.index_base
    known_type(content_type)
    negotiated(accept)
    body = await asked.body()
    standing = await MODELS.run(find, context, context.part(ModelCache), job_id)
    respond = partial(predict_with, standing.model, body, content_type, accept, snapshot=standing.said)
    reply = await PREDICTIONS.run(respond, wanted=asked.wanted, index_base=index_base)
    return Response(reply.content, media_type=reply.media_type, headers=dict(reply.headers))


def find(context: Context, served: ModelCache, job_id: str) -> Standing:
    """The newest model of a job. Raises NotFound, or Conflict if it has none."""
    for _ in range(MOST_LOOKS):
        with context.database.read() as session:
            job = service.get(session, job_id)
        if not has_interim_model(job.type):
            raise Conflict(f"A job of type {job.type} trains no model.", code="not_a_training_job")
        if job.model_id is not None:
            figures = {"passes": job.passes, "relative_gap": job.relative_gap}
            return Standing(served.find(job.model_id), {"job": job.id, "is_final": True, **figures})
        if job.snapshot is None:
            break
        try:
            return _snapshot(served, job, job.snapshot)
        except FileNotFoundError:
            continue  # a newer one has taken its place since
    if JobStatus(job.status).done:
        raise Conflict(f"The job has {job.status} and left no model.", code="job_ended")
    detail = "The job has no model yet; it has one soon after the training of the model itself begins."
    raise Conflict(detail, code=NO_MODEL_YET, headers={"Retry-After": "1"})


def _snapshot(served: ModelCache, job: JobRow, blob: str) -> Standing:
    model = replace(served.open_file(Location(blob, job.model_name, 0, blob)), id=job.id)
    card = model.file.header.card
    figures = {"passes": card["passes"], "relative_gap": card["relative_gap"]}
    return Standing(model, {"job": job.id, "is_final": False, "model": None, "version": None, **figures})
