"""From the wire to the disk: which file a request brings, and its bytes as a stream."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.datasets.formats import ENCODINGS, Encoding, Format, file_formats
from app.datasets.reading.multipart_form import boundary_of, read_file_part
from app.errors import UnsupportedMediaType
from app.storage import StagedBlob
from app.web.media_types import guess_type

WRITE_BYTES = 1 << 20
FORM = "multipart/form-data"
MEDIA_TYPES = {one.media_type: one.name for one in file_formats().values()}
SUFFIXES = {suffix: one.media_type for one in file_formats().values() for suffix in one.suffixes}
UNTOLD = ("", "application/octet-stream")  # what clients send that do not know their file's type

FILE_BODY = {
    "required": True,
    "description": "the file itself, or a form with one part `file`; may be compressed (`Content-Encoding`)",
    "content": {
        **{media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES},
        FORM: {
            "schema": {
                "type": "object",
                "required": ["file"],
                "properties": {"file": {"type": "string", "format": "binary"}},
            }
        },
    },
}


@dataclass(frozen=True)
class FileKind:
    """What is needed to know before a file's bytes can be read."""

    format: Format
    encoding: Encoding


def media_type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def file_kind(media_type: str, encoding: str, file_name: str = "") -> FileKind:
    """Judge by the media type; where the client did not know it, by the file's name."""
    if media_type in UNTOLD and file_name:
        guessed, by_name = guess_type(file_name, SUFFIXES)
        media_type = guessed or media_type
        encoding = by_name if encoding == "identity" else encoding
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMediaType(f"Send one of {', '.join(MEDIA_TYPES)} as Content-Type.")
    if encoding not in ENCODINGS:
        raise UnsupportedMediaType(f"The Content-Encoding must be one of {', '.join(ENCODINGS)}.")
    return FileKind(MEDIA_TYPES[media_type], encoding)


def declared_kind(request: Request, file_name: str = "") -> FileKind:
    """What the request's own headers say."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    return file_kind(media_type_of(request), encoding, file_name)


async def receive_file(request: Request, staged: StagedBlob) -> FileKind:
    """Stream the file of a raw body or of a form to disk."""
    if media_type_of(request) != FORM:
        kind = declared_kind(request)
        await _write(request.stream(), staged)
        return kind
    part = await read_file_part(request.stream(), boundary_of(request.headers["content-type"]))
    kind = file_kind(part.media_type, part.encoding, part.file_name)
    await _write(part.chunks, staged)
    return kind


async def _write(stream: AsyncIterator[bytes], staged: StagedBlob) -> None:
    """Large writes, each in a thread while the next one's bytes come in: the event loop never waits for the disk."""
    buffer, writing = bytearray(), None
    try:
        async for chunk in stream:
            buffer += chunk
            if len(buffer) >= WRITE_BYTES:
                if writing is not None:
                    await writing
                writing = asyncio.create_task(run_in_threadpool(staged.write, buffer))
                buffer = bytearray()
    finally:  # also if the body ends early: nobody may close the file under a thread that writes
        if writing is not None:
            await writing
    await run_in_threadpool(staged.write, buffer)
    await run_in_threadpool(staged.flush)
