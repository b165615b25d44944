"""`/v1/datasets`: upload, look, delete."""

from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.datasets import service
from app.datasets.formats import Format, ReadOptions
from app.datasets.ingest import Ingestor
from app.datasets.schemas import Dataset, DatasetSummary
from app.db.tables import DatasetRow
from app.deps import InContext, InPage, Listing, label_parameters, listing
from app.errors import UnsupportedMediaType, problems
from app.names import Name, Text
from app.storage import StagedBlob

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

FORMATS: dict[str, Format] = {"text/csv": "csv", "text/x-libsvm": "libsvm"}
WRITE_BYTES = 1 << 20

FILE_BODY = {
    "required": True,
    "description": "the file itself",
    "content": {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in FORMATS},
}


@router.post(
    "",
    status_code=201,
    operation_id="create_dataset",
    openapi_extra={"requestBody": FILE_BODY},
    responses={200: {"model": Dataset, "description": "Already here"}, **problems(400, 413, 415, 507)},
)
async def create_dataset(
    request: Request,
    response: Response,
    context: InContext,
    name: Annotated[Name | None, Query(description="a name to find it by")] = None,
    target: Annotated[Text | None, Query(description="CSV: label column, name or number; default last")] = None,
    weight: Annotated[Text | None, Query(description="CSV: column of sample weights")] = None,
    ignore: Annotated[list[Text], Query(description="CSV: a column to leave out; may be repeated")] = [],  # noqa: B006
    header: Annotated[Literal["auto", "true", "false"], Query(description="CSV: is there a header?")] = "auto",
    delimiter: Annotated[str | None, Query(max_length=1, description="CSV: default a comma")] = None,
    index_base: Annotated[Literal["auto", "0", "1"], Query(description="libsvm: first index")] = "auto",
    n_features: Annotated[int | None, Query(ge=1, le=2**31 - 2, description="libsvm: width")] = None,
) -> Dataset:
    """Upload a file as the raw body. It is parsed before the answer comes; a bad file stores nothing."""
    file_format = _format(request)
    options = ReadOptions(target, weight, tuple(ignore), index_base, n_features, delimiter, header)
    ingestor: Ingestor = request.app.state.ingestor
    with await run_in_threadpool(context.blobs.stage) as staged:
        await _receive(request, staged)
        create = partial(
            service.create,
            context.database,
            ingestor,
            staged,
            file_format,
            options,
            name,
            label_parameters(request),
        )
        dataset, known = await to_thread.run_sync(create, limiter=ingestor.limiter)
    response.status_code = 200 if known else 201
    response.headers["Location"] = f"/v1/datasets/{dataset.id}"
    return Dataset.model_validate({**_show(dataset), "deduplicated": known})


@router.get("", operation_id="list_datasets", responses=problems())
def list_datasets(
    context: InContext, page: InPage, request: Request, response: Response, name: Name | None = None
) -> Listing[DatasetSummary]:
    """Datasets, newest first. Filter by `name` and by `label.k=v`."""
    with context.database.read() as session:
        rows = service.list_newest(session, page.limit + 1, page.cursor_id, name, label_parameters(request))
    return Listing[DatasetSummary].model_validate(listing(request, response, page, rows, _show))


@router.get("/{dataset_id}", operation_id="get_dataset", responses=problems(404))
def get_dataset(dataset_id: str, context: InContext) -> Dataset:
    with context.database.read() as session:
        return Dataset.model_validate(_show(service.get(session, dataset_id)))


@router.delete("/{dataset_id}", status_code=204, operation_id="delete_dataset", responses=problems(404, 409))
def delete_dataset(dataset_id: str, context: InContext) -> None:
    """Forget a dataset. Models that were trained on it stay; its files are freed by the next sweep."""
    with context.database.write() as session:
        service.delete(session, dataset_id)


def _show(dataset: DatasetRow) -> dict[str, Any]:
    columns = {name: getattr(dataset, name) for name in DatasetRow.__mapper__.columns.keys()}  # noqa: SIM118
    return {**columns, "done": True}


def _format(request: Request) -> Format:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in FORMATS:
        raise UnsupportedMediaType(f"Send one of {', '.join(FORMATS)} as Content-Type.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Compressed uploads are not supported; send the file as it is.")
    return FORMATS[media_type]


async def _receive(request: Request, staged: StagedBlob) -> None:
    """Stream the body to disk in large writes, each in a thread, so that the event loop never waits."""
    buffer = bytearray()
    async for chunk in request.stream():
        buffer += chunk
        if len(buffer) >= WRITE_BYTES:
            await run_in_threadpool(staged.write, bytes(buffer))
            buffer.clear()
    await run_in_threadpool(staged.write, bytes(buffer))
