"""`POST /v1/jobs/{id}/predict`: predict with the interim model of a running training, or with the final one."""

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
from app.web.fields import JobInPath
from app.web.thread_rooms import MODELS, PREDICTIONS

router = APIRouter(prefix="/v1/jobs", tags=["predictions"])

MOST_LOOKS = 5
"""Maximum attempts to open an interim model. A running training replaces the file, so a file can be deleted between the
query and its opening. Larger: fewer spurious 409 responses, at one query for each attempt. Set by hand; no measurement
is recorded."""
RESPONSE: dict[str, Any] = {
    "type": "object",
    "description": "Predictions of the current model of a job.",
    "required": ["job", "is_final", "passes", "relative_gap", "model", "name", "version", "predictions"],
    "properties": {
        **schemas.RESPONSE_PROPERTIES,
        "job": {"type": "string", "description": "Id of the job (`job_…`)."},
        "is_final": {"type": "boolean", "description": "True if the job has succeeded and this is its model."},
        "passes": {"type": "integer", "description": "Passes over the training data that produced this model."},
        "relative_gap": {
            "anyOf": [{"type": "number"}, {"type": "null"}],
            "description": "Relative gap of this model, as the solver estimates it; null: not known.",
        },
        "model": {
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "Id of the model version; null until it is final.",
        },
        "version": {
            "anyOf": [{"type": "integer"}, {"type": "null"}],
            "description": "Version number; null until it is final.",
        },
    },
}
COMPONENTS = {"JobPredictionResponse": RESPONSE}
"""Schemas for the section `components` of the document, by name."""


class Standing(NamedTuple):
    """The current model of a job."""

    model: ServedModel
    said: Mapping[str, Any]
    """Fields of the response that describe the model."""


@router.post(
    "/{job_id}/predict",
    operation_id="predict_with_job",
    response_class=Response,
    openapi_extra={
        "parameters": schemas.PREDICT_PARAMETERS,
        "requestBody": schemas.request_body("PredictionRequest"),
    },
    responses={200: schemas.reply("Predictions", "JobPredictionResponse"), **problems(400, 404, 406, 409, 413, 415)},
)
async def predict_with_job(job_id: JobInPath, context: InContext, request: Request) -> Response:
    """Predict with the current model of a training job.

    During the first second or so of the training there is none: 409 `no_model_yet`.
    """
    asked = ModelRequest(request)
    content_type, accept, index_base = asked.content_type, asked.accept, asked.index_base
    known_type(content_type)
    negotiated(accept)
    body = await asked.body()
    standing = await MODELS.run(find, context, context.part(ModelCache), job_id)
    respond = partial(predict_with, standing.model, body, content_type, accept, snapshot=standing.said)
    reply = await PREDICTIONS.run(respond, wanted=asked.wanted, coverage=asked.coverage, index_base=index_base)
    return Response(reply.content, media_type=reply.media_type, headers=dict(reply.headers))


def find(context: Context, served: ModelCache, job_id: str) -> Standing:
    """Return the newest model of a job. Raises NotFound, or Conflict if it has none."""
    for _ in range(MOST_LOOKS):
        with context.database.read() as session:
            job = service.get(session, job_id)
        if not has_interim_model(job.type):
            detail = f"A job of type {job.type} trains no model; use the id of a training job."
            raise Conflict(detail, code="not_a_training_job")
        if job.model_id is not None:
            figures = {"passes": job.passes, "relative_gap": job.relative_gap}
            return Standing(served.find(job.model_id), {"job": job.id, "is_final": True, **figures})
        if job.snapshot is None:
            break
        try:
            return _snapshot(served, job, job.snapshot)
        except FileNotFoundError:
            continue  # a newer interim model has replaced this one
    if JobStatus(job.status).done:
        raise Conflict(f"The job is {job.status} and has no model.", code="job_ended")
    detail = "The job has no model yet; retry about a second after its training has started."
    raise Conflict(detail, code=NO_MODEL_YET, headers={"Retry-After": "1"})


def _snapshot(served: ModelCache, job: JobRow, blob: str) -> Standing:
    model = replace(served.open_file(Location(blob, job.model_name, 0, blob)), id=job.id)
    card = model.file.header.card
    figures = {"passes": card["passes"], "relative_gap": card["relative_gap"]}
    return Standing(model, {"job": job.id, "is_final": False, "model": None, "version": None, **figures})
