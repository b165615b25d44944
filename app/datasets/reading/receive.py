"""Receives the file of an upload request: determines its format and streams its bytes to disk."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fastapi import Request

from app.datasets.formats import ENCODINGS, Encoding, Format, file_formats
from app.datasets.reading.multipart_form import boundary_of, read_file_part
from app.errors import UnsupportedMediaType
from app.storage import StagedBlob
from app.storage.free_space import require_free_space
from app.web.media_types import guess_type
from app.web.thread_rooms import FILES

WRITE_BYTES = 1 << 20
"""Usual bytes per write of an upload. Larger: fewer writes, more memory per upload. Set by hand; no measurement is
recorded."""
SMALLEST_WRITE_BYTES = 1 << 16
"""Minimum bytes per write of an upload, when many uploads share the memory. Larger: fewer writes, more memory. Set by
hand; no measurement is recorded."""
BUFFER_BYTES = 64 << 20
"""Memory for bytes of all uploads of a process that are not yet written, in bytes. With more than 64 simultaneous
uploads, each write is smaller, down to SMALLEST_WRITE_BYTES. Blocks that are being written need the same memory again.
Larger: fewer writes with many uploads, more memory. Set by hand; no measurement is recorded."""
FORM = "multipart/form-data"
MEDIA_TYPES = {one.media_type: one.name for one in file_formats().values()}
SUFFIXES = {suffix: one.media_type for one in file_formats().values() for suffix in one.suffixes}
UNKNOWN_TYPES = ("", "application/octet-stream")
"""Media types that do not say what a file contains. For these, the suffix of the file name determines the format."""

FILE_BODY = {
    "required": True,
    "description": "The file, or a form with one part `file`. `Content-Encoding` can be `gzip` or `zstd`.",
    "content": {
        **{media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES},
        FORM: {
            "schema": {
                "type": "object",
                "required": ["file"],
                "additionalProperties": False,
                "properties": {"file": {"type": "string", "format": "binary", "description": "The file."}},
            }
        },
    },
}


@dataclass(frozen=True)
class FileKind:
    """The format and the compression of a file."""

    format: Format
    encoding: Encoding


def media_type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def file_kind(media_type: str, encoding: str, file_name: str = "") -> FileKind:
    """Determine format and compression of a file from its media type or, for UNKNOWN_TYPES, from its name."""
    if media_type in UNKNOWN_TYPES and file_name:
        guessed, by_name = guess_type(file_name, SUFFIXES)
        media_type = guessed or media_type
        encoding = by_name if encoding == "identity" else encoding
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMediaType(f"The Content-Type is not supported; send one of {', '.join(MEDIA_TYPES)}.")
    if encoding not in ENCODINGS:
        raise UnsupportedMediaType(f"The Content-Encoding must be one of {', '.join(ENCODINGS)}.")
    return FileKind(MEDIA_TYPES[media_type], encoding)


def declared_kind(request: Request, file_name: str = "") -> FileKind:
    """Determine format and compression of a file from the headers of the request."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    return file_kind(media_type_of(request), encoding, file_name)


class UploadBuffers:
    """Limits the memory and disk space of uploads. Each API process has one UploadBuffers."""

    def __init__(self, folder: Path, reserve_bytes: int = 0) -> None:
        self._uploads = 0
        self._folder = folder
        self._reserve_bytes = reserve_bytes

    @property
    def write_bytes(self) -> int:
        """Return the number of bytes that an upload collects before it writes."""
        return max(SMALLEST_WRITE_BYTES, min(WRITE_BYTES, BUFFER_BYTES // max(1, self._uploads)))

    def require_free_space(self, more_bytes: int) -> None:
        """Raise SpaceReserved if the disk has no room for `more_bytes` bytes in addition to the reserve."""
        require_free_space(self._folder, self._reserve_bytes, more_bytes)

    def __enter__(self) -> Self:
        self._uploads += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._uploads -= 1


async def receive_file(request: Request, staged: StagedBlob, buffers: UploadBuffers) -> FileKind:
    """Stream the file of a raw body or of a form to disk. Returns its format and compression."""
    declared = request.headers.get("content-length", "")
    await FILES.run(buffers.require_free_space, int(declared) if declared.isdecimal() else 0)
    if media_type_of(request) != FORM:
        kind = declared_kind(request)
        await _write(request.stream(), staged, buffers)
        return kind
    part = await read_file_part(request.stream(), boundary_of(request.headers["content-type"]))
    kind = file_kind(part.media_type, part.encoding, part.file_name)
    await _write(part.chunks, staged, buffers)
    return kind


async def _write(stream: AsyncIterator[bytes], staged: StagedBlob, buffers: UploadBuffers) -> None:
    """Write the stream in large blocks. A thread writes a block while the next one arrives, so the event loop never
    waits for the disk."""
    buffer, writing = bytearray(), None

    def write(content: bytearray) -> None:
        buffers.require_free_space(len(content))
        staged.write(content)

    try:
        with buffers:
            async for chunk in stream:
                buffer += chunk
                if len(buffer) >= buffers.write_bytes:
                    if writing is not None:
                        await writing
                    writing = asyncio.create_task(FILES.run(write, buffer))
                    buffer = bytearray()
    finally:  # also if the body ends early, because the caller must not close the file while a thread writes to it
        if writing is not None:
            await writing
    await FILES.run(write, buffer)
    await FILES.run(staged.flush)
