"""`/v1/jobs`: submit work, watch it, change its course."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
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
from app.jobs.schemas import Event, JobSummary, Task, Trace, Validation
from app.jobs.submission import error_items
from app.names import Name
from app.storage.free_space import require_free_space
from app.web.context import Context, InContext
from app.web.idempotency import InOnce, Once
from app.web.long_poll import DoneWatch, Wait, preferred_wait, wait_until_done
from app.web.pagination import InPage, Listing, listing
from app.web.thread_rooms import WRITES, RoomRoute
from app.web.validation import CreatedAfter, json_only, label_parameters, no_body
from app.webhooks import service as webhooks
from app.webhooks.schemas import NewWebhook

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(json_only)], route_class=RoomRoute)

ASKED = problems(404, 409, 413, 415)


@router.post(
    "",
    status_code=201,
    operation_id="create_job",
    response_model=Job,
    responses={200: {"model": Validation, "description": "with `validate_only`"}, **problems(400, 409, 413, 415, 507)},
)
async def create_job(
    body: JobRequest,
    context: InContext,
    response: Response,
    once: InOnce,
    prefer: Annotated[str | None, Header(description="`wait=N`: answer when the job is done")] = None,
    validate_only: Annotated[bool, Query(description="only say what is wrong and what it would need")] = False,
) -> Job | JSONResponse:
    """Queue a job. The answer comes at once, or, with `Prefer: wait=N`, when it is done or N seconds are over."""
    if not validate_only:
        return await queue_job(body, context, response, once, prefer)
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
    """What every route that makes a job does; `check` may refuse it first."""
    admission = Admission(context.blobs, context.settings)

    def submit() -> Job:
        require_free_space(context.settings.data_dir, context.settings.free_space_bytes)  # for its model
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
    status: JobStatus | None = None,
    type: JobTypeName | None = None,
    name: Annotated[Name | None, Query(description="of its model")] = None,
    task: Annotated[Task | None, Query(description="of its training, asked for or found")] = None,
    created_after: CreatedAfter = None,
) -> Listing[JobSummary]:
    """Jobs, newest first. Filter by `status`, `type`, `name`, `task`, `created_after` and by `label.k=v`."""
    filters = Filters(status, type, name, task, created_after, label_parameters(request))
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, filters)
        return Listing[JobSummary].model_validate(listing(request, response, page, rows, service.summarize))


@router.get("/{job_id}", operation_id="get_job", responses=problems(404))
async def get_job(job_id: str, context: InContext, wait: Wait = 0) -> Job:
    """One job; with `wait=N` a long poll. Decide on `done`, not on `status`."""
    return Job.model_validate(await wait_until_done(context.part(DoneWatch), job_id, _look(context, job_id), wait))


@router.post("/{job_id}/cancel", operation_id="cancel_job", responses=ASKED, dependencies=[Depends(no_body)])
def cancel_job(job_id: str, once: InOnce) -> Job:
    """Stop a job and keep nothing of it. A running one ends within about a second."""
    with once.write() as session:
        return once.answer(_show(session, control.cancel(session, job_id)))


@router.post("/{job_id}/finish", operation_id="finish_job", responses=ASKED, dependencies=[Depends(no_body)])
def finish_job(job_id: str, once: InOnce) -> Job:
    """Stop a job and keep its best model so far: it succeeds with the status `stopped`."""
    with once.write() as session:
        return once.answer(_show(session, control.finish(session, job_id)))


@router.post("/{job_id}/pause", operation_id="pause_job", responses=ASKED, dependencies=[Depends(no_body)])
def pause_job(job_id: str, once: InOnce) -> Job:
    """Let other jobs have its worker, until it is resumed. A running one is paused after the pass that it is in."""
    with once.write() as session:
        return once.answer(_show(session, control.pause(session, job_id)))


@router.post("/{job_id}/resume", operation_id="resume_job", responses=ASKED, dependencies=[Depends(no_body)])
def resume_job(job_id: str, once: InOnce) -> Job:
    """Queue a paused job again. It goes on from where it was."""
    with once.write() as session:
        return once.answer(_show(session, control.resume(session, job_id)))


@router.get(
    "/{job_id}/events",
    operation_id="list_job_events",
    response_model=Listing[Event],
    responses={200: EVENTS_ANSWER, **problems(404)},
)
async def list_job_events(
    job_id: str,
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    last_event_id: Annotated[str | None, Header(description="go on behind this event (`evt_…`)")] = None,
) -> Any:
    """What happened to the job, oldest first. With `Accept: text/event-stream` a stream, until the job is done."""
    after_id = page.cursor_id
    if last_event_id:
        if not is_id("evt", last_event_id):
            raise invalid_field("Last-Event-ID", "invalid_event_id", "is not the id of an event")
        after_id = last_event_id

    def look() -> Sequence[EventRow]:
        with context.database.read() as session:
            return service.list_events(session, job_id, page.limit + 1, after_id)

    if not wants_stream(request):
        return listing(request, response, page, await run_in_threadpool(look), _show_event)
    await run_in_threadpool(_look(context, job_id))  # an unknown job is refused before the stream begins
    return context.part(EventFeed).open(job_id, after_id)


@router.get("/{job_id}/trace", operation_id="get_job_trace", responses=problems(404))
def get_job_trace(job_id: str, context: InContext) -> Trace:
    """The convergence curve so far: objective, bound and gap against seconds and passes."""
    with context.database.read() as session:
        job = service.get(session, job_id, with_trace=True)
        return Trace(job_id=job.id, tol=job.spec.get("tol"), data=job.trace)


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
