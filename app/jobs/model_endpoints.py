"""`POST /v1/models/{ref}/verify`, `…/evaluate` and `…/leave_one_out`, and the files that jobs write.

`POST /v1/jobs` accepts the same jobs, by their `type`.
"""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Response
from sqlalchemy.orm import Session

from app.errors import problems
from app.jobs import service
from app.jobs.endpoints import queue_job
from app.jobs.job_types import Job
from app.jobs.types.evaluate_request import EvaluateOptions, EvaluateRequest
from app.jobs.types.leave_one_out_request import LeaveOneOutOptions, LeaveOneOutRequest
from app.jobs.types.predict_request import Which, delete_files, file_of
from app.jobs.types.verify_request import VerifyOptions, VerifyRequest
from app.models import service as models
from app.storage.ownership import reclaim
from app.web.context import Context, InContext
from app.web.fields import JobInPath, ModelInPath
from app.web.file_response import StoredFile
from app.web.idempotency import InOnce
from app.web.long_poll import PreferWait
from app.web.media_types import ARROW, CSV, NDJSON, NPZ, PARQUET
from app.web.validation import json_only

router = APIRouter(prefix="/v1", tags=["jobs"], dependencies=[Depends(json_only)])

MEDIA_TYPE_OF = {"csv": CSV, "ndjson": NDJSON, "parquet": PARQUET, "arrow": ARROW, "npz": NPZ}
FILE_CONTENT: dict[str, Any] = {
    media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPE_OF.values()
}
FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": FILE_CONTENT},
    206: {"description": "The part of the file that `Range` requests.", "content": FILE_CONTENT},
    **problems(404, 409),
}


@router.post(
    "/models/{ref}/verify",
    status_code=201,
    operation_id="verify_model",
    responses=problems(400, 404, 409, 413, 415, 507),
)
async def verify_model(
    ref: ModelInPath,
    context: InContext,
    response: Response,
    once: InOnce,
    body: VerifyOptions | None = None,
    prefer: PreferWait = None,
) -> Job:
    """Queue a job that recomputes the certificate of a model.

    `result.matches` is true if the stored certificate is confirmed, false if it is contradicted, and null if the bound
    is neither confirmed nor contradicted.
    """
    request = VerifyRequest(type="verify", model=ref, **(body or VerifyOptions()).model_dump())
    return await queue_job(request, context, response, once, prefer, _existing(ref))


@router.post(
    "/models/{ref}/evaluate",
    status_code=201,
    operation_id="evaluate_model",
    responses=problems(400, 404, 409, 413, 415, 507),
)
async def evaluate_model(
    ref: ModelInPath,
    context: InContext,
    response: Response,
    once: InOnce,
    body: EvaluateOptions,
    prefer: PreferWait = None,
) -> Job:
    """Queue a job that evaluates a model on a dataset. `result.evaluation_id` is the id of the stored evaluation."""
    request = EvaluateRequest(type="evaluate", model=ref, **body.model_dump())
    return await queue_job(request, context, response, once, prefer, _existing(ref))


@router.post(
    "/models/{ref}/leave_one_out",
    status_code=201,
    operation_id="leave_one_out",
    responses=problems(400, 404, 409, 413, 415, 507),
)
async def leave_one_out(
    ref: ModelInPath,
    context: InContext,
    response: Response,
    once: InOnce,
    body: LeaveOneOutOptions | None = None,
    prefer: PreferWait = None,
) -> Job:
    """Queue a job that bounds the leave-one-out error of a model: every row predicted by the model of all others.

    The bounds are proven, and need no training for most rows. `result.reason` says why there are none.
    """
    options = (body or LeaveOneOutOptions()).model_dump()
    request = LeaveOneOutRequest(type="leave_one_out", model=ref, **options)
    return await queue_job(request, context, response, once, prefer, _existing(ref))


@router.get("/jobs/{job_id}/output", operation_id="get_job_output", response_class=StoredFile, responses=FILE_ANSWERS)
def get_job_output(job_id: JobInPath, context: InContext) -> StoredFile:
    """Download the predictions of a batch job: one record for each row of the dataset; `row` counts from 0.

    For a verification with `rows`: the training rows as the solver saw them (npz).
    """
    return _file(context, job_id, "output")


@router.get("/jobs/{job_id}/errors", operation_id="get_job_errors", response_class=StoredFile, responses=FILE_ANSWERS)
def get_job_errors(job_id: JobInPath, context: InContext) -> StoredFile:
    """Download the rows that a batch job could not predict, one line `{row, code, detail}` each.

    409 if every row was predicted.
    """
    return _file(context, job_id, "errors")


@router.delete(
    "/jobs/{job_id}/output", status_code=204, operation_id="delete_job_output", responses=problems(404, 409, 507)
)
def delete_job_output(job_id: JobInPath, context: InContext) -> None:
    """Delete the files that a job wrote. Its `result` is kept."""
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
    """Return a check that the model in the path exists: 404 if not. An unknown model in the body of a job is 422."""
    return lambda session: models.locate(session, ref)
