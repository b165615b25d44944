"""Jobs on a model by its own address, and the files that they write.

`POST /v1/jobs` takes the same jobs by their `type`.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Response
from sqlalchemy.orm import Session

from app.errors import problems
from app.jobs import service
from app.jobs.endpoints import queue_job
from app.jobs.job_types import Job
from app.jobs.types.evaluate_request import EvaluateOptions, EvaluateRequest
from app.jobs.types.predict_request import Which, delete_files, file_of
from app.jobs.types.verify_request import VerifyOptions, VerifyRequest
from app.models import service as models
from app.storage.ownership import reclaim
from app.web.context import Context, InContext
from app.web.file_response import StoredFile
from app.web.idempotency import InOnce
from app.web.media_types import ARROW, CSV, NDJSON, NPZ, PARQUET
from app.web.validation import json_only

router = APIRouter(prefix="/v1", tags=["jobs"], dependencies=[Depends(json_only)])

MEDIA_TYPE_OF = {"csv": CSV, "ndjson": NDJSON, "parquet": PARQUET, "arrow": ARROW, "npz": NPZ}
FILE_CONTENT: dict[str, Any] = {
    media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPE_OF.values()
}
FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", "content": FILE_CONTENT},
    206: {"description": "The part of it that `Range` asks for", "content": FILE_CONTENT},
    **problems(404, 409),
}

Prefer = Annotated[str | None, Header(description="`wait=N`: answer when the job is done")]


@router.post(
    "/models/{ref}/verify",
    status_code=201,
    operation_id="verify_model",
    responses=problems(400, 404, 409, 413, 415, 507),
)
async def verify_model(
    ref: str,
    context: InContext,
    response: Response,
    once: InOnce,
    body: VerifyOptions | None = None,
    prefer: Prefer = None,
) -> Job:
    """Queue a job that recomputes the model's certificate; its `result` says whether it `matches` what was claimed:
    true (confirmed), false (contradicted) or null (the bound is neither)."""
    request = VerifyRequest(type="verify", model=ref, **(body or VerifyOptions()).model_dump())
    return await queue_job(request, context, response, once, prefer, _existing(ref))


@router.post(
    "/models/{ref}/evaluate",
    status_code=201,
    operation_id="evaluate_model",
    responses=problems(400, 404, 409, 413, 415, 507),
)
async def evaluate_model(
    ref: str, context: InContext, response: Response, once: InOnce, body: EvaluateOptions, prefer: Prefer = None
) -> Job:
    """Queue a job that judges the model on a dataset; its `result` names the evaluation that it stores."""
    request = EvaluateRequest(type="evaluate", model=ref, **body.model_dump())
    return await queue_job(request, context, response, once, prefer, _existing(ref))


@router.get("/jobs/{job_id}/output", operation_id="get_job_output", response_class=StoredFile, responses=FILE_ANSWERS)
def get_job_output(job_id: str, context: InContext) -> StoredFile:
    """The predictions of a batch job, one line or record a row of the dataset; `row` is its number from 0. Of a
    verification with `rows`: the training rows as the solver saw them (npz)."""
    return _file(context, job_id, "output")


@router.get("/jobs/{job_id}/errors", operation_id="get_job_errors", response_class=StoredFile, responses=FILE_ANSWERS)
def get_job_errors(job_id: str, context: InContext) -> StoredFile:
    """The rows that a batch job could not predict: a line `{row, code, detail}` each; 409 if there are none."""
    return _file(context, job_id, "errors")


@router.delete("/jobs/{job_id}/output", status_code=204, operation_id="delete_job_output", responses=problems(404, 409))
def delete_job_output(job_id: str, context: InContext) -> None:
    """Free the bytes of a job's files; what its `result` says of them stays."""
    with context.database.write() as session:
        freed = delete_files(session, service.get(session, job_id))
    reclaim(context.database, context.blobs, freed)


def _file(context: Context, job_id: str, which: Which) -> StoredFile:
    with context.database.read() as session:
        found = file_of(session, service.get(session, job_id), which)
    headers = {"ETag": f'"{found.sha256}"', "X-Content-Type-Options": "nosniff"}
    path = context.blobs.path(found.sha256)
    return StoredFile(path, headers=headers, media_type=MEDIA_TYPE_OF[found.format], filename=found.name)


def _existing(ref: str) -> Callable[[Session], Any]:
    """A model that is part of the address and not there is 404; in the body of a job it would be 422."""
    return lambda session: models.locate(session, ref)
