"""A body on its way to the disk: all of it, in order, and nothing of it is being written when it has failed."""

import asyncio
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from app.datasets.reading.receive import WRITE_BYTES, UploadBuffers, receive_file
from app.storage import BlobStore, StagedBlob


def request_of(chunks: Iterable[bytes | Exception]) -> Request:
    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield {"type": "http.request", "body": chunk, "more_body": True}
        yield {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"content-type", b"text/csv")]
    return Request({"type": "http", "method": "POST", "headers": headers}, stream().__anext__)


def receive(chunks: Iterable[bytes | Exception], staged: StagedBlob) -> None:
    asyncio.run(receive_file(request_of(chunks), staged, UploadBuffers(staged.path.parent)))


@pytest.mark.parametrize(
    "sizes", [[], [1], [WRITE_BYTES], [WRITE_BYTES - 1, 1, 1], [3 * WRITE_BYTES, 5], [300_001] * 20]
)
def test_every_byte_is_written_in_order(tmp_path: Path, sizes: list[int]) -> None:
    chunks = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    with BlobStore(tmp_path).stage() as staged:
        receive(chunks, staged)
        assert staged.path.read_bytes() == b"".join(chunks)
        assert (staged.size, staged.sha256) == (sum(sizes), hashlib.sha256(b"".join(chunks)).hexdigest())


def test_a_body_that_breaks_off_leaves_no_thread_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()
    write = StagedBlob.write

    def write_slowly(staged: StagedBlob, chunk: bytes) -> int:
        begun.set()
        time.sleep(0.2)
        written = write(staged, chunk)
        ended.set()
        return written

    monkeypatch.setattr(StagedBlob, "write", write_slowly)
    with BlobStore(tmp_path).stage() as staged:
        with pytest.raises(ConnectionResetError):
            receive([bytes(WRITE_BYTES), b"1", ConnectionResetError()], staged)
        assert begun.is_set() == ended.is_set()
        assert begun.is_set()


@pytest.mark.parametrize("more", [[], [bytes(WRITE_BYTES)], [ConnectionResetError()]])
def test_a_disk_that_refuses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[bytes | Exception]
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StagedBlob, "write", refuse)
    with BlobStore(tmp_path).stage() as staged, pytest.raises(OSError, match="No space left"):
        receive([bytes(WRITE_BYTES), *more], staged)
