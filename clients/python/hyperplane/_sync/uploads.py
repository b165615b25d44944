# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""Resumable uploads: send a file in parts and continue after failures from the bytes that the service has."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import httpx

from hyperplane._shared.dataset_types import Upload
from hyperplane._shared.errors import ApiError
from hyperplane._shared.payloads import Payload
from hyperplane._shared.progress import UploadProgress
from hyperplane._shared.requests import Request, document_of, path
from hyperplane._shared.retries import PASSING, Backoff
from hyperplane._shared.waiting import read, sleep
from hyperplane._sync.transport import Transport

__all__ = ["Uploads"]

READ_BYTES = 1 << 18
"""Bytes per read of the file. Larger: fewer calls, more memory, coarser progress. Set by hand; no measurement is
recorded."""
SMALLEST_PART_BYTES = 16 << 10
"""Minimum bytes of a part after repeated failures. Larger: fewer requests, more bytes to send again. Set by hand; no
measurement is recorded."""
PARTS_BEFORE_GROWTH = 16
"""Number of successful parts after which the part size doubles. Larger: fewer failures on a bad connection, more
requests. Set by hand; no measurement is recorded."""
PART_TYPE = "application/partial-upload"
RESUMABLE = (*PASSING, 409)
"""Statuses after which an upload continues. 409: the offset was out of date."""

OnUpload = Callable[[UploadProgress], object]


class Uploads:
    """Resumable uploads. `client.datasets.create` uses them for large files."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, length: int, headers: Mapping[str, str], **options: Any) -> Upload:
        """Begin an upload. Options are those of `datasets.create`."""
        announced = {**headers, "Upload-Length": str(length)}
        request = Request("POST", path("v1", "uploads"), params=options, headers=announced).once()
        return Upload(self._transport.json(request))

    def get(self, upload_id: str) -> Upload:
        """Get the progress of an upload, and the dataset that it became."""
        return Upload(self._transport.json(Request("GET", path("v1", "uploads", upload_id))))

    def offset(self, upload_id: str) -> int:
        """Return the number of bytes that are stored."""
        response = self._transport.send(Request("HEAD", path("v1", "uploads", upload_id)))
        return int(response.headers["Upload-Offset"])

    def append(self, upload_id: str, offset: int, content: bytes, *, complete: bool = False) -> dict[str, Any]:
        """Append bytes. Returns the dataset if the upload is complete now, else an empty dict."""
        headers = {"Content-Type": PART_TYPE, "Upload-Offset": str(offset), "Upload-Complete": f"?{complete:d}"}
        request = Request("PATCH", path("v1", "uploads", upload_id), headers=headers, content=content)
        return _dataset_of(self._transport.send(request))

    def delete(self, upload_id: str) -> None:
        """Delete an upload and its bytes. A dataset that it became is kept."""
        self._transport.send(Request("DELETE", path("v1", "uploads", upload_id)))

    def send(self, payload: Payload, options: Mapping[str, Any], on_progress: OnUpload | None) -> dict[str, Any]:
        """Upload a file and return its dataset. After a failure it continues from the bytes that the service has.

        The first request has the whole file. After a failure without progress the parts become smaller.
        """
        upload = self.create(payload.size, payload.headers, **options)
        backoff = Backoff(self._transport.max_retries)
        offset, part, stored_parts = 0, payload.size, 0
        with payload.open() as file:
            while True:
                end = min(offset + part, payload.size)
                try:
                    dataset = self._send_part(file, upload.id, offset, end, payload.size, on_progress)
                    if dataset:
                        return dataset
                    offset, stored_parts = end, stored_parts + 1
                    part *= 2 if stored_parts % PARTS_BEFORE_GROWTH == 0 else 1
                    backoff.note_progress(offset)
                    continue
                except (httpx.TransportError, ApiError) as error:
                    pause = backoff.pause_after(error, passing=RESUMABLE)
                sleep(pause)
                upload = self.get(upload.id)
                if upload.dataset_id is not None:  # the answer to the last part was lost
                    return self._transport.json(Request("GET", path("v1", "datasets", upload.dataset_id)))
                if upload.offset <= offset:
                    part = max(SMALLEST_PART_BYTES, (end - offset) // 4)
                offset = upload.offset
                backoff.note_progress(offset)

    def _send_part(
        self, file: BinaryIO, upload_id: str, offset: int, end: int, size: int, on_progress: OnUpload | None
    ) -> dict[str, Any]:
        """Send the bytes from `offset` to `end`. Returns the dataset after the last ones, else an empty dict."""
        file.seek(offset)
        headers = {
            "Content-Type": PART_TYPE,
            "Content-Length": str(end - offset),
            "Upload-Offset": str(offset),
            "Upload-Complete": f"?{end == size:d}",
        }
        content = pieces(file, offset, end, size, on_progress)
        response = self._transport.send_once(
            method="PATCH", url=path("v1", "uploads", upload_id), headers=headers, content=content
        )
        return _dataset_of(response)


def _dataset_of(response: httpx.Response) -> dict[str, Any]:
    return {} if response.status_code == 204 else document_of(response)


def pieces(file: BinaryIO, offset: int, end: int, size: int, on_progress: OnUpload | None) -> Iterator[bytes]:
    """Yield the bytes of a file from `offset`, which is its position, to `end`, and report how many were sent."""
    while offset < end and (piece := read(file, min(READ_BYTES, end - offset))):
        offset += len(piece)
        yield piece
        if on_progress:
            on_progress(UploadProgress(offset, size))
