"""`/v1/jobs`: submit, list, watch, pause, resume, finish and cancel jobs."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.db.job_state import JobStatus
from app.db.tables import EventRow, JobRow
from app.errors import AppError, invalid_field, problems
from app.ids import is_id
from app.jobs import control, service
from app.jobs.admission import Admission
from app.jobs.events import EVENTS_ANSWER, EventFeed, wants_stream
from app.jobs.job_types import Job, JobRequest, JobTypeName
from app.jobs.repository import Filters
from app.jobs.response_schemas import Event, JobSummary, JobView, Trace, Validation
from app.jobs.schemas import Task
from app.jobs.submission import error_items
from app.names import Name
from app.storage.free_space import require_free_space
from app.web.context import Context, InContext
from app.web.fields import JobInPath, LastEventId, View
from app.web.idempotency import InOnce, Once
from app.web.long_poll import DoneWatch, PreferWait, Wait, preferred_wait, wait_until_done
from app.web.pagination import InPage, Listing, listing
from app.web.thread_rooms import WRITES, RoomRoute
from app.web.validation import CreatedAfter, json_only, label_parameters, no_body
from app.webhooks import service as webhooks
from app.webhooks.schemas import NewWebhook

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(json_only)], route_class=RoomRoute)

ASKED = problems(404, 409, 413, 415, 507)


@router.post(
    "",
    status_code=201,
    operation_id="create_job",
    response_model=Job | JobView,
    responses={200: {"model": Validation, "description": "With `validate_only`."}, **problems(400, 409, 413, 415, 507)},
)
async def create_job(
    body: JobRequest,
    context: InContext,
    response: Response,
    once: InOnce,
    prefer: PreferWait = None,
    validate_only: Annotated[
        bool, Query(description="Check the request and estimate its cost. Nothing is queued.")
    ] = False,
    view: View = "full",
) -> Job | JobView | JSONResponse:
    """Queue a job. With `Prefer: wait=N` the response is sent when the job is done, or after N seconds."""
    if not validate_only:
        job = await queue_job(body, context, response, once, prefer)
        return job if view == "full" or job.webhook is not None else JobView.of(vars(job))
    judged = await run_in_threadpool(_validate, context, body)
    return JSONResponse(Validation.model_validate(judged).model_dump(mode="json"))


async def queue_job(
    body: JobRequest,
    context: Context,
    response: Response,
    once: Once,
    prefer: str | None,
    check: Callable[[Session], Any] | None = None,
) -> Job:
    """Submit a job, for every route that creates one. `check` runs first and raises AppError to refuse the job."""
    admission = Admission(context.blobs, context.settings)

    def submit() -> Job:
        require_free_space(context.settings.data_dir, context.settings.free_space_bytes)  # room for the model file
        with once.write() as session:
            if check is not None:
                check(session)
            job = service.submit(session, body, admission)
            session.flush()
            response.headers["Location"] = f"/v1/jobs/{job.id}"
            shown = _show(session, job)
            if body.webhook is not None:
                webhook = webhooks.attach(session, context.settings, body.webhook, job.id)
                shown.webhook = NewWebhook.model_validate(webhook, from_attributes=True)
            return once.answer(shown)

    job = await WRITES.run(submit)
    if wanted := preferred_wait(prefer):
        done = await wait_until_done(context.part(DoneWatch), job.id, _look(context, job.id), wanted)
        job = Job.model_validate({**done, "webhook": job.webhook})
    return job


@router.get("", operation_id="list_jobs", responses=problems())
def list_jobs(
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    status: Annotated[JobStatus | None, Query(description="Only jobs in this state.")] = None,
    type: Annotated[JobTypeName | None, Query(description="Only jobs of this type.")] = None,
    name: Annotated[Name | None, Query(description="Only jobs of the model with this name.")] = None,
    task: Annotated[Task | None, Query(description="Only training jobs of this task, requested or detected.")] = None,
    created_after: CreatedAfter = None,
) -> Listing[JobSummary]:
    """List jobs, newest first. Filter by `status`, `type`, `name`, `task`, `created_after`, `label.<key>=<value>`."""
    filters = Filters(status, type, name, task, created_after, label_parameters(request))
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, filters)
        return Listing[JobSummary].model_validate(listing(request, response, page, rows, service.summarize))


@router.get("/{job_id}", operation_id="get_job", response_model=Job | JobView, responses=problems(404))
async def get_job(job_id: JobInPath, context: InContext, wait: Wait = 0, view: View = "full") -> Job | JobView:
    """Get a job. With `wait=N` the response is sent when `done` is true, or after N seconds."""
    found = await wait_until_done(context.part(DoneWatch), job_id, _look(context, job_id), wait)
    return Job.model_validate(found) if view == "full" else JobView.of(found)


@router.post("/{job_id}/cancel", operation_id="cancel_job", responses=ASKED, dependencies=[Depends(no_body)])
def cancel_job(job_id: JobInPath, once: InOnce) -> Job:
    """Stop a job and discard its work. A running job ends within about a second."""
    with once.write() as session:
        return once.answer(_show(session, control.cancel(session, job_id)))


@router.post("/{job_id}/finish", operation_id="finish_job", responses=ASKED, dependencies=[Depends(no_body)])
def finish_job(job_id: JobInPath, once: InOnce) -> Job:
    """Stop a training and keep its best model so far. The job succeeds; `result.status` is `stopped`."""
    with once.write() as session:
        return once.answer(_show(session, control.finish(session, job_id)))


@router.post("/{job_id}/pause", operation_id="pause_job", responses=ASKED, dependencies=[Depends(no_body)])
def pause_job(job_id: JobInPath, once: InOnce) -> Job:
    """Pause a job until it is resumed, and free its worker. A running job pauses after its current pass."""
    with once.write() as session:
        return once.answer(_show(session, control.pause(session, job_id)))


@router.post("/{job_id}/resume", operation_id="resume_job", responses=ASKED, dependencies=[Depends(no_body)])
def resume_job(job_id: JobInPath, once: InOnce) -> Job:
    """Queue a paused job again. It continues where it was paused."""
    with once.write() as session:
        return once.answer(_show(session, control.resume(session, job_id)))


@router.get(
    "/{job_id}/events",
    operation_id="list_job_events",
    response_model=Listing[Event],
    responses={200: EVENTS_ANSWER, **problems(404)},
)
async def list_job_events(
    job_id: JobInPath,
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    last_event_id: LastEventId = None,
) -> Any:
    """List the events of a job, oldest first.

    With `Accept: text/event-stream`, stream them as server-sent events until the job is done.
    """
    after_id = page.cursor_id
    if last_event_id:
        if not is_id("evt", last_event_id):
            raise invalid_field("Last-Event-ID", "invalid_event_id", "must be the id of an event (`evt_…`)")
        after_id = last_event_id

    def look() -> Sequence[EventRow]:
        with context.database.read() as session:
            return service.list_events(session, job_id, page.limit + 1, after_id)

    if not wants_stream(request):
        return listing(request, response, page, await run_in_threadpool(look), _show_event)
    await run_in_threadpool(_look(context, job_id))  # answer 404 before the stream begins
    return context.part(EventFeed).open(job_id, after_id)


@router.get("/{job_id}/trace", operation_id="get_job_trace", responses=problems(404))
def get_job_trace(
    job_id: JobInPath,
    context: InContext,
    solver: Annotated[str | None, Query(description="Of a race: only the curve of this solver.")] = None,
) -> Trace:
    """Get the convergence curve so far: objective, lower bound and gap by seconds and passes.

    A race has a curve for each solver: every point names its `solver`.
    """
    with context.database.read() as session:
        job = service.get(session, job_id, with_trace=True)
        points = [one for one in job.trace if solver is None or one.get("solver") == solver]
        return Trace(job_id=job.id, tol=job.spec.get("tol"), data=points)


def _show(session: Session, job: JobRow) -> Job:
    return Job.model_validate(service.show(session, job))


def _show_event(row: Any) -> dict[str, Any]:
    return {"id": row.id, "type": row.type, "data": row.data, "created_at": row.created_at}


def _validate(context: Context, body: JobRequest) -> dict[str, Any]:
    admission = Admission(context.blobs, context.settings)
    with context.database.read() as session:
        judged = service.validate(session, body, admission)
    try:
        if body.webhook is not None:
            webhooks.check_address(context.settings, body.webhook, "webhook.url")
    except AppError as refusal:
        judged |= {"valid": False, "errors": [*judged["errors"], *error_items(refusal)]}
    return judged


def _look(context: Context, job_id: str) -> Callable[[], dict[str, Any]]:
    def look() -> dict[str, Any]:
        with context.database.read() as session:
            return service.show(session, service.get(session, job_id))

    return look
