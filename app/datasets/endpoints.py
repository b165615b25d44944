"""`/v1/datasets`: upload, list, inspect, download and delete datasets."""

import re
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.datasets import service
from app.datasets.formats import file_formats
from app.datasets.inspection.inspector import SHOWN_COLUMNS, Inspector, following_number, preview, show_column
from app.datasets.reading.parse_queue import ParseQueue
from app.datasets.reading.read_options import InReadOptions
from app.datasets.reading.receive import FILE_BODY, UploadBuffers, receive_file
from app.datasets.repository import Filters
from app.datasets.schemas import (
    Column,
    ColumnStatistics,
    Dataset,
    DatasetSummary,
    Deleted,
    Issues,
    Preview,
    Status,
    TaskHint,
)
from app.datasets.service import Received
from app.db.tables import DatasetRow
from app.errors import BadRange, problems
from app.names import Name
from app.web.context import Context, InContext, context_of
from app.web.fields import DatasetInPath
from app.web.file_response import StoredFile
from app.web.idempotency import InStreamedOnce, Once
from app.web.long_poll import DoneWatch, Wait, preferred_wait, wait_until_done
from app.web.pagination import InPage, Listing, listing
from app.web.thread_rooms import FILES, WRITES, RoomRoute
from app.web.validation import CreatedAfter, label_parameters, no_body

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], route_class=RoomRoute)

UPLOAD_WAIT_SECONDS = 10.0
"""Default seconds that an upload request waits for its file to be parsed. Larger: the response shows more datasets as
`ready`, and requests with large files stay open longer. Set by hand; no measurement is recorded."""
RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")
MEDIA_TYPE_OF = {one.name: one.media_type for one in file_formats().values()}
FILE_CONTENT = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPE_OF.values()}

Prefer = Annotated[
    str | None,
    Header(
        description="`wait=N`: wait at most N seconds for the file to be parsed (default 10). "
        "`respond-async`: do not wait."
    ),
]


@router.post(
    "",
    status_code=201,
    operation_id="create_dataset",
    openapi_extra={"requestBody": FILE_BODY},
    responses={
        200: {"model": Dataset, "description": "The same file with the same options was uploaded before."},
        **problems(400, 408, 409, 413, 415, 507),
    },
)
async def create_dataset(
    request: Request,
    response: Response,
    context: InContext,
    options: InReadOptions,
    once: InStreamedOnce,
    name: Annotated[Name | None, Query(description="Name of the dataset. `GET /v1/datasets?name=` finds it.")] = None,
    prefer: Prefer = None,
) -> Dataset:
    """Upload a file as the raw body, or as the part `file` of a form.

    If the file is parsed within the wait, the status is `ready`. An invalid file is refused with 422 and a list of its
    errors, and nothing is stored. If parsing takes longer than the wait, the status is `processing`: repeat `GET
    /v1/datasets/{id}?wait=60` until `done` is true.
    """
    labels = label_parameters(request)
    async with once.claimed():
        with await FILES.run(context.blobs.stage) as staged:
            kind = await receive_file(request, staged, context.part(UploadBuffers))
            once.understand(staged.sha256)
            options = replace(options, encoding=kind.encoding)
            received = Received(staged.sha256, staged.size, kind.format, options, name, labels)
            return await create_from(request, response, staged.path, received, prefer, once)


async def create_from(
    request: Request, response: Response, file: Path, received: Received, prefer: str | None, once: Once | None = None
) -> Dataset:
    """Create a dataset from a received file and return the response. Raw, form and resumable uploads all call this."""
    context = context_of(request)
    parse_queue = context.part(ParseQueue)
    seconds = preferred_wait(prefer, UPLOAD_WAIT_SECONDS)

    def answer(shown: dict[str, Any], known: bool) -> Dataset:
        response.status_code = 200 if known else 201
        response.headers["Location"] = f"/v1/datasets/{shown['id']}"
        return Dataset.model_validate({**shown, "deduplicated": known})

    def keep_answer(session: Session, row: DatasetRow) -> None:
        if once is not None:
            once.finish(session, answer(_show_new(row), known=False))

    dataset, known = await parse_queue.create(file, received, seconds, keep_answer)
    if not known:
        return answer(_show_new(dataset), known=False)
    shown = await wait_until_done(context.part(DoneWatch), dataset.id, _look(context, dataset.id), seconds)
    found = answer(shown, known=True)

    def keep_found() -> None:
        if once is not None:
            with context.database.write() as session:
                once.finish(session, found)

    await WRITES.run(keep_found)
    return found


@router.post(
    "/{dataset_id}/reread",
    status_code=201,
    operation_id="reread_dataset",
    responses={200: {"model": Dataset, "description": "Already here"}, **problems(404, 409, 507)},
    dependencies=[Depends(no_body)],
)
async def reread_dataset(
    dataset_id: DatasetInPath,
    request: Request,
    response: Response,
    context: InContext,
    options: InReadOptions,
    name: Annotated[
        Name | None, Query(description="Name of the new dataset. Default: the name of the existing one.")
    ] = None,
    prefer: Prefer = None,
) -> Dataset:
    """Create another dataset from the same uploaded file with other options, such as another `target`.

    The file is stored only once. Options that are not in the query keep the values of the existing dataset.
    """

    def look() -> Received:
        with context.database.read() as session:
            return service.received_with(session, dataset_id, options, name)

    received = await run_in_threadpool(look)
    return await create_from(request, response, context.blobs.path(received.sha256), received, prefer)


@router.get("", operation_id="list_datasets", responses=problems())
def list_datasets(
    context: InContext,
    page: InPage,
    request: Request,
    response: Response,
    status: Annotated[Status | None, Query(description="Only datasets in this state.")] = None,
    name: Annotated[Name | None, Query(description="Only datasets with this name.")] = None,
    task: Annotated[TaskHint | None, Query(description="Only datasets with this `task_hint`.")] = None,
    created_after: CreatedAfter = None,
) -> Listing[DatasetSummary]:
    """List datasets, newest first. Filter by `status`, `name`, `task`, `created_after` and `label.<key>=<value>`."""
    filters = Filters(status, name, task, created_after, label_parameters(request))
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, filters)
    return Listing[DatasetSummary].model_validate(listing(request, response, page, rows, _show_summary))


@router.get("/{dataset_id}", operation_id="get_dataset", responses=problems(404))
async def get_dataset(dataset_id: DatasetInPath, context: InContext, wait: Wait = 0) -> Dataset:
    """Get a dataset. With `wait=N` the response is sent when `done` is true, or after N seconds."""
    return Dataset.model_validate(
        await wait_until_done(context.part(DoneWatch), dataset_id, _look(context, dataset_id), wait)
    )


@router.delete("/{dataset_id}", operation_id="delete_dataset", responses=problems(404, 409, 507))
def delete_dataset(dataset_id: DatasetInPath, context: InContext) -> Deleted:
    """Delete a dataset and the files that only it needs. Models that were trained on it are kept."""
    freed = service.delete(context.database, context.blobs, dataset_id)
    return Deleted(id=dataset_id, bytes_freed=freed)


@router.get("/{dataset_id}/columns", operation_id="list_dataset_columns", responses=problems(404))
def list_dataset_columns(
    dataset_id: DatasetInPath, context: InContext, page: InPage, request: Request, response: Response
) -> Listing[Column]:
    """List all columns: features first, in the order of a model's weights."""
    first = following_number(page)
    with context.database.read() as session:
        columns = service.list_columns(session, dataset_id, first, page.limit + 1)
    rows = [NumberedColumn(str(first + number), one) for number, one in enumerate(columns)]
    return Listing[Column].model_validate(listing(request, response, page, rows, attrgetter("column")))


@router.get("/{dataset_id}/preview", operation_id="preview_dataset", responses=problems(404, 409))
def preview_dataset(
    dataset_id: DatasetInPath,
    context: InContext,
    rows: Annotated[int, Query(ge=1, le=100, description="Number of rows to show.")] = 10,
) -> Preview:
    """Get the first rows after parsing: their labels and the values of at most the first 1000 columns."""
    with context.database.read() as session:
        dataset, features, target = service.read_features(session, dataset_id, 0, SHOWN_COLUMNS)
    return Preview.model_validate(preview(context.blobs, dataset, features, target, rows))


@router.get("/{dataset_id}/statistics", operation_id="get_dataset_statistics", responses=problems(404, 409, 413, 507))
async def get_dataset_statistics(
    dataset_id: DatasetInPath, page: InPage, request: Request, response: Response
) -> Listing[ColumnStatistics]:
    """List counts, range, mean, standard deviation, quantiles and histogram of each feature.

    The first request computes the statistics in a few passes over the data and stores them. The response is 413 if the
    statistics would need far more space than the data, as for many columns and few rows.
    """
    inspector = context_of(request).part(Inspector)
    rows = await inspector.statistics(dataset_id, following_number(page), page.limit + 1)
    return Listing[ColumnStatistics].model_validate(listing(request, response, page, rows, show_column))


@router.get("/{dataset_id}/issues", operation_id="get_dataset_issues", responses=problems(404, 409, 413, 507))
async def get_dataset_issues(dataset_id: DatasetInPath, request: Request) -> Issues:
    """Check the data for problems, such as equal rows with different labels, constant columns, columns that reveal the
    label, and columns of very different scales."""
    inspector = context_of(request).part(Inspector)
    found = await inspector.issues(dataset_id)
    return Issues.model_validate({"dataset_id": dataset_id, "data": found})


@router.get(
    "/{dataset_id}/content",
    operation_id="get_dataset_content",
    response_class=StoredFile,
    responses={
        200: {"description": "The file.", "content": FILE_CONTENT},
        206: {"description": "The part of the file that `Range` requests.", "content": FILE_CONTENT},
        **problems(404, 409, 416),
    },
)
def get_dataset_content(dataset_id: DatasetInPath, context: InContext, request: Request) -> StoredFile:
    """Download the uploaded file unchanged, with its Content-Type and Content-Encoding. The header `Range` selects a
    part."""
    with context.database.read() as session:
        dataset = service.get_stored(session, dataset_id, service.get_light)
    _check_range(request.headers.get("range"), dataset.bytes)
    headers = {"ETag": f'"{dataset.sha256}"', "X-Content-Type-Options": "nosniff"}
    if (encoding := service.options_from(dataset.options).encoding) != "identity":
        headers["Content-Encoding"] = encoding
    return StoredFile(
        context.blobs.path(dataset.sha256),
        headers=headers,
        media_type=MEDIA_TYPE_OF.get(dataset.format, "application/octet-stream"),
        filename=f"{dataset.name or dataset.id}.{dataset.format}",
    )


class NumberedColumn(NamedTuple):
    """A column and its position in the list. The cursor of the next page stores `id`."""

    id: str
    column: dict[str, Any]


def show(dataset: DatasetRow, columns: list[dict[str, Any]], n_columns: int) -> dict[str, Any]:
    """Return the fields of `schemas.Dataset`."""
    stored = set(DatasetRow.__mapper__.columns.keys()) - {"columns"}  # reading this attribute would load all columns
    own = {name: getattr(dataset, name) for name in Dataset.model_fields if name in stored}
    errors = dataset.error["errors"] if dataset.error else []
    return {**own, **_show_summary(dataset), "columns": columns, "n_columns": n_columns, "errors": errors}


def _show_new(dataset: DatasetRow) -> dict[str, Any]:
    return show(dataset, dataset.columns[:SHOWN_COLUMNS], len(dataset.columns))


def _show_summary(dataset: DatasetRow) -> dict[str, Any]:
    own = {name: getattr(dataset, name) for name in DatasetSummary.model_fields if name != "done"}
    own["task_hint"] = dataset.task_hint or None  # empty if the file has no labels
    if dataset.status != "ready":
        own |= dict.fromkeys(("n_rows", "n_features", "nnz", "storage", "task_hint"))
    return {**own, "done": dataset.status != "processing"}


def _look(context: Context, dataset_id: str) -> Callable[[], dict[str, Any]]:
    def look() -> dict[str, Any]:
        with context.database.read() as session:
            return show(*service.describe(session, dataset_id, SHOWN_COLUMNS))

    return look


def _check_range(wanted: str | None, size: int) -> None:
    """Raise BadRange unless the header is one range that begins inside the file. Without this check, an invalid header
    would be ignored."""
    if wanted is None:
        return
    match = RANGE.fullmatch(wanted)
    first, last = (int(part) if part else None for part in match.groups()) if match else (None, None)
    from_start = first is not None and first < size and (last is None or last >= first)
    from_end = first is None and last is not None and last > 0
    if not (from_start or from_end):
        headers = {"Content-Range": f"bytes */{size}"}
        detail = f"Range must be one range of bytes inside the file of {size} bytes, such as bytes=0-99."
        raise BadRange(detail, headers=headers)
