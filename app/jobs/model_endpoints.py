"""Jobs on a model by its own address: `POST /v1/models/{ref}/verify`. `POST /v1/jobs` takes the same by `type`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response
from starlette.concurrency import run_in_threadpool

from app.deps import Context, InContext, json_only
from app.errors import problems
from app.jobs.endpoints import queue_job
from app.jobs.model_requests import VerifyOptions, VerifyRequest
from app.jobs.schemas import Job
from app.models import service as models

router = APIRouter(prefix="/v1/models", tags=["jobs"], dependencies=[Depends(json_only)])

Prefer = Annotated[str | None, Header(description="`wait=N`: answer when the job is done")]


@router.post("/{ref}/verify", status_code=201, operation_id="verify_model", responses=problems(400, 404, 409, 413, 415))
async def verify_model(
    ref: str, context: InContext, response: Response, body: VerifyOptions | None = None, prefer: Prefer = None
) -> Job:
    """Queue a job that recomputes the model's certificate; its `result` says whether it `matches` what was claimed."""
    await run_in_threadpool(_check_exists, context, ref)
    request = VerifyRequest(type="verify", model=ref, **(body or VerifyOptions()).model_dump())
    return await queue_job(request, context, response, prefer)


def _check_exists(context: Context, ref: str) -> None:
    """A model that is part of the address and not there is 404; in the body of a job it would be 422."""
    with context.database.read() as session:
        models.locate(session, ref)
