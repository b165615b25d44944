"""`/v1/uploads`: resumable uploads, which continue after a broken connection.

Implements the IETF draft "Resumable Uploads for HTTP" (`Upload-Offset`, `Upload-Complete`) and the part of tus 1.0 that
its clients need (`Upload-Length`, `Upload-Metadata`, `Tus-Resumable`).
"""

import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from app.datasets.endpoints import Prefer, create_from
from app.datasets.reading.read_options import InReadOptions
from app.datasets.reading.receive import UploadBuffers, declared_kind, media_type_of
from app.datasets.schemas import Dataset
from app.datasets.uploads import service
from app.datasets.uploads.part_files import Part, PartFiles
from app.datasets.uploads.schemas import Upload
from app.db.tables import UploadRow
from app.errors import AppError, Unparsable, UnsupportedMediaType, problems
from app.names import Name
from app.storage.blobs import UntrustedBytes
from app.web.context import Context, InContext, context_of
from app.web.fields import UploadInPath
from app.web.idempotency import InOnce
from app.web.thread_rooms import FILES, WRITES, RoomRoute
from app.web.validation import label_parameters

router = APIRouter(prefix="/v1/uploads", tags=["uploads"], route_class=RoomRoute)

PART_TYPES = ("application/partial-upload", "application/offset+octet-stream", "application/octet-stream")
TUS_VERSION = "1.0.0"
SYNC_BYTES = 32 << 20
"""Bytes between two fsyncs of an upload: the maximum that a client must send again after a crash of the service.
Larger: fewer fsyncs, more bytes to send again. Set by hand; no measurement is recorded."""
MAX_LENGTH = 2**62
"""Maximum of Upload-Length and Upload-Offset in bytes. Offsets must fit into a signed 64-bit integer of the
database."""

PART_BODY = {
    "required": True,
    "description": "Bytes of the file from `Upload-Offset` on. An empty body with `Upload-Complete: ?1` "
    "completes the upload.",
    "content": {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in PART_TYPES},
}
OFFSETS = {
    "Upload-Offset": {"description": "Bytes that are durably stored.", "schema": {"type": "integer"}},
    "Upload-Complete": {"description": "`?1`: all bytes have arrived; `?0`: not yet.", "schema": {"type": "string"}},
}

Length = Annotated[
    int | None, Header(ge=0, le=MAX_LENGTH, description="Size of the whole file in bytes, if it is known.")
]


@router.post(
    "",
    status_code=201,
    operation_id="create_upload",
    responses={
        201: {"description": "Created. Send the bytes to `Location` with PATCH.", "headers": OFFSETS},
        **problems(400, 409, 413, 415, 507),
    },
)
async def create_upload(
    request: Request,
    response: Response,
    context: InContext,
    options: InReadOptions,
    once: InOnce,
    name: Annotated[Name | None, Query(description="Name of the dataset. `GET /v1/datasets?name=` finds it.")] = None,
    upload_length: Length = None,
    upload_metadata: Annotated[
        str | None, Header(description="tus metadata. `filename` determines the format if Content-Type does not.")
    ] = None,
) -> Upload:
    """Begin a resumable upload. The query takes the options of `POST /v1/datasets`. `Content-Type` is the type of the
    file."""
    kind = declared_kind(request, _file_name(upload_metadata))
    options = replace(options, encoding=kind.encoding)
    labels = label_parameters(request)

    def begin() -> Upload:
        parts, settings = _parts(request), context.settings
        parts.check()  # outside of the transaction, because check() can write a file
        # checked before the free space, because freeing disk space would not help
        service.check_length(upload_length or 0, settings)
        context.part(UploadBuffers).require_free_space(upload_length or 0)
        with once.write() as session:
            upload = service.begin(session, parts, kind.format, options, name, labels, upload_length)
            _tell(request, response, upload)
            response.headers["Location"] = f"/v1/uploads/{upload.id}"
            return once.answer(Upload.model_validate(service.show(upload, settings)))

    return await WRITES.run(begin)


@router.get("/{upload_id}", operation_id="get_upload", responses=problems(404))
def get_upload(upload_id: UploadInPath, request: Request, response: Response, context: InContext) -> Upload:
    """Get the progress of an upload and, once it is complete, the id of its dataset."""
    with context.database.read() as session:
        upload = service.get(session, upload_id)
    _tell(request, response, upload)
    return Upload.model_validate(service.show(upload, context.settings))


@router.head(
    "/{upload_id}",
    status_code=204,
    operation_id="get_upload_offset",
    responses={204: {"description": "Continue at `Upload-Offset`.", "headers": OFFSETS}, **problems(404)},
)
def get_upload_offset(upload_id: UploadInPath, request: Request, response: Response, context: InContext) -> None:
    """Get the offset at which to continue, in the header `Upload-Offset`."""
    with context.database.read() as session:
        _tell(request, response, service.get(session, upload_id))


@router.patch(
    "/{upload_id}",
    operation_id="append_to_upload",
    openapi_extra={"requestBody": PART_BODY},
    responses={
        200: {
            "model": Dataset,
            "description": "Complete. The same file was uploaded before; the response is that dataset.",
        },
        201: {"model": Dataset, "description": "Complete: the new dataset.", "headers": OFFSETS},
        204: {"description": "Stored. The upload is not complete yet.", "headers": OFFSETS},
        **problems(400, 404, 408, 409, 413, 415, 423, 507),
    },
)
async def append_to_upload(
    upload_id: UploadInPath,
    request: Request,
    response: Response,
    context: InContext,
    upload_offset: Annotated[
        int,
        Header(
            ge=0,
            le=MAX_LENGTH,
            description="Position of the first byte of this part: the number of bytes stored so far.",
        ),
    ],
    upload_complete: Annotated[Literal["?0", "?1"] | None, Header(description="`?1`: this is the last part.")] = None,
    prefer: Prefer = None,
) -> Dataset | None:
    """Append bytes to an upload. After a broken connection, `HEAD` returns the offset at which to continue.

    The upload is complete after a part with `Upload-Complete: ?1`, or when `Upload-Length` bytes have arrived. A
    complete upload becomes a dataset, and the response is that of `POST /v1/datasets`.
    """
    if media_type_of(request) not in (*PART_TYPES, ""):
        raise UnsupportedMediaType(f"The Content-Type of the part is not supported; send {PART_TYPES[0]}.")
    parts = _parts(request)
    upload, part = await FILES.run(service.open_part, context.database, parts, upload_id, upload_offset)
    with part:
        await _append(context, upload, part, request.stream())
        upload.received = part.offset
        _tell(request, response, upload)
        if upload_complete != "?1" and part.offset != upload.length:
            response.status_code = 204
            return None
        return await _complete(request, response, context, upload, part, prefer)


@router.delete("/{upload_id}", status_code=204, operation_id="delete_upload", responses=problems(404, 507))
def delete_upload(upload_id: UploadInPath, request: Request, context: InContext) -> None:
    """Delete an upload and its bytes. If the upload is complete, its dataset is kept."""
    service.abandon(context.database, _parts(request), upload_id)


async def _append(context: Context, upload: UploadRow, part: Part, stream: AsyncIterator[bytes]) -> None:
    """Write the bytes to the file in large blocks. Bytes that arrived before a broken connection are kept."""
    buffer, buffers = bytearray(), context.part(UploadBuffers)

    def write(*, durably: bool) -> None:
        if buffer:
            buffers.require_free_space(len(buffer))
        part.write(bytes(buffer))
        buffer.clear()
        if part.offset != part.durable_offset and durably:
            service.acknowledge(context.database, upload.id, part)

    try:
        with buffers:
            async for chunk in stream:
                service.check_room(upload, context.settings, part.offset + len(buffer) + len(chunk))
                buffer += chunk
                if len(buffer) >= buffers.write_bytes:
                    await FILES.run(write, durably=part.offset - part.durable_offset >= SYNC_BYTES)
    finally:
        if part.is_trusted:
            await FILES.run(write, durably=True)


async def _complete(
    request: Request, response: Response, context: Context, upload: UploadRow, part: Part, prefer: str | None
) -> Dataset:
    parts = _parts(request)
    async with _only_trusted(context, parts, upload.id):
        received = await FILES.run(service.seal, context.database, upload, part)
    try:
        async with _only_trusted(context, parts, upload.id):
            dataset = await create_from(request, response, part.path, received, prefer)
    except AppError as error:
        if error.status < 500:  # the file is invalid, so another attempt would fail too
            await WRITES.run(service.abandon, context.database, parts, upload.id)
        raise
    await WRITES.run(service.complete, context.database, parts, upload.id, dataset.id)
    response.headers["Upload-Complete"] = "?1"
    return dataset


@asynccontextmanager
async def _only_trusted(context: Context, parts: PartFiles, upload_id: str) -> AsyncIterator[None]:
    """Reset an upload after a failed fsync. Without the reset, a retry could accept bytes that are not on the disk."""
    try:
        yield
    except UntrustedBytes:
        await WRITES.run(service.begin_again, context.database, parts, upload_id)
        raise


def _parts(request: Request) -> PartFiles:
    return context_of(request).part(PartFiles)


def _tell(request: Request, response: Response, upload: UploadRow) -> None:
    """Set the headers of both protocols that report the progress of an upload."""
    response.headers["Upload-Offset"] = str(upload.received)
    response.headers["Upload-Complete"] = "?0" if upload.dataset_id is None else "?1"
    response.headers["Cache-Control"] = "no-store"
    if upload.length is not None:
        response.headers["Upload-Length"] = str(upload.length)
    if "tus-resumable" in request.headers:
        response.headers["Tus-Resumable"] = TUS_VERSION


def _file_name(metadata: str | None) -> str:
    """Return the `filename` of the tus metadata, which is a list of `key base64` pairs."""
    for pair in (metadata or "").split(","):
        key, _, encoded = pair.strip().partition(" ")
        if key == "filename":
            try:
                return base64.b64decode(encoded, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise Unparsable("Upload-Metadata: the value of filename must be base64 of UTF-8 text.") from None
    return ""
